package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/stele-go/stele/bench"
	"github.com/stele-go/stele/bench/compare/peer"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
)

// besideRun prints what puts take beside a compaction, and alone.
func besideRun(o options, w io.Writer) error {
	dir, err := os.MkdirTemp(o.dir, "stele-beside-")
	if err != nil {
		return err
	}
	r := &run{options: o, size: fullSizes, results: map[key][]figures{}, log: os.Stderr}
	r.dir = dir
	columns := []string{"alone p50 ms", "beside p50 ms", "alone p99 ms", "beside p99 ms", "p99 ratio", "puts", "compactions", "MB compacted", "MB/s compacted"}
	k := key{Work: "beside"}
	for range o.rounds {
		out, err := r.cell("beside", "stele", peer.Durable, r.path("beside"))
		if err != nil {
			return errors.Join(err, os.RemoveAll(dir))
		}
		r.results[k] = append(r.results[k], out)
		if err := os.RemoveAll(r.path("beside")); err != nil {
			return err
		}
	}
	fmt.Fprintf(w, "%d rounds: durable puts of one caller, without and with a compaction beside it.\n\n| %s |\n|%s\n|", o.rounds,
		strings.Join(columns, " | "), strings.Repeat("---:|", len(columns)))
	for _, c := range columns {
		fmt.Fprintf(w, " %s |", r.cellText(k, c))
	}
	v := r.judge(budget{"beside", 2, true, func(q round) (float64, bool) { return q.get(k, "p99 ratio") }})
	word := "missed"
	if v.met {
		word = "met"
	}
	fmt.Fprintf(w, "\n\nbeside: p99 × %s (%s-%s), limit × 2: %s\n", number(v.median), number(v.q1), number(v.q3), word)
	return os.RemoveAll(dir)
}

// beside measures durable puts of one caller: some while the store is compacted over and
// over, until at least one compaction has ended, and then as many while nothing else goes
// on, in turns.
func (c cell) beside() (figures, error) {
	steps := raw(bench.NewData(8).Small(100, 2048))
	s, err := disk.Open(c.Dir, disk.Options{Sync: disk.SyncNever})
	if err != nil {
		return nil, err
	}
	for t := range c.Size.Threads / 50 {
		cfg := saver.Config{ThreadID: fmt.Sprintf("old-%06d", t)}
		for i := range steps {
			if cfg, err = s.Put(context.Background(), cfg, steps[i].Checkpoint, steps[i].Metadata, steps[i].Changed); err != nil {
				return nil, err
			}
		}
	}
	if err := s.Close(); err != nil {
		return nil, err
	}
	if s, err = disk.Open(c.Dir, disk.Options{}); err != nil {
		return nil, err
	}
	if err := s.Compact(context.Background()); err != nil {
		return nil, err
	}
	b := besidePuts{s: s, steps: steps}
	var warm, alone, beside latencies
	if err := b.times(&warm, c.Size.Reads/20); err != nil {
		return nil, err
	}
	before := s.Metrics()
	var took time.Duration
	for range 4 {
		start, n := time.Now(), len(beside)
		if err := b.compacting(&beside, c.Size.Reads/5); err != nil {
			return nil, err
		}
		took += time.Since(start)
		if err := b.times(&alone, len(beside)-n); err != nil {
			return nil, err
		}
	}
	after := s.Metrics()
	moved := after.CompactedIn - before.CompactedIn + after.CompactedOut - before.CompactedOut
	out := figures{"puts": float64(len(beside)), "compactions": float64(after.Compactions - before.Compactions),
		"MB compacted": float64(moved) / 1e6, "MB/s compacted": float64(moved) / 1e6 / took.Seconds()}
	alone.report(out, "alone")
	beside.report(out, "beside")
	out["p99 ratio"] = out["beside p99 ms"] / out["alone p99 ms"]
	return out, s.Close()
}

// besideThreads is how many threads get puts. Were each a thread of its own, a compaction would
// have the more to do the longer the last one took, and sooner or later none would end. It
// shares no factor with the number of steps, so that each thread gets all of them.
const besideThreads = 199

// besidePuts puts checkpoints into threads in turn.
type besidePuts struct {
	s     *disk.Saver
	steps []bench.Step
	n     int
}

func (b *besidePuts) put(took *latencies) error {
	st := &b.steps[b.n%len(b.steps)]
	cfg := saver.Config{ThreadID: fmt.Sprintf("new-%06d", b.n%besideThreads)}
	b.n++
	start := time.Now()
	_, err := b.s.Put(context.Background(), cfg, st.Checkpoint, st.Metadata, st.Changed)
	took.since(start)
	return err
}

func (b *besidePuts) times(took *latencies, n int) error {
	for range n {
		if err := b.put(took); err != nil {
			return err
		}
	}
	return nil
}

// mostBeside bounds a window: at most so many times the puts it was asked for. Where a
// sync costs next to nothing, puts may add to a store faster than it is compacted, and no
// compaction would end while they go on. The window then ends first. All of its puts were
// made beside a compaction all the same.
const mostBeside = 100

// compacting puts while the store is compacted: at least n times and until a compaction
// has ended, but at most mostBeside times n. It returns when the last compaction has ended
// too.
func (b *besidePuts) compacting(took *latencies, n int) error {
	var ended atomic.Int64
	var stop atomic.Bool
	done := make(chan error, 1)
	go func() {
		var err error
		for err == nil && !stop.Load() {
			err = b.s.Compact(context.Background())
			ended.Add(1)
		}
		done <- err
	}()
	var err error
	for i := 0; err == nil && (i < n || ended.Load() == 0 && i < mostBeside*n); i++ {
		err = b.put(took)
	}
	stop.Store(true)
	return errors.Join(err, <-done)
}
