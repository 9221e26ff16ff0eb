package disk_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stele-go/stele/base/metrics"
	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
)

// TestCompactTellsHowFarItIs: progress adds up and never goes back; a compaction that is
// cancelled half way loses nothing and keeps what it has finished, and the next one
// writes the rest alone.
func TestCompactTellsHowFarItIs(t *testing.T) {
	const threads = 16
	var seen []metrics.CompactProgress
	stopAt, stop := 0, context.CancelFunc(nil)
	o := disk.Options{ManualWork: true, Events: metrics.Events{Compacting: func(p metrics.CompactProgress) {
		if seen = append(seen, p); len(seen) == stopAt {
			stop()
		}
	}}}
	s := openFor(t, "store", o, disk.Simulation{FS: vfs.NewMem(vfs.MemOptions{}), Inline: true, SegmentSize: 8 << 10})
	v := &victim{markers: map[string][]byte{}, rng: rand.New(rand.NewPCG(8, 9))}
	for i := range threads {
		for n := 1; n <= 2; n++ {
			v.put(t, s, fmt.Sprintf("t%02d", i), n, nil, v.random("x"))
		}
	}
	must(t, s.Flush(t.Context()))
	for i := range threads {
		_, err := s.Prune(t.Context(), []string{fmt.Sprintf("t%02d", i)}, saver.KeepLatest)
		must(t, err)
	}
	must(t, s.Flush(t.Context()))
	whole := s.Stats().SegmentBytes
	ctx, cancel := context.WithCancel(t.Context())
	stopAt, stop = threads/2, cancel
	if err := s.Compact(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("a cancelled compaction: %v", err)
	}
	half := s.Stats().SegmentBytes
	addsUp(t, seen, threads)
	stopAt, seen = 0, nil
	must(t, s.Compact(t.Context()))
	addsUp(t, seen, 0)
	if wrote := seen[len(seen)-1].BytesOut; wrote > threads*3000*7/10 {
		t.Errorf("%d bytes are written to end a compaction that was half done", wrote)
	}
	if n := s.Stats().SegmentBytes; n > whole*6/10 {
		t.Errorf("%d bytes, %d half way, %d in the end", whole, half, n)
	}
	if got := count(t, s); got != threads {
		t.Errorf("%d checkpoints are left of %d", got, threads)
	}
}

// addsUp holds progress against itself, and against the families there are in all,
// unless that is 0.
func addsUp(t *testing.T, seen []metrics.CompactProgress, all int) {
	t.Helper()
	for i, p := range seen {
		if all == 0 {
			all = p.Families + p.FamiliesLeft
		}
		if p.Families != i || p.Families+p.FamiliesLeft != all || p.Inputs == 0 || p.BytesIn == 0 || p.BytesIn != seen[0].BytesIn {
			t.Errorf("call %d: %+v of %d families", i, p, all)
		}
		if i > 0 && p.BytesOut < seen[i-1].BytesOut {
			t.Errorf("call %d: %d bytes written after %d", i, p.BytesOut, seen[i-1].BytesOut)
		}
	}
}
