package server_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/server"
)

// distant is a queue whose deferred Get ends with its caller and has no run then, as that of a
// database.
type distant struct {
	runs.Queue
	asked     chan struct{}
	cancelled chan string // the id of the run that is to be cancelled
}

func (q distant) Cancel(ctx context.Context, id string, how runs.Strategy) (runs.Run, error) {
	q.cancelled <- id
	return q.Queue.Cancel(ctx, id, how)
}

func (q distant) Get(ctx context.Context, id string) (runs.Run, error) {
	if !saver.SyncDeferred(ctx) {
		return q.Queue.Get(ctx, id)
	}
	select {
	case q.asked <- struct{}{}:
	case <-ctx.Done():
	}
	<-ctx.Done()
	return runs.Run{}, ctx.Err()
}

// TestLeftWhileAsked: a client that leaves while the queue is asked for its run cancels it as well.
func TestLeftWhileAsked(t *testing.T) {
	asked, cancelled := make(chan struct{}), make(chan string, 1)
	h := open(t, t.TempDir(), func(c *server.Config) { c.Queue = distant{c.Queue, asked, cancelled} })
	for _, how := range []string{"stream", "wait", "/stream", "/join"} {
		runsOf := "/threads/" + h.thread() + "/runs"
		body := object{"assistant_id": "slow", "input": object{"text": "x"}, "on_disconnect": "cancel"}
		method, path := "POST", runsOf+"/"+how
		if how[0] == '/' {
			run := h.ok("POST", runsOf, body).text1("run_id")
			method, path, body = "GET", runsOf+"/"+run+how+"?cancel_on_disconnect=true", nil
		}
		ctx, leave := context.WithCancel(t.Context())
		answered := make(chan struct{})
		go func() {
			defer close(answered)
			var in any
			if body != nil {
				in = body
			}
			if res, err := h.request(ctx, method, path, in); err == nil {
				_ = res.Body.Close()
			}
		}()
		<-asked
		leave()
		<-answered
		run := h.ok("GET", runsOf, nil).json.([]any)[0].(object)["run_id"].(string)
		if got := <-cancelled; got != run {
			t.Fatalf("%s: run %q is cancelled, want %q", how, got, run)
		}
		if s := h.ended(strings.Split(runsOf, "/")[2], run).text1("status"); s != "interrupted" {
			t.Errorf("%s: %s", how, s)
		}
	}
}
