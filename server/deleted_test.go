package server_test

import (
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/server"
)

// followed counts who follows a run.
type followed struct {
	*runs.Local
	by *atomic.Int64
}

func (q followed) Watch(id string) (<-chan struct{}, func()) {
	changed, stop := q.Local.Watch(id)
	if id == "" { // a worker
		return changed, stop
	}
	q.by.Add(1)
	return changed, func() { q.by.Add(-1); stop() }
}

// TestDeletedWhileFollowed: who waits for a run, joins it or streams it while its thread is deleted is told
// so: by a status if the answer has not begun, and else by an error in it.
func TestDeletedWhileFollowed(t *testing.T) {
	for name, heartbeat := range map[string]time.Duration{"before the answer": time.Hour, "in the answer": time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			followers := new(atomic.Int64)
			h := open(t, t.TempDir(), func(c *server.Config) {
				c.Heartbeat, c.Queue = heartbeat, followed{c.Queue.(*runs.Local), followers}
			})
			for range 5 {
				id := h.thread()
				run := h.ok("POST", "/threads/"+id+"/runs", object{"assistant_id": "slow", "input": object{"text": "x"}}).text1("run_id")
				busy := object{"assistant_id": "slow", "input": object{"text": "x"}}
				var done sync.WaitGroup
				follow := func(method, path string, in any, stream bool) {
					done.Go(func() {
						res, err := h.request(t.Context(), method, "/threads/"+id+path, in)
						if err != nil {
							t.Error(err)
							return
						}
						defer res.Body.Close()
						text, err := io.ReadAll(res.Body)
						if err != nil {
							t.Error(path, err)
						}
						if !strings.Contains(string(text), "was deleted") || stream && res.StatusCode == 200 && !strings.Contains(string(text), "event: error") || res.StatusCode != 404 && (res.StatusCode != 200 || !stream && !strings.Contains(string(text), "__error__")) {
							t.Errorf("%s: %d %q", path, res.StatusCode, text)
						}
					})
				}
				follow("GET", "/runs/"+run+"/join", nil, false)
				follow("GET", "/runs/"+run+"/stream", nil, true)
				follow("POST", "/runs/wait", busy, false)
				follow("POST", "/runs/stream", busy, true)
				h.until("all are followed", func() bool { return followers.Load() == 4 })
				h.ok("DELETE", "/threads/"+id, nil)
				done.Wait()
			}
		})
	}
}
