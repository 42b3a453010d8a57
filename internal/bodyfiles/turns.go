package bodyfiles

import "sync"

// turns gives each tenant one place.
type turns struct {
	mu       sync.Mutex
	byTenant map[string]*turn
}

type turn struct {
	place chan struct{}
	users int // that wait for it or have it
}

// of is the tenant's place, which is kept until as many are done with it.
func (t *turns) of(tenant string) chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	one := t.byTenant[tenant]
	if one == nil {
		if t.byTenant == nil {
			t.byTenant = make(map[string]*turn)
		}
		one = &turn{place: make(chan struct{}, 1)}
		t.byTenant[tenant] = one
	}
	one.users++
	return one.place
}

func (t *turns) done(tenant string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	one := t.byTenant[tenant]
	if one.users--; one.users == 0 {
		delete(t.byTenant, tenant)
	}
}
