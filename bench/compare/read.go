package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/stele-go/stele/bench"
	"github.com/stele-go/stele/bench/compare/peer"
)

func wideThread(n int) string { return fmt.Sprintf("wide-%06d", n) }

// fillLatest makes the threads of W3. The state of 50 of them is made, and given
// to all in turn.
func (c cell) fillLatest() (figures, error) {
	d, steps := bench.NewData(9), make([]bench.Step, 50)
	for i := range steps {
		steps[i] = d.Wide().Typed()
	}
	return c.fill(func(s peer.Store) error {
		for i := range c.Size.Threads {
			if err := s.Put(wideThread(i), "", &steps[i%len(steps)]); err != nil {
				return err
			}
		}
		return nil
	})
}

func (c cell) fill(fn func(peer.Store) error) (figures, error) {
	s, err := c.open()
	if err != nil {
		return nil, err
	}
	if err := fn(s); err != nil {
		return nil, err
	}
	n, err := c.closeSized(s)
	return figures{"disk MB": float64(n) / (1 << 20)}, err
}

// latest is W3: the newest tuple of random threads. Cold is the first read of a
// thread after opening; the kernel's page cache is warm.
func (c cell) latest() (figures, error) {
	out := figures{}
	for _, form := range []string{"raw", "decoded"} {
		before := heap()
		s, err := c.open()
		if err != nil {
			return nil, err
		}
		order := rand.New(rand.NewPCG(10, 42)).Perm(c.Size.Threads)
		for _, cache := range []string{"cold", "warm"} {
			cpu, start := cpuTime(s), time.Now()
			var gets latencies
			for i := range c.Size.Reads {
				began := time.Now()
				t, err := s.Get(wideThread(order[i%len(order)]), "")
				if err == nil {
					err = use(t, form)
				}
				if err != nil {
					return nil, err
				}
				gets.since(began)
			}
			name := cache + " " + form
			out[name+" get/s"] = float64(c.Size.Reads) / time.Since(start).Seconds()
			out[name+" cpu µs"] = float64((cpuTime(s) - cpu).Microseconds()) / float64(c.Size.Reads)
			gets.report(out, name)
		}
		if err := c.latestAtOnce(s, order, form, out); err != nil {
			return nil, err
		}
		out["heap MB"], out["rss MB"] = max(out["heap MB"], heap()-before), peakMB(s)
		if err := s.Close(); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// readers is how many goroutines read at once.
const readers = 8

// latestAtOnce is the warm part of W3 by several goroutines at once.
func (c cell) latestAtOnce(s peer.Store, order []int, form string, out figures) error {
	took, errs := make([]latencies, readers), make([]error, readers)
	start := time.Now()
	var wg sync.WaitGroup
	for w := range readers {
		wg.Go(func() {
			for i := w; i < c.Size.Reads && errs[w] == nil; i += readers {
				began := time.Now()
				t, err := s.Get(wideThread(order[i%len(order)]), "")
				if err == nil {
					err = use(t, form)
				}
				took[w].since(began)
				errs[w] = err
			}
		})
	}
	wg.Wait()
	name := fmt.Sprintf("%d at once %s", readers, form)
	out[name+" get/s"] = float64(c.Size.Reads) / time.Since(start).Seconds()
	slices.Concat(took...).report(out, name)
	return errors.Join(errs...)
}

func use(t *peer.Tuple, form string) error {
	if form == "decoded" {
		return t.Decode()
	}
	_, err := t.Raw()
	return err
}

// heap is what lives on the heap after collections that emptied the pools, in MB.
func heap() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc) / (1 << 20)
}

const historyThread = "history"

