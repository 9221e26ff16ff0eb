package disk_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stele-go/stele/base/race"
	"github.com/stele-go/stele/base/vfs/crashfs"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
)

// TestEraseCrashStates: whatever a crash inside Erase leaves, the thread is there as
// it was, or it is deleted and its erasure is known to be unfinished, and can be
// finished; after Erase has returned, nothing is left in any crash state.
func TestEraseCrashStates(t *testing.T) {
	fs := crashfs.New()
	sim := disk.Simulation{FS: fs, Rand: func() uint64 { return 7 }, Inline: true}
	s := openFor(t, "store", eraseOptions(), sim)
	v := fill(t, s)
	from := fs.Len()
	must(t, s.Erase(t.Context(), v.id))
	to := fs.Len()
	var states, before, resumed, done int
	for cut := from; cut <= to; cut += race.Every {
		for st := range fs.States(cut, crashfs.Options{Seed: uint64(cut), Random: 1, MaxTorn: 1, MaxSingle: 1}) {
			states++
			sv := st.FS()
			d, err := disk.Open("store", eraseOptions().In(disk.Simulation{FS: sv, Inline: true}))
			if err != nil {
				t.Fatalf("cut %d, %s: %v", cut, st, err)
			}
			pending, err := d.PendingErasures()
			must(t, err)
			_, err = d.GetTuple(t.Context(), saver.Config{ThreadID: v.id})
			switch there := err == nil; {
			case !there && !errors.Is(err, saver.ErrNotFound):
				t.Fatalf("cut %d, %s: %v", cut, st, err)
			case there && (pending > 0 || cut == to):
				t.Fatalf("cut %d, %s: the thread is there, %d erasures pending", cut, st, pending)
			case there:
				before++
			case pending > 0:
				resumed++
				must(t, d.FinishErasures(t.Context()))
				wantErased(t, sv, d, v)
			default:
				done++
				wantErased(t, sv, d, v)
			}
			must(t, d.Close())
		}
	}
	t.Logf("%d cuts, %d crash states: %d before, %d resumed, %d finished", to-from+1, states, before, resumed, done)
	if before == 0 || resumed == 0 || done == 0 {
		t.Errorf("of %d states %d are before, %d inside, %d after", states, before, resumed, done)
	}
}

// An iterator that was begun before the erasure keeps files: Erase waits for it, or
// says that it did not finish.
func TestEraseWaitsForViews(t *testing.T) {
	dir := t.TempDir()
	s := openFor(t, dir, eraseOptions(), disk.Simulation{})
	v := fill(t, s)
	view, err := s.Inside().Engine.View()
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	unfinished := make(chan error)
	go func() { unfinished <- s.Erase(ctx, v.id) }()
	for s.Metrics().Compactions == 0 {
		if _, err := s.GetTuple(t.Context(), saver.Config{ThreadID: "copy"}); err != nil {
			t.Error(err) // reads go on
		}
	}
	cancel()
	if err := <-unfinished; !errors.Is(err, saver.ErrEraseUnfinished) || !errors.Is(err, context.Canceled) {
		t.Fatalf("with a view open: %v", err)
	}
	if n, err := s.PendingErasures(); n != 1 || err != nil {
		t.Fatalf("%d pending, %v", n, err)
	}
	go func() { unfinished <- s.FinishErasures(t.Context()) }()
	for s.Metrics().Compactions == 1 {
		mustPutOther(t, s)
	}
	view.Release()
	must(t, <-unfinished)
	if n, err := s.PendingErasures(); n != 0 || err != nil {
		t.Fatalf("%d pending, %v", n, err)
	}
}

func mustPutOther(t *testing.T, s *disk.Saver) {
	t.Helper()
	cp := saver.Checkpoint{V: 4, ID: "0001", Values: map[string]saver.Value{}, Versions: map[string]saver.Version{}}
	if _, err := s.Put(t.Context(), saver.Config{ThreadID: "other"}, cp, nil, nil); err != nil {
		t.Error(err)
	}
}
