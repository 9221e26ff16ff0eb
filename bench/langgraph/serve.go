package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/stele-go/stele/bench/graphs"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/saver/memory"
)

// request asks a side for one measurement, or with Work what one run does.
type request struct {
	Graph      string  `json:"graph"`
	Saver      string  `json:"saver"` // none, memory or disk
	Durability string  `json:"durability"`
	Seconds    float64 `json:"seconds,omitempty"`
	Work       bool    `json:"work,omitempty"`
	Dir        string  `json:"dir,omitempty"` // new, for a saver on disk

	sync disk.SyncMode // of a saver on disk
}

// timed answers a measurement.
type timed struct {
	Seconds float64 `json:"seconds"`
	CPU     float64 `json:"cpu"` // seconds the whole process computed
	Runs    int     `json:"runs"`
}

// work is what one run did: nodes run, the result, and of the stored checkpoints
// the number, the number of their pending writes, and the newest one's step.
type work struct {
	Tasks       int `json:"tasks"`
	Result      int `json:"result"`
	Checkpoints int `json:"checkpoints"`
	Writes      int `json:"writes"`
	Step        int `json:"step"`
}

// serve answers requests, one a line, until in ends.
func serve(in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	answers := json.NewEncoder(out)
	for lines.Scan() {
		var r request
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return err
		}
		answer, err := r.answer(context.Background())
		if err != nil {
			return err
		}
		if err := answers.Encode(answer); err != nil {
			return err
		}
	}
	return lines.Err()
}

// answer does what r asks for; the answer is a timed or a work.
func (r request) answer(ctx context.Context) (answer any, err error) {
	w, ok := graphs.Find(r.Graph)
	if !ok {
		return nil, fmt.Errorf("graph %q is unknown", r.Graph)
	}
	s, done, err := r.open()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, done()) }()
	var ran atomic.Int64
	g, err := w.Build(s, &ran)
	if err != nil {
		return nil, err
	}
	d := pregel.Durability(r.Durability)
	if r.Work {
		state, err := w.Run(ctx, g, "thread", d)
		if err != nil {
			return nil, err
		}
		return countWork(ctx, s, work{Tasks: int(ran.Load()), Result: w.Result(state)})
	}
	begin, computed := time.Now(), cpuSeconds()
	for runs := 1; ; runs++ {
		if _, err := w.Run(ctx, g, fmt.Sprint("thread-", runs), d); err != nil {
			return nil, err
		}
		if took := time.Since(begin).Seconds(); took >= r.Seconds {
			return timed{Seconds: took, CPU: cpuSeconds() - computed, Runs: runs}, nil
		}
	}
}

func (r request) open() (s saver.Saver, done func() error, err error) {
	switch r.Saver {
	case "none":
		return nil, func() error { return nil }, nil
	case "memory":
		m := memory.New(memory.Options{})
		return m, m.Close, nil
	case "disk":
		d, err := disk.Open(r.Dir, disk.Options{Sync: r.sync})
		if err != nil {
			return nil, nil, err
		}
		return d, d.Close, nil
	}
	return nil, nil, fmt.Errorf("saver %q is unknown", r.Saver)
}

// countWork adds to w what s holds.
func countWork(ctx context.Context, s saver.Saver, w work) (work, error) {
	if s == nil {
		return w, nil
	}
	for t, err := range s.List(ctx, saver.Query{ThreadID: "thread"}) {
		if err != nil {
			return w, err
		}
		if w.Checkpoints == 0 {
			w.Step, _ = t.Metadata.Step()
		}
		w.Checkpoints++
		w.Writes += len(t.PendingWrites)
	}
	return w, nil
}