// fillHistory makes the thread of W4: one chat.
func (c cell) fillHistory() (figures, error) {
	steps := raw(bench.NewData(7).Chat(c.Size.ChatSteps))
	return c.fill(func(s peer.Store) error {
		parent := ""
		for i := range steps {
			st := &steps[i]
			if err := s.Put(historyThread, parent, st); err != nil {
				return err
			}
			parent = st.Checkpoint.ID
			for t := range st.Writes {
				if err := s.PutWrites(historyThread, parent, taskIDs[t], st.Writes[t:t+1]); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// history is W4: listing a chat, and reading one checkpoint of it by its id.
func (c cell) history() (figures, error) {
	s, err := c.open()
	if err != nil {
		return nil, err
	}
	out := figures{}
	list := func(name string, times int, values bool) error {
		var took latencies
		for range times {
			n, start := 0, time.Now()
			err := s.List(historyThread, 0, values, func(t *peer.Tuple) error {
				n++
				return use(t, "raw")
			})
			if err != nil {
				return err
			}
			took.since(start)
			if n != c.Size.ChatSteps {
				return fmt.Errorf("listed %d of %d", n, c.Size.ChatSteps)
			}
		}
		took.report(out, name)
		return nil
	}
	if err := list("list", 5, true); err != nil {
		return nil, err
	}
	if err := list("list metadata", 20, false); err != nil {
		return nil, err
	}
	r := rand.New(rand.NewPCG(11, 42))
	var gets latencies
	for range 200 {
		start := time.Now()
		t, err := s.Get(historyThread, bench.CheckpointID(r.IntN(c.Size.ChatSteps)))
		if err == nil {
			err = use(t, "raw")
		}
		if err != nil {
			return nil, err
		}
		gets.since(start)
	}
	gets.report(out, "by id")
	out["rss MB"] = peakMB(s)
	return out, s.Close()
}

func openThread(n int) string { return fmt.Sprintf("open-%06d", n) }

// fillOpen makes the store of W5: checkpoints of many threads, in turn.
func (c cell) fillOpen() (figures, error) {
	steps := raw(bench.NewData(12).Small(c.Size.OpenEach, 700))
	return c.fill(func(s peer.Store) error { return c.putAll(s, steps, "", 0, c.Size.OpenThreads*len(steps)) })
}

// putAll puts n steps upon first, each to all threads before the next.
func (c cell) putAll(s peer.Store, steps []bench.Step, first string, from, n int) error {
	for i := range n {
		k := i / c.Size.OpenThreads
		parent := first
		if k > 0 {
			parent = steps[from+k-1].Checkpoint.ID
		}
		if err := s.Put(openThread(i%c.Size.OpenThreads), parent, &steps[from+k]); err != nil {
			return err
		}
	}
	return nil
}

// killSteps are the steps put before the kill; the first of them that is new has
// the index OpenEach.
func (c cell) killSteps() []bench.Step {
	return raw(bench.NewData(13).Small(c.Size.OpenEach+(c.Size.Killed+c.Size.OpenThreads-1)/c.Size.OpenThreads, 700))
}

// kill puts some more, and dies.
func (c cell) kill() (figures, error) {
	s, err := c.open()
	if err != nil {
		return nil, err
	}
	if err := c.putAll(s, c.killSteps(), bench.CheckpointID(c.Size.OpenEach-1), c.Size.OpenEach, c.Size.Killed); err != nil {
		return nil, err
	}
	return nil, die()
}

// lost counts the puts of a killed process that are not there.
func (c cell) lost() (figures, error) {
	s, err := c.open()
	if err != nil {
		return nil, err
	}
	lost := 0
	steps := c.killSteps()
	for i := range c.Size.Killed {
		t, err := s.Get(openThread(i%c.Size.OpenThreads), steps[c.Size.OpenEach+i/c.Size.OpenThreads].Checkpoint.ID)
		if err == peer.ErrNotFound {
			lost++
			continue
		}
		if err == nil {
			_, err = t.Raw()
		}
		if err != nil {
			return nil, err
		}
	}
	return figures{"lost": float64(lost)}, s.Close()
}

// reopen is workload W5 of docs/performance.md: from calling Open to the first answer.
func (c cell) reopen() (figures, error) { return c.reopenAt(openThread(c.Size.OpenThreads / 2)) }

func (c cell) reopenAt(thread string) (figures, error) {
	before, out := heap(), figures{}
	start := time.Now()
	s, err := c.open()
	if err != nil {
		return nil, err
	}
	t, err := s.Get(thread, "")
	if err == nil {
		_, err = t.Raw()
	}
	if err != nil {
		return nil, err
	}
	out["ready ms"] = float64(time.Since(start).Nanoseconds()) / 1e6
	out["heap MB"] = max(0, heap()-before)
	out["rss MB"] = peakMB(s)
	return out, s.Close()
}
