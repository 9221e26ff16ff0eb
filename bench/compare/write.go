package main

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/stele-go/stele/bench"
	"github.com/stele-go/stele/bench/compare/peer"
)

var taskIDs = [...]string{"5a6cc58f-18d9-7bf4-96d2-4a9e6b2f5f0c", "0c2f2ba1-9d1c-d3d6-2a3e-7f0f0f2f7a10"}

// raw serialises the values of steps beforehand.
func raw(steps []bench.Step) []bench.Step {
	for i := range steps {
		steps[i] = steps[i].Typed()
	}
	return steps
}

// latencies are durations of single calls.
type latencies []time.Duration

func (l *latencies) since(start time.Time) time.Time {
	now := time.Now()
	*l = append(*l, now.Sub(start))
	return now
}

// report adds quantiles in ms.
func (l latencies) report(out figures, name string) {
	if len(l) == 0 {
		return
	}
	slices.Sort(l)
	for _, q := range []int{50, 95, 99} {
		out[fmt.Sprintf("%s p%d ms", name, q)] = float64(l[q*(len(l)-1)/100].Nanoseconds()) / 1e6
	}
}

// chat is W1: two threads in turn, messages that grow by two each step.
func (c cell) chat(isRaw bool) (figures, error) {
	steps := bench.NewData(7).Chat(c.Size.ChatSteps)
	handed := chatBytes(steps)
	if isRaw {
		steps = raw(steps)
	}
	s, err := c.open()
	if err != nil {
		return nil, err
	}
	return c.chatOn(s, steps, handed)
}

// chatOfEngine is W1 as package pregel saves it: values come serialized, and the task
// writes of a step become durable with the checkpoint after them.
func (c cell) chatOfEngine() (figures, error) {
	steps := bench.NewData(7).Chat(c.Size.ChatSteps)
	handed := chatBytes(steps)
	s, err := peer.OpenEngineStele(c.options())
	if err != nil {
		return nil, err
	}
	return c.chatOn(s, raw(steps), handed)
}

func (c cell) chatOn(s peer.Store, steps []bench.Step, handed float64) (figures, error) {
	out, n := figures{}, 2*len(steps)
	var puts latencies
	m := startMeter(c.Dir, s)
	for i := range n {
		st, thread, parent := &steps[i/2], fmt.Sprintf("chat-%d", i%2), ""
		if i >= 2 {
			parent = steps[i/2-1].Checkpoint.ID
		}
		start := time.Now()
		if err := s.Put(thread, parent, st); err != nil {
			return nil, err
		}
		puts.since(start)
		for t := range st.Writes {
			if err := s.PutWrites(thread, st.Checkpoint.ID, taskIDs[t], st.Writes[t:t+1]); err != nil {
				return nil, err
			}
		}
	}
	m.stop(out, n)
	out["steps/s"] = float64(n) / out["s"]
	puts.report(out, "put")
	return out, c.finish(s, out, n, 2*handed)
}

// chatBytes is what the changed channels of steps are, serialised and whole.
func chatBytes(steps []bench.Step) float64 {
	n := 0
	for _, st := range raw(slices.Clone(steps)) {
		for _, v := range st.Checkpoint.Values {
			t, err := v.Typed()
			if err != nil {
				panic(err) // it was serialised just now
			}
			n += len(t.Data)
		}
	}
	return float64(n)
}

// finish adds what the store says of itself, closes it, and measures its files as
// written and compacted.
func (c cell) finish(s peer.Store, out figures, n int, handed float64) error {
	if syncs, ok := s.Syncs(); ok {
		out["syncs/step"] = float64(syncs) / float64(n)
	}
	written, err := c.closeSized(s)
	if err != nil {
		return err
	}
	out["disk B/step"] = float64(written) / float64(n)
	packed, err := c.compactDir()
	if err != nil {
		return err
	}
	out["compacted B/step"] = packed["disk B"] / float64(n)
	if handed > 0 {
		out["smaller %"] = 100 * (1 - float64(written)/handed)
	}
	return nil
}

// many is W2: writers with a thread each.
func (c cell) many() (figures, error) {
	steps := bench.NewData(8).Small(c.Size.ManySteps, 2048)
	o := c.options()
	o.Writers = c.Size.Writers
	s, err := c.openWith(o)
	if err != nil {
		return nil, err
	}
	out, n := figures{}, len(steps)*o.Writers
	took, errs := make([]latencies, o.Writers), make([]error, o.Writers)
	m := startMeter(c.Dir, s)
	var wg sync.WaitGroup
	for w := range o.Writers {
		wg.Go(func() { took[w], errs[w] = c.writer(s, fmt.Sprintf("many-%03d", w), steps) })
	}
	wg.Wait()
	m.stop(out, n)
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	out["commits/s"] = 2 * float64(n) / out["s"]
	slices.Concat(took...).report(out, "put")
	return out, c.finish(s, out, n, 0)
}

func (c cell) writer(s peer.Store, thread string, steps []bench.Step) (latencies, error) {
	var puts latencies
	parent := ""
	for i := range steps {
		st := &steps[i]
		start := time.Now()
		if err := s.Put(thread, parent, st); err != nil {
			return nil, err
		}
		puts.since(start)
		parent = st.Checkpoint.ID
		if err := s.PutWrites(thread, parent, taskIDs[0], st.Writes); err != nil {
			return nil, err
		}
	}
	return puts, nil
}
