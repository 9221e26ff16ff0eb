package disk_test

import (
	"context"
	"errors"
	"iter"
	"testing"
	"time"

	"github.com/stele-go/stele/base/metrics"
	"github.com/stele-go/stele/base/race"
	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/base/vfs/crashfs"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
)

// TestEraseBesideAListing: who lists the thread while it is erased reads it to the end,
// values and all; when Erase returns nothing of it is left.
func TestEraseBesideAListing(t *testing.T) {
	mem := vfs.NewMem(vfs.MemOptions{})
	s := openFor(t, "store", eraseOptions(), disk.Simulation{FS: mem, Inline: true})
	v := fill(t, s)
	next, stop := iter.Pull2(s.List(t.Context(), saver.Query{ThreadID: v.id}))
	defer stop()
	tup, err, ok := next()
	if must(t, err); !ok {
		t.Fatal("nothing is listed")
	}
	done := make(chan error, 1)
	go func() { done <- s.Erase(t.Context(), v.id) }()
	for s.Metrics().Compactions == 0 {
		if _, err := s.GetTuple(t.Context(), saver.Config{ThreadID: "copy"}); err != nil {
			t.Fatal(err)
		}
	}
	select { // time enough for an Erase that does not wait
	case err := <-done:
		t.Fatalf("Erase returned %v beside the listing", err)
	case <-time.After(50 * time.Millisecond):
	}
	n := 0
	for ; ok; tup, err, ok = next() {
		must(t, err)
		for _, value := range tup.Checkpoint.Values {
			_, err := value.Any()
			must(t, err)
		}
		n++
		select {
		case err := <-done:
			t.Fatalf("Erase returned %v beside the listing, after %d checkpoints", err, n)
		default:
		}
	}
	if n != 11 {
		t.Fatalf("%d checkpoints were listed", n)
	}
	must(t, <-done)
	wantErased(t, mem, s, v)
}

// TestEraseAfterBrokenCompaction: what a compaction wrote before it was cancelled, or
// before the power failed, is erased too.
func TestEraseAfterBrokenCompaction(t *testing.T) {
	for at := 1; ; at += race.Every {
		mem, opts := vfs.NewMem(vfs.MemOptions{WindowsRules: true}), eraseOptions()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		families := 0
		opts.Events.Compacting = func(metrics.CompactProgress) {
			if families++; families == at {
				cancel()
			}
		}
		s := openFor(t, "store", opts, disk.Simulation{FS: mem, Inline: true, SegmentSize: 1})
		v := fill(t, s)
		err := s.Compact(ctx)
		if err == nil && families < at {
			break
		}
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("cancelled before family %d: %v", at, err)
		}
		must(t, s.Erase(t.Context(), v.id))
		wantErased(t, mem, s, v)
		must(t, s.Close())
	}
	fs := crashfs.New()
	s := openFor(t, "store", eraseOptions(), disk.Simulation{FS: fs, Rand: func() uint64 { return 7 }, Inline: true, SegmentSize: 1})
	v := fill(t, s)
	from := fs.Len()
	must(t, s.Compact(t.Context()))
	states := 0
	for cut := from; cut <= fs.Len(); cut += 2 * race.Every {
		for st := range fs.States(cut, crashfs.Options{Seed: uint64(cut), Random: 1, MaxTorn: 1, MaxSingle: 1}) {
			states++
			sv := st.FS()
			d, err := disk.Open("store", eraseOptions().In(disk.Simulation{FS: sv, Inline: true}))
			if err != nil {
				t.Fatalf("cut %d, %s: %v", cut, st, err)
			}
			must(t, d.Erase(t.Context(), v.id))
			wantErased(t, sv, d, v)
			must(t, d.Close())
		}
	}
	t.Logf("%d crash states of a compaction", states)
	if states < 50/race.Every {
		t.Errorf("%d crash states of a compaction", states)
	}
}
