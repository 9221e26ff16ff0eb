package runs

import (
	"errors"
	"testing"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/store"
)

// The queue knows the child of a place whose record was lost, or is not stored yet: it is not started anew, and another one in its
// place is refused.
func TestChildOfPlace(t *testing.T) {
	items, err := store.NewMemory(store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	q, err := NewLocal(t.Context(), items, LocalOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := q.Submit(t.Context(), Request{Spec: Spec{ThreadID: "p", Graph: "g"}}); err != nil {
		t.Fatal(err)
	}
	c, _, err := q.Claim(t.Context(), "w", []string{"g"})
	if err != nil || c == nil {
		t.Fatal(c, err)
	}
	spec := pregel.ChildSpec{ThreadID: "k", Graph: "child", Input: "a", InputHash: "1"}
	other, input, uncounted := spec, spec, spec
	other.Graph, input.InputHash, uncounted.InputHash = "other", "2", ""
	for _, s := range []struct {
		spec pregel.ChildSpec
		want error
	}{{spec, nil}, {spec, nil}, {other, pregel.ErrCallMismatch}, {input, pregel.ErrCallMismatch}, {uncounted, nil}} {
		if err := (children{&Worker{Queue: q}, *c}).StartChild(t.Context(), s.spec); !errors.Is(err, s.want) {
			t.Errorf("%+v: %v, want %v", s.spec, err, s.want)
		}
	}
	if n, err := q.Count(t.Context(), Query{ThreadID: "k"}); err != nil || n != 1 {
		t.Fatalf("%d runs, %v", n, err)
	}
}
