package bodyfiles

import "sync"

// turns gives each tenant a few places.
type turns struct {
	each     int // places
	mu       sync.Mutex
	byTenant map[string]*turn
}

type turn struct {
	places chan struct{}
	users  int // that wait for one or have it
}

// of are the tenant's places, which are kept until as many are done with it.
func (t *turns) of(tenant string) chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	one := t.byTenant[tenant]
	if one == nil {
		one = &turn{places: make(chan struct{}, t.each)}
		t.byTenant[tenant] = one
	}
	one.users++
	return one.places
}

func (t *turns) done(tenant string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	one := t.byTenant[tenant]
	if one.users--; one.users == 0 {
		delete(t.byTenant, tenant)
	}
}
