package runs

import (
	"testing"

	"github.com/stele-go/stele/store"
)

// newQueue is an empty queue, and the store in memory that has it.
func newQueue(t *testing.T, o LocalOptions) (*Local, *store.Local) {
	t.Helper()
	items, err := store.NewMemory(store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	q, err := NewLocal(t.Context(), items, o)
	if err != nil {
		t.Fatal(err)
	}
	return q, items
}

// submitted is a run that was submitted.
func submitted(t *testing.T, q *Local, req Request) Run {
	t.Helper()
	r, err := q.Submit(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
