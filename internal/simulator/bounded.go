package simulator

import "container/list"

// bounded is a map that forgets its oldest entries. It is not safe for
// concurrent use.
type bounded[V any] struct {
	max   int
	order *list.List // of *node[V], oldest first
	byKey map[string]*list.Element
}

type node[V any] struct {
	key   string
	value V
}

func newBounded[V any](max int) *bounded[V] {
	return &bounded[V]{max: max, order: list.New(), byKey: map[string]*list.Element{}}
}

func (b *bounded[V]) get(key string) (value V, ok bool) {
	if e := b.byKey[key]; e != nil {
		return e.Value.(*node[V]).value, true
	}
	return value, false
}

// set keeps the age of an entry that is there already.
func (b *bounded[V]) set(key string, value V) {
	if e := b.byKey[key]; e != nil {
		e.Value.(*node[V]).value = value
		return
	}
	b.byKey[key] = b.order.PushBack(&node[V]{key, value})
	if b.order.Len() > b.max {
		b.delete(b.order.Front().Value.(*node[V]).key)
	}
}

func (b *bounded[V]) delete(key string) {
	if e := b.byKey[key]; e != nil {
		b.order.Remove(e)
		delete(b.byKey, key)
	}
}

// newest yields the values, the last one set first.
func (b *bounded[V]) newest(yield func(V) bool) {
	for e := b.order.Back(); e != nil; e = e.Prev() {
		if !yield(e.Value.(*node[V]).value) {
			return
		}
	}
}
