package server_test

import (
	"context"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/base/vfs/faultfs"
	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/server"
	"github.com/stele-go/stele/store"
)

// TestToldIsDurable: when a client gets the first byte of an answer, the run is durable.
func TestToldIsDurable(t *testing.T) {
	for _, how := range []string{"wait", "stream"} {
		for _, workers := range []int{-1, 1} {
			h := openOn(t, "store", disk.Options{Simulation: disk.Simulation{FS: vfs.NewMem(vfs.MemOptions{}), Inline: true}}, func(c *server.Config) { c.Workers = workers })
			thread := h.thread()
			before := h.disk.Stats().LastLSN
			ctx, leave := context.WithCancel(t.Context())
			res, err := h.request(ctx, "POST", "/threads/"+thread+"/runs/"+how, object{"assistant_id": "simple", "input": object{"text": "x"}})
			if err != nil {
				t.Fatal(err)
			}
			st := h.disk.Stats()
			if res.StatusCode != http.StatusOK || res.Header.Get("Location") == "" {
				t.Errorf("%s: %s, location %q", how, res.Status, res.Header.Get("Location"))
			}
			if st.LastLSN == before || st.DurableLSN <= before {
				t.Errorf("%s with %d workers: told of a run when %d of %d writes were durable, and %d before it", how, workers, st.DurableLSN, st.LastLSN, before)
			}
			leave()
			if err := res.Body.Close(); err != nil {
				t.Error(err)
			}
			h.shut()
		}
	}
}

// TestUntoldRun: a run that cannot be made durable is refused, with an answer that says so, also
// when it has ended meanwhile.
func TestUntoldRun(t *testing.T) {
	for _, how := range []string{"wait", "stream"} {
		for _, workers := range []int{-1, 1} {
			inj := faultfs.NewInjector()
			h := openOn(t, "store", disk.Options{Simulation: disk.Simulation{FS: faultfs.New(vfs.NewMem(vfs.MemOptions{}), inj), Inline: true}}, func(c *server.Config) {
				c.Workers = workers
				// A worker tries to finish a run for as long.
				c.Queue = must(runs.NewLocal(t.Context(), c.Store.(*store.Local), runs.LocalOptions{LeaseTime: 50 * time.Millisecond}))
			})
			thread := h.thread()
			inj.Set(faultfs.Rule{Op: faultfs.OpSync, Sticky: true, Err: syscall.EIO}, faultfs.Rule{Op: faultfs.OpSyncData, Sticky: true, Err: syscall.EIO})
			a := h.refused(503, "POST", "/threads/"+thread+"/runs/"+how, object{"assistant_id": "simple", "input": object{"text": "x"}})
			if a.text != `{"detail":"The store takes no writes."}` || a.header.Get("Location") != "" {
				t.Errorf("%s with %d workers: %s, location %q", how, workers, a.text, a.header.Get("Location"))
			}
			inj.Set()
			h.http.CloseClientConnections()
			_ = h.api.Close()
			_ = h.disk.Close() // it is poisoned
		}
	}
}

// apart is a queue whose runs cannot be made durable once they have ended.
type apart struct{ *runs.Local }

func (q apart) Get(ctx context.Context, id string) (runs.Run, error) {
	r, err := q.Local.Get(ctx, id)
	if err == nil && r.Status.Ended() && !saver.SyncDeferred(ctx) {
		err = fault.ErrPoisoned
	}
	return r, err
}

// TestToldIsDurableApart: the end of a run is durable before it is told, also where the queue is
// not in the server's Store.
func TestToldIsDurableApart(t *testing.T) {
	h := open(t, t.TempDir(), func(c *server.Config) {
		c.Queue = apart{c.Queue.(*runs.Local)}
		c.Store = struct{ store.Store }{c.Store}
	})
	a := h.do("POST", "/threads/"+h.thread()+"/runs/wait", object{"assistant_id": "simple", "input": object{"text": "x"}})
	if strings.Contains(a.text, "log") {
		t.Errorf("told of an end that is not durable: %d %s", a.status, a.text)
	}
}
