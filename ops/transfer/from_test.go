package transfer_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stele-go/stele/ops/transfer"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/memory"
)

// failing is a saver that cannot read one checkpoint.
type failing struct {
	*memory.Saver
	err error
}

func (f *failing) GetTuple(ctx context.Context, cfg saver.Config) (*saver.Tuple, error) {
	if cfg.CheckpointID == "b" {
		return nil, f.err
	}
	return f.Saver.GetTuple(ctx, cfg)
}

// A damaged checkpoint is kept apart, one that was removed meanwhile is left out, and any other
// error ends the copy.
func TestUnreadable(t *testing.T) {
	errDevice := errors.New("the device is gone")
	for _, c := range []struct {
		err                   error
		rejected, checkpoints int
		ends                  bool
	}{
		{fmt.Errorf("a file: %w", saver.ErrCorrupt), 1, 6, false}, {saver.ErrNotFound, 0, 6, false}, {errDevice, 0, 3, true},
	} {
		rejected := 0
		o := transfer.Options{Reject: func(r *transfer.Rejected) error {
			if rejected++; r.Config.CheckpointID != "b" || !errors.Is(r, saver.ErrCorrupt) {
				t.Errorf("%v", r)
			}
			return nil
		}}
		rep, err := transfer.Copy(t.Context(), transfer.FromSaver(&failing{awkward(t), c.err}), newMemory(), o)
		if errors.Is(err, errDevice) != c.ends || !c.ends && err != nil || rejected != c.rejected || rep.Checkpoints != c.checkpoints {
			t.Errorf("%v: %+v, %d rejected, %v", c.err, rep, rejected, err)
		}
	}
	// Without a place for it, what is rejected ends the copy.
	if _, err := transfer.Copy(t.Context(), transfer.FromSaver(&failing{awkward(t), saver.ErrCorrupt}), newMemory(), transfer.Options{}); !errors.Is(err, saver.ErrCorrupt) {
		t.Errorf("%v", err)
	}
	// The end of the context ends it.
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	rep, err := transfer.Copy(ctx, transfer.FromSaver(awkward(t)), newMemory(), transfer.Options{Progress: func(string, int) {
		if n++; n == 2 {
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) || rep.Checkpoints > 3 {
		t.Errorf("%+v, %v", rep, err)
	}
}
