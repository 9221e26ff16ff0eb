package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/stele-go/stele/bench"
	"github.com/stele-go/stele/bench/compare/peer"
)

// fleetSeed is that of all realistic data.
const fleetSeed = 21

// putFleet puts one step of a thread, and its write beside it.
func putFleet(s peer.Store, f *bench.Fleet, t, n int, puts *latencies) error {
	thread, st := f.Thread(t), f.Step(t, n)
	parent, task := f.ID(t, n-1), f.Task(t, n)
	start := time.Now()
	if err := s.Put(thread, parent, &st); err != nil {
		return err
	}
	puts.since(start)
	return s.PutWrites(thread, st.Checkpoint.ID, task, st.Writes)
}

// manyRealistic is W2 on realistic data: writers with a thread each.
func (c cell) manyRealistic() (figures, error) {
	out, err := c.putRealistic(c.Size.Writers, c.Size.Writers, c.Size.ManySteps)
	if err != nil {
		return nil, err
	}
	packed, err := c.compactDir()
	if err != nil {
		return nil, err
	}
	out["compacted B/step"] = packed["disk B"] / float64(c.Size.Writers*c.Size.ManySteps)
	return out, nil
}

// fillRealistic is one caller who fills many threads in turn.
func (c cell) fillRealistic() (figures, error) {
	return c.putRealistic(1, c.Size.FleetThreads, c.Size.OpenEach)
}

// putRealistic puts all steps of all threads, and measures what that costs until nothing of
// it is put off any more: closed, opened again, and flushed.
func (c cell) putRealistic(writers, threads, steps int) (figures, error) {
	fleet, o := bench.NewFleet(fleetSeed, threads, steps), c.options()
	o.Writers = writers
	s, err := c.openWith(o)
	if err != nil {
		return nil, err
	}
	out, total := figures{}, threads*steps
	took, errs := make([]latencies, writers), make([]error, writers)
	m := startMeter(c.Dir, s)
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := w; i < total && errs[w] == nil; i += writers { // threads is a multiple of writers
				errs[w] = putFleet(s, fleet, i%threads, i/threads, &took[w])
			}
		})
	}
	wg.Wait()
	out["commits/s"] = 2 * float64(total) / time.Since(m.start).Seconds()
	out["puts cpu µs/step"] = float64((cpuTime(s) - m.cpu).Microseconds()) / float64(total)
	if syncs, ok := s.Syncs(); ok {
		out["syncs/step"] = float64(syncs) / float64(total)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if s, err = c.settle(s, o, out, total); err != nil {
		return nil, err
	}
	m.store = s
	m.stop(out, total)
	slices.Concat(took...).report(out, "put")
	return out, s.Close()
}

// settle closes a store, opens it and flushes it, and says how long the first two took and
// what lay on the disk between them.
func (c cell) settle(s peer.Store, o peer.Options, out figures, total int) (peer.Store, error) {
	ms := func(start time.Time) float64 { return float64(time.Since(start).Nanoseconds()) / 1e6 }
	sizer, sizes := s.(peer.Sizer)
	var written int64
	var err error
	if sizes {
		if written, err = sizer.Size(); err != nil {
			return nil, err
		}
	}
	start := time.Now()
	if err := s.Close(); err != nil {
		return nil, err
	}
	out["close ms"] = ms(start)
	if !sizes {
		if written, err = diskBytes(c.Dir); err != nil {
			return nil, err
		}
	}
	out["disk B/step"] = float64(written) / float64(total)
	start = time.Now()
	if s, err = c.openWith(o); err != nil {
		return nil, err
	}
	out["open ms"] = ms(start)
	return s, s.Flush()
}

// fillOpenRealistic makes the store of W5 of realistic data.
func (c cell) fillOpenRealistic() (figures, error) {
	return c.fill(func(s peer.Store) error { return c.fleetTurns(s, 0, c.Size.FleetThreads*c.Size.OpenEach) })
}

