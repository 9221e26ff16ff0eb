package server_test

import (
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stele-go/stele/server"
)

// TestDeletedWhileFollowed: who waits for a run, joins it or streams it while its thread is deleted is told
// so: by a status if the answer has not begun, and else by an error in it.
func TestDeletedWhileFollowed(t *testing.T) {
	for name, heartbeat := range map[string]time.Duration{"before the answer": time.Hour, "in the answer": time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			h := open(t, t.TempDir(), func(c *server.Config) { c.Heartbeat = heartbeat })
			for range 5 {
				id := h.thread()
				run := h.ok("POST", "/threads/"+id+"/runs", object{"assistant_id": "slow", "input": object{"text": "x"}}).text1("run_id")
				busy := object{"assistant_id": "slow", "input": object{"text": "x"}}
				var done sync.WaitGroup
				begun := h.answering.Load()
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
				h.until("all are followed", func() bool {
					return h.answering.Load() == begun+4 && strings.Count(h.ok("GET", "/threads/"+id+"/runs", nil).text, `"run_id"`) >= 6
				})
				h.ok("DELETE", "/threads/"+id, nil)
				done.Wait()
			}
		})
	}
}
