package server

import (
	"slices"
	"strconv"
	"testing"
)

// TestChildrenFirst: however long a chain of children is, or if it is a circle, each thread is there once, those of children first.
func TestChildrenFirst(t *testing.T) {
	const n = 20_000
	f := newThings()
	for i := range n {
		f.threads[strconv.Itoa(i)] = &usersThread{}
		f.parents[strconv.Itoa(i)] = strconv.Itoa(i - 1) // of the first it is none that was found
	}
	ids := f.childrenFirst()
	for i, id := range ids {
		if id != strconv.Itoa(n-1-i) {
			t.Fatalf("%s is at %d", id, i)
		}
	}
	f = newThings()
	for child, parent := range map[string]string{"a": "b", "b": "a", "c": "a", "d": "c"} {
		f.threads[child], f.parents[child] = &usersThread{}, parent
	}
	ids = f.childrenFirst()
	if at := func(id string) int { return slices.Index(ids, id) }; len(ids) != 4 || at("d") > at("c") || at("c") > at("a") {
		t.Errorf("%v", ids)
	}
}
