package savertest

import (
	"errors"
	"fmt"
	"sync"

	"github.com/stele-go/stele/saver"
)

// concurrently runs call for 0 to n-1 at the same time and returns the errors, by index.
func (e *env) concurrently(n int, call func(i int) error) []error {
	e.Helper()
	errs := make([]error, n)
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			<-start
			errs[i] = call(i)
		})
	}
	close(start)
	wg.Wait()
	return errs
}

var concurrencyCases = []testCase{
	{id: "concurrent", name: "writes of many tasks on one checkpoint", fn: func(e *env) {
		cfg := e.put(step{id: id(1)})
		const tasks, calls = 32, 4
		for _, err := range e.concurrently(tasks, func(i int) error {
			for j := range calls {
				if err := e.s.PutWrites(e.ctx, cfg, writes("ch", i, fmt.Sprint("other-", j), j), fmt.Sprintf("task-%02d-%d", i, j), ""); err != nil {
					return err
				}
			}
			return nil
		}) {
			e.ok("put writes", err)
		}
		var want []any
		for i := range tasks {
			for j := range calls {
				task := fmt.Sprintf("task-%02d-%d", i, j)
				want = append(want, task, "ch", i, task, fmt.Sprint("other-", j), j)
			}
		}
		e.pending(e.get(cfg), want...)
	}},
	{id: "concurrent", name: "writes of one task: one call is first", fn: func(e *env) {
		cfg := e.put(step{id: id(1)})
		for _, err := range e.concurrently(16, func(i int) error { return e.s.PutWrites(e.ctx, cfg, writes("a", i, "b", i), "task", "") }) {
			e.ok("put writes", err)
		}
		ws := e.get(cfg).PendingWrites
		e.equal("writes", len(ws), 2)
		e.equal("the second is of the same call as the first", e.any(ws[1].Value), e.any(ws[0].Value))
	}},
	{id: "concurrent", name: "threads, readers and deletions side by side", fn: func(e *env) {
		const workers, rounds = 8, 12
		for _, err := range e.concurrently(workers, func(i int) error { return e.churn(i, rounds) }) {
			e.ok("worker", err)
		}
		for i := range workers {
			thread := fmt.Sprint("thread-", i)
			tup := e.get(saver.Config{ThreadID: thread})
			e.equal("head", tup.Config.CheckpointID, id(rounds))
			e.values(tup, map[string]any{"a": fmt.Sprint(thread, rounds), "still": thread})
			e.pending(tup, "task", "ch", rounds)
		}
	}},
}

// churn writes a thread of its own, half-way deletes it and begins anew, and
// reads all threads meanwhile.
func (e *env) churn(worker, rounds int) error {
	thread := fmt.Sprint("thread-", worker)
	for n := 1; n <= rounds; n++ {
		st := step{thread: thread, id: id(n), values: map[string]any{"a": fmt.Sprint(thread, n), "still": thread},
			vers: map[string]any{"a": n, "still": 1}, fresh: []string{"a"}}
		switch n {
		case 1, rounds / 2:
			st.fresh = nil
		default:
			st.parent = id(n - 1)
		}
		if n == rounds/2 {
			if err := e.s.DeleteThread(e.ctx, thread); err != nil {
				return err
			}
		}
		if _, err := e.tryPut(st); err != nil {
			return err
		}
		if err := e.s.PutWrites(e.ctx, saver.Config{ThreadID: thread, CheckpointID: id(n)}, writes("ch", n), "task", ""); err != nil {
			return err
		}
		for tup, err := range e.s.List(e.ctx, saver.Query{Limit: 5}) {
			if err != nil {
				return err
			}
			v, ok := tup.Checkpoint.Values["still"]
			if !ok {
				return fmt.Errorf("%+v has no value", tup.Config)
			}
			if got, err := v.Any(); err != nil && !errors.Is(err, saver.ErrNotFound) || err == nil && got != tup.Config.ThreadID {
				return fmt.Errorf("%+v reads %v, %v", tup.Config, got, err)
			}
		}
	}
	return nil
}
