package pregel_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/memory"
)

// A node says whether a graph that it runs is a part of its own run: an address that is
// empty does not.
func TestInside(t *testing.T) {
	place := func(ctx context.Context, _ any) (any, error) {
		info, _ := pregel.Task(ctx)
		return info.ThreadID, nil
	}
	inner := fan(t, pregel.Options{}, node("inner", place))
	for thread, at := range map[string]pregel.Address{"outer": pregel.Inside(), "": {}, "own": pregel.Thread("own")} {
		var got any
		outer := fan(t, pregel.Options{Saver: memory.New(memory.Options{})}, node("outer", func(ctx context.Context, v any) (any, error) {
			res, err := inner.Invoke(ctx, at, v)
			if err == nil {
				got = res.Value
			}
			return "", err
		}))
		if _, err := outer.Invoke(ctx, pregel.Thread("outer"), 1); err != nil {
			t.Fatal(err)
		}
		if ran, _ := got.([]any); len(ran) != 1 || ran[0] != thread {
			t.Errorf("the graph inside ran on %v, not on %q", got, thread)
		}
	}
	if _, err := inner.Invoke(ctx, pregel.Inside(), 1); !errors.Is(err, pregel.ErrOutsideTask) {
		t.Errorf("inside of nothing: %v", err)
	}
	saved := fan(t, pregel.Options{Saver: memory.New(memory.Options{})}, node("a", place))
	if _, err := saved.Invoke(ctx, pregel.Address{}, 1); !errors.Is(err, pregel.ErrInvalidArgument) {
		t.Errorf("a saver and no thread: %v", err)
	}
}

// The address of a checkpoint is in the thread and namespace it was made from, and takes
// nothing else along.
func TestAddressAt(t *testing.T) {
	a := pregel.Address{ThreadID: "t", Namespace: "n", CheckpointID: "old", CheckpointMap: map[string]string{"": "x"}}.At("new")
	if a.ThreadID != "t" || a.Namespace != "n" || a.CheckpointID != "new" || a.CheckpointMap != nil {
		t.Errorf("%+v", a)
	}
}

// TestStateOfNoCheckpoint: a checkpoint that is named and not there is an error, but not with LangGraph's ways; a thread
// without a checkpoint is empty.
func TestStateOfNoCheckpoint(t *testing.T) {
	for _, langGraph := range []bool{false, true} {
		g := fan(t, pregel.Options{Saver: memory.New(memory.Options{}), LangGraph: langGraph}, node("a", func(context.Context, any) (any, error) { return 1, nil }))
		if st, err := g.GetState(ctx, pregel.Thread("t")); err != nil || st.CreatedAt != "" {
			t.Errorf("an empty thread: %+v, %v", st, err)
		}
		if _, err := g.Invoke(ctx, pregel.Thread("t"), 1); err != nil {
			t.Fatal(err)
		}
		if st, err := g.GetState(ctx, pregel.Thread("t").At("nope")); errors.Is(err, saver.ErrNotFound) == langGraph || langGraph && (err != nil || st.CreatedAt != "") {
			t.Errorf("with LangGraph's ways %v: %+v, %v", langGraph, st, err)
		}
	}
}
