package engine

// byName is a map from ids for what has few of them as a rule: a commit changes one
// partition or two, for which a list is cheaper than a map. The zero value is empty.
type byName[T any] struct {
	list []named[T] // in the order they were first set
	at   map[string]int
}

type named[T any] struct {
	id string
	v  T
}

// fewNames is how many ids are searched for one by one.
const fewNames = 8

func (b *byName[T]) find(id string) int {
	if b.at != nil {
		if i, ok := b.at[id]; ok {
			return i
		}
		return -1
	}
	for i := range b.list {
		if b.list[i].id == id {
			return i
		}
	}
	return -1
}

// get returns what id was set to.
func (b *byName[T]) get(id string) (v T, ok bool) {
	if i := b.find(id); i >= 0 {
		return b.list[i].v, true
	}
	return v, false
}

// set replaces what id was set to.
func (b *byName[T]) set(id string, v T) {
	if i := b.find(id); i >= 0 {
		b.list[i].v = v
		return
	}
	b.list = append(b.list, named[T]{id, v})
	switch n := len(b.list); {
	case b.at != nil:
		b.at[id] = n - 1
	case n > fewNames:
		b.at = make(map[string]int, 2*n)
		for i := range b.list {
			b.at[b.list[i].id] = i
		}
	}
}
