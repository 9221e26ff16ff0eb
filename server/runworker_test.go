package server_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/server"
	"github.com/stele-go/stele/server/client"
)

// TestARunWithoutAWorker: who asks for a run, or waits for it, is told that no worker has its graph, or the version that
// it is pinned to; and no longer once there is one.
func TestARunWithoutAWorker(t *testing.T) {
	h := open(t, t.TempDir(), func(c *server.Config) { c.Workers, c.Heartbeat = -1, time.Millisecond })
	c, ctx := must(client.New(h.base)), t.Context()
	thread := h.thread()
	run := must(c.Runs.Create(ctx, thread, client.RunRequest{AssistantID: "simple", Input: object{"text": "x"}}))
	waits := func() client.MissingWorker {
		r := must(c.Runs.Get(ctx, thread, run.RunID))
		if r.WaitingFor == nil {
			return client.MissingWorker{}
		}
		return *r.WaitingFor
	}
	header := func(path string) string {
		ctx, leave := context.WithCancel(ctx)
		defer leave()
		resp := must(h.request(ctx, http.MethodGet, "/threads/"+thread+"/runs/"+run.RunID+path, nil))
		defer resp.Body.Close()
		return resp.Header.Get("Stele-Waiting-For")
	}
	is := func(missing client.MissingWorker, text string) {
		t.Helper()
		h.until("the run waits for "+text, func() bool { return waits() == missing })
		for _, path := range []string{"/join", "/stream"} {
			if got := header(path); got != text {
				t.Errorf("%s: %q, want %q", path, got, text)
			}
		}
	}
	serve := func(worker, version string) {
		t.Helper()
		must(h.queue.Serve(ctx, worker, map[string]string{"simple": version}))
	}
	is(client.MissingWorker{Graph: "simple"}, `graph "simple"`)
	serve("w", "one")
	is(client.MissingWorker{}, "")
	claim, _, err := h.queue.Claim(ctx, "w", []string{"simple"})
	if err != nil || claim == nil {
		t.Fatal(claim, err)
	}
	is(client.MissingWorker{}, "")
	if err := h.queue.Finish(ctx, *claim, runs.Outcome{Status: runs.Pending, Uncounted: true, Version: "zwei", Delay: time.Hour}); err != nil {
		t.Fatal(err)
	}
	is(client.MissingWorker{Graph: "simple", Version: "zwei"}, `graph "simple", version "zwei"`)
	serve("v", "zwei")
	is(client.MissingWorker{}, "")
}
