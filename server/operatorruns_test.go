package server_test

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/server"
)

// tallied is a queue that counts the runs that its listings yield.
type tallied struct {
	runs.Queue
	yielded *atomic.Int64
}

func (q tallied) List(ctx context.Context, sel runs.Query) iter.Seq2[runs.Run, error] {
	return func(yield func(runs.Run, error) bool) {
		for r, err := range q.Queue.List(ctx, sel) {
			if q.yielded.Add(1); !yield(r, err) {
				return
			}
		}
	}
}

// TestVersionsOfRuns: an operator sees which version runs have that have not ended, which of them wait for a worker
// of it, and how many workers are alive.
func TestVersionsOfRuns(t *testing.T) {
	h := open(t, t.TempDir(), func(c *server.Config) { c.Workers = -1 })
	r := must(h.queue.Submit(t.Context(), runs.Request{Spec: runs.Spec{Graph: "simple", ThreadID: "t"}}))
	if _, err := h.queue.Serve(t.Context(), "w", map[string]string{"simple": "2"}); err != nil {
		t.Fatal(err)
	}
	h.equal(h.ok("GET", "/stele/versions", nil), `{"versions": [{"graph": "simple", "version": "", "runs": 1, "pinned": 0, "workers": 0},
		{"graph": "simple", "version": "2", "runs": 0, "pinned": 0, "workers": 1}]}`)
	c, _, err := h.queue.Claim(t.Context(), "w", []string{"simple"})
	if err != nil {
		t.Fatal(err)
	}
	if err := h.queue.Finish(t.Context(), *c, runs.Outcome{Status: runs.Pending, Version: "1", After: time.Now().Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	h.equal(h.ok("GET", "/stele/versions", nil), `{"versions": [{"graph": "simple", "version": "1", "runs": 1, "pinned": 1, "workers": 0},
		{"graph": "simple", "version": "2", "runs": 0, "pinned": 0, "workers": 1}]}`)
	list := h.ok("GET", "/stele/runs", nil).object()["runs"].([]any)
	if got := list[0].(object); got["run_id"] != r.ID || got["version"] != "1" || got["pinned"] != true {
		t.Errorf("%v", got)
	}
}

// TestOperatorsRunsReadAPage: the list of the newest runs, and the numbers of runs among the metrics,
// read no more runs than they show.
func TestOperatorsRunsReadAPage(t *testing.T) {
	yielded := new(atomic.Int64)
	h := open(t, t.TempDir(), func(c *server.Config) { c.Queue, c.Workers = tallied{c.Queue, yielded}, -1 })
	const many = 450
	var last runs.Run
	for i := range many {
		last = must(h.queue.Submit(t.Context(), runs.Request{Spec: runs.Spec{Graph: "simple", ThreadID: fmt.Sprint("t", i%3)}}))
	}
	for path, total := range map[string]float64{"/stele/runs": many, "/stele/runs?status=pending": many, "/stele/runs?status=success": 0, "/stele/runs?thread_id=t1": many / 3} {
		yielded.Store(0)
		got := h.ok("GET", path, nil).object()
		list := got["runs"].([]any)
		if got["total"] != total || len(list) != min(int(total), 200) || yielded.Load() > 200 {
			t.Errorf("%s: %d of %v runs, want of %v; %d were read", path, len(list), got["total"], total, yielded.Load())
		}
		if strings.HasSuffix(path, "runs") && list[0].(object)["run_id"] != last.ID {
			t.Errorf("%s: the first is %v, not the newest", path, list[0])
		}
	}
	yielded.Store(0)
	if text := h.ok("GET", "/metrics", nil).text; !strings.Contains(text, fmt.Sprintf("stele_server_runs{status=\"pending\"} %d\n", many)) || yielded.Load() > 0 {
		t.Errorf("%d runs were read for %s", yielded.Load(), text)
	}
}
