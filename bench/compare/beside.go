package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/stele-go/stele/bench"
	"github.com/stele-go/stele/bench/compare/peer"
	"github.com/stele-go/stele/saver"
)

// besideRun prints what puts take beside a compaction, and alone.
func besideRun(o options, w io.Writer) error {
	dir, err := os.MkdirTemp(o.dir, "stele-beside-")
	if err != nil {
		return err
	}
	r := &run{options: o, size: fullSizes, results: map[key][]figures{}, log: os.Stderr}
	r.dir = dir
	columns := []string{"alone p50 ms", "beside p50 ms", "alone p99 ms", "beside p99 ms", "p99 ratio", "compactions"}
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
	fmt.Fprintf(w, "%d rounds: durable puts of one caller, without and with a compaction beside it.\n\n| %s |\n|%s\n|", o.rounds, strings.Join(columns, " | "), strings.Repeat("---:|", len(columns)))
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

// beside measures durable puts, some while nothing else goes on and as many while the
// store is compacted over and over, in turns.
func (c cell) beside() (figures, error) {
	steps := raw(bench.NewData(8).Small(100, 2048))
	s, err := saver.Open(c.Dir, saver.Options{Sync: saver.SyncNever})
	if err != nil {
		return nil, err
	}
	n := 0
	put := func(st *bench.Step) error {
		n++
		_, err := s.Put(context.Background(), saver.Config{ThreadID: fmt.Sprintf("new-%06d", n)}, st.Checkpoint, st.Metadata, st.Changed)
		return err
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
	if s, err = saver.Open(c.Dir, saver.Options{}); err != nil {
		return nil, err
	}
	if err := s.Flush(context.Background()); err != nil {
		return nil, err
	}
	var alone, beside latencies
	compactions := 0
	for range 4 {
		if err := timed(&alone, c.Size.Reads/20, put, steps); err != nil {
			return nil, err
		}
		ctx, stop := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() {
			for {
				if err := s.Compact(ctx); err != nil {
					done <- err
					return
				}
				compactions++
			}
		}()
		err := timed(&beside, c.Size.Reads/20, put, steps)
		stop()
		if cerr := <-done; !errors.Is(cerr, context.Canceled) {
			err = errors.Join(err, cerr)
		}
		if err != nil {
			return nil, err
		}
	}
	out := figures{"compactions": float64(compactions)}
	alone.report(out, "alone")
	beside.report(out, "beside")
	out["p99 ratio"] = out["beside p99 ms"] / out["alone p99 ms"]
	return out, s.Close()
}

func timed(took *latencies, n int, put func(*bench.Step) error, steps []bench.Step) error {
	for i := range n {
		start := time.Now()
		if err := put(&steps[i%len(steps)]); err != nil {
			return err
		}
		took.since(start)
	}
	return nil
}