// fleetTurns puts n steps, one of each thread in turn, from a thread's step on.
func (c cell) fleetTurns(s peer.Store, from, n int) error {
	threads := c.Size.FleetThreads
	fleet := bench.NewFleet(fleetSeed, threads, from+(n+threads-1)/threads)
	var puts latencies
	for i := range n {
		if err := putFleet(s, fleet, i%threads, from+i/threads, &puts); err != nil {
			return err
		}
	}
	return nil
}

// killRealistic puts some more, and dies.
func (c cell) killRealistic() (figures, error) {
	s, err := c.open()
	if err != nil {
		return nil, err
	}
	if err := c.fleetTurns(s, c.Size.OpenEach, c.Size.Killed); err != nil {
		return nil, err
	}
	return nil, die()
}

// lostRealistic counts the puts of a killed process that are not there, or without their write.
func (c cell) lostRealistic() (figures, error) {
	s, err := c.open()
	if err != nil {
		return nil, err
	}
	lost, threads := 0, c.Size.FleetThreads
	fleet := bench.NewFleet(fleetSeed, threads, 0)
	for i := range c.Size.Killed {
		t := i % threads
		got, err := s.Get(fleet.Thread(t), fleet.ID(t, c.Size.OpenEach+i/threads))
		if errors.Is(err, peer.ErrNotFound) {
			lost++
			continue
		}
		if err == nil {
			_, err = got.Raw()
		}
		if err != nil {
			return nil, err
		}
		if len(got.Writes) != 1 {
			lost++
		}
	}
	return figures{"lost": float64(lost)}, s.Close()
}

// reopenRealistic is W5 on realistic data: from calling Open to the first answer.
func (c cell) reopenRealistic() (figures, error) {
	fleet := bench.NewFleet(fleetSeed, c.Size.FleetThreads, 0)
	return c.reopenAt(fleet.Thread(c.Size.FleetThreads / 2))
}

// prepareRealistic plans the cells of realistic data. The slow engines make W2 alone: a
// fill takes them minutes. In the quick run peers are killed once.
func (r *run) prepareRealistic(e peer.Engine) error {
	for _, mode := range []peer.Mode{peer.Durable, peer.Relaxed} {
		r.add("W2", planned{key: key{"W2/realistic", e.Name, mode, ""}})
	}
	if !e.Quick {
		return nil
	}
	r.add("fill", planned{key: key{"fill/realistic", e.Name, peer.Relaxed, ""}})
	if !r.wants("W5") {
		return nil
	}
	closed := r.path("W5real", e.Name, "closed")
	if _, err := r.cell("fillW5/realistic", e.Name, peer.Relaxed, closed); err != nil {
		return err
	}
	r.add("W5", planned{key{"W5close/realistic", e.Name, peer.Relaxed, ""}, closed, true})
	for _, mode := range []peer.Mode{peer.Durable, peer.Relaxed} {
		for _, part := range []string{"", fewer} {
			if r.quick && e.Name != "stele" && (mode == peer.Durable || part == fewer) {
				continue
			}
			if err := r.prepareKilled(e, mode, part, closed); err != nil {
				return err
			}
		}
	}
	return nil
}

// fewer marks the stores that were killed after a tenth of the puts.
const fewer = "a tenth"

// prepareKilled plans to open what a kill left.
func (r *run) prepareKilled(e peer.Engine, mode peer.Mode, part, closed string) error {
	size := r.size
	defer func() { r.size = size }()
	if part == fewer {
		r.size.Killed /= 10
	}
	killed, probe := r.path("W5real", e.Name, string(mode), part), r.path("W5real", "probe")
	if err := copyDir(closed, killed); err != nil {
		return err
	}
	if _, err := r.cell("kill/realistic", e.Name, mode, killed); err != nil {
		return err
	}
	if err := copyDir(killed, probe); err != nil {
		return err
	}
	lost, err := r.cell("lost/realistic", e.Name, mode, probe)
	if err != nil {
		return err
	}
	if mode == peer.Durable && lost["lost"] > 0 {
		return fmt.Errorf("%s lost %.0f durable puts", e.Name, lost["lost"])
	}
	r.results[key{"lost/realistic", e.Name, mode, part}] = []figures{lost}
	r.add("W5", planned{key{"W5kill/realistic", e.Name, mode, part}, killed, true})
	return os.RemoveAll(probe)
}
