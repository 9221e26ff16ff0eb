package pregel

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stele-go/stele/saver"
)

// held is a pipeline whose first save waits until release, so that others queue up behind it.
type held struct {
	*pipeline
	release chan struct{}
	saved   []bool // whether each save that ended was deferred, the syncs of close left out
	syncs   int
}

func newHeld(t *testing.T) *held {
	t.Helper()
	h := &held{pipeline: newPipeline(t.Context(), time.Minute, nil, nil), release: make(chan struct{})}
	h.sync = func(context.Context) error { h.syncs++; return nil }
	h.submit(h.save(func() error { <-h.release; return nil }))
	return h
}

func (h *held) save(do func() error) *saveOp {
	return &saveOp{what: "checkpoint", barrier: true, run: saveFunc(func(ctx context.Context) error {
		if err := do(); err != nil {
			return err
		}
		h.saved = append(h.saved, saver.SyncDeferred(ctx))
		return nil
	})}
}

func stored() error { return nil }

// Checkpoints that wait for each other share a sync, a bounded number of them, and the last is
// always durable: then no sync is due.
func TestCheckpointsShareASync(t *testing.T) {
	h := newHeld(t)
	for range together + 4 {
		h.submit(h.save(stored))
	}
	close(h.release)
	if err := h.flush(); err != nil {
		t.Fatal(err)
	}
	if h.syncDue {
		t.Error("the flush left a checkpoint that is not durable")
	}
	if err := h.close(); err != nil {
		t.Fatal(err)
	}
	want := []bool{false}
	for i := 1; i <= together+4; i++ {
		want = append(want, i != together && i != together+4)
	}
	if !slices.Equal(h.saved, want) {
		t.Errorf("deferred: %v, want %v", h.saved, want)
	}
	if h.syncs != 0 {
		t.Errorf("%d syncs of an empty debt", h.syncs)
	}
}

// Of checkpoints that were to share the sync of one that is refused, those stored before it are
// made durable before the run returns.
func TestRefusalLeavesTheStoredDurable(t *testing.T) {
	h, refused := newHeld(t), errors.New("refused")
	h.submit(h.save(stored))
	h.submit(h.save(func() error { return refused }))
	h.submit(h.save(stored))
	close(h.release)
	if err := h.close(); !errors.Is(err, refused) {
		t.Fatalf("close: %v", err)
	}
	if want := []bool{false, true}; !slices.Equal(h.saved, want) {
		t.Fatalf("deferred: %v, want %v", h.saved, want)
	}
	if h.syncs != 1 {
		t.Errorf("%d syncs, want 1", h.syncs)
	}
}

// A saver that cannot make deferred saves durable is given none.
func TestNoSyncDefersNothing(t *testing.T) {
	h := newHeld(t)
	h.sync = nil
	h.submit(h.save(stored))
	h.submit(h.save(stored))
	close(h.release)
	if err := h.close(); err != nil {
		t.Fatal(err)
	}
	if slices.Contains(h.saved, true) || len(h.saved) != 3 {
		t.Errorf("deferred: %v", h.saved)
	}
}
