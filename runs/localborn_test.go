package runs

import (
	"errors"
	"reflect"
	"slices"
	"testing"

	"github.com/stele-go/stele/saver/serde"
)

// TestBorn: a run that has not changed since it was submitted has one item, and is what it was when the
// queue opens again, in its place among those that have two. Of one whose item has lost the run, the
// queue tells.
func TestBorn(t *testing.T) {
	ctx := t.Context()
	q, items := newQueue(t, LocalOptions{})
	submit := func(key string) Run {
		t.Helper()
		return submitted(t, q, Request{Spec: Spec{ThreadID: "t", Graph: "g", Metadata: map[string]any{"a": "b"}}, Key: key})
	}
	first, second, third, damaged := submit("1"), submit("2"), submit("3"), submit("4")
	c, _, err := q.Claim(ctx, "w", []string{"g"})
	if err != nil || c == nil || c.ID != first.ID {
		t.Fatal(c, err)
	}
	if err := q.Finish(ctx, *c, Outcome{Status: Success}); err != nil {
		t.Fatal(err)
	}
	for _, r := range []Run{second, third} {
		if _, err := items.Get(ctx, runsSpace, r.ID); err == nil {
			t.Errorf("run %s has an item of its own", r.ID)
		}
	}
	// The third is stored in two items, as queues did that knew no other way.
	spec, err := items.Get(ctx, specsSpace, third.ID)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := items.Batch(ctx, textOp(runsSpace, third.ID, spec.Value[bornField].(string)), textOp(specsSpace, third.ID, spec.Value[jsonField].(string)),
		textOp(specsSpace, damaged.ID, `{"graph":"g"}`)); err != nil {
		t.Fatal(err)
	}

	if q, err = NewLocal(ctx, items, LocalOptions{}); err != nil {
		t.Fatal(err)
	}
	var ids []string
	for r, err := range q.List(ctx, Query{}) {
		if errors.Is(err, ErrUnreadable) != (r.ID == damaged.ID) || err != nil && !errors.Is(err, serde.ErrMalformed) {
			t.Errorf("run %s: %v", r.ID, err)
		}
		ids = append(ids, r.ID)
	}
	if want := []string{first.ID, second.ID, third.ID, damaged.ID}; !slices.Equal(ids, want) {
		t.Errorf("%q, want %q", ids, want)
	}
	for _, want := range []Run{second, third} {
		if got, err := q.Get(ctx, want.ID); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, %v; want %+v", got, err, want)
		}
		if again, err := q.Submit(ctx, Request{Spec: Spec{ThreadID: "t", Graph: "g"}, Key: want.Key}); err != nil || again.ID != want.ID {
			t.Errorf("key %s is that of %s, %v", want.Key, again.ID, err)
		}
		if c, _, err := q.Claim(ctx, "w", []string{"g"}); err != nil || c == nil || c.ID != want.ID || !reflect.DeepEqual(c.Spec, want.Spec) {
			t.Errorf("claimed %+v, %v; want %+v", c, err, want)
		} else if err := q.Finish(ctx, *c, Outcome{Status: Success}); err != nil {
			t.Error(err)
		}
	}
	if err := q.Delete(ctx, damaged.ID); err != nil {
		t.Error(err)
	}
	if q, err = NewLocal(ctx, items, LocalOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{first.ID, second.ID, third.ID} {
		if r, err := q.Get(ctx, id); err != nil || r.Status != Success {
			t.Errorf("%+v, %v", r, err)
		}
	}
	if _, err := q.Get(ctx, damaged.ID); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
}
