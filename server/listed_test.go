package server_test

import (
	"context"
	"fmt"
	"iter"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/server"
)

// countedQueue counts the runs that its lists yield. They were submitted an hour ago: those of the last
// minute are listed again, as another one may come among them.
type countedQueue struct {
	*runs.Local
	listed atomic.Int64
}

// List implements runs.Queue.
func (q *countedQueue) List(ctx context.Context, sel runs.Query) iter.Seq2[runs.Run, error] {
	return func(yield func(runs.Run, error) bool) {
		for r, err := range q.Local.List(ctx, sel) {
			r.Created = r.Created.Add(-time.Hour)
			if q.listed.Add(1); !yield(r, err) {
				return
			}
		}
	}
}

// TestListsFewRuns: a page of a thread's runs, its stream, and a reader of its events list about as many
// runs as they show, however many have ended.
func TestListsFewRuns(t *testing.T) {
	var q *countedQueue
	h := open(t, t.TempDir(), func(c *server.Config) {
		q = &countedQueue{Local: c.Queue.(*runs.Local)}
		c.Queue = q
	})
	id := h.thread()
	const many = 40
	run := func() string {
		h.Helper()
		a := h.ok("POST", "/threads/"+id+"/runs", object{"assistant_id": "simple", "input": object{"text": "x"}, "stream_mode": "updates"})
		h.ended(id, a.text1("run_id"))
		return a.text1("run_id")
	}
	var all []string
	for range many {
		all = append(all, run())
	}
	few := func(what string, most int64) {
		t.Helper()
		if n := q.listed.Swap(0); n == 0 || n > most {
			t.Errorf("%s: %d runs were listed, want %d at most", what, n, most)
		}
	}
	q.listed.Store(0)
	page := h.ok("GET", "/threads/"+id+"/runs?limit=5&offset=2", nil).json.([]any)
	if len(page) != 5 || page[0].(object)["run_id"] != all[many-3] || page[4].(object)["run_id"] != all[many-7] {
		t.Errorf("%v", page)
	}
	few("a page", 7)

	// A reader of all events lists each run once, and then what is new.
	res, err := h.request(t.Context(), "POST", "/threads/"+id+"/stream/events", object{"channels": []string{"lifecycle"}})
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	events := make(chan frame, 10000)
	go func() {
		_ = frames(res.Body, func(f frame) bool { events <- f; return true })
		close(events)
	}()
	last := 0
	// read reads the events of so many runs: each begins and ends.
	read := func(n int) {
		t.Helper()
		for range 2 * n {
			f, seq := <-events, 0
			if _, err := fmt.Sscan(f.id, &seq); err != nil || seq <= last {
				t.Fatalf("%v behind %d", f, last)
			}
			last = seq
		}
	}
	read(many)
	run()
	read(1)
	few("a replay", 3*many)
	for range 5 {
		run()
		read(1)
	}
	few("what is new", many/2)
}
