//go:build unix

package pgqueue_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stele-go/stele/base/methods"
	"github.com/stele-go/stele/postgres"
	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/saver"

	"github.com/stele-go/stele/postgres/pgqueue"
	"github.com/stele-go/stele/postgres/pgtest"
)

// plausible are arguments with which calls get as far as they can.
var plausible = []any{"r", runs.Request{Spec: runs.Spec{ThreadID: "t", Graph: "g"}}, runs.Interrupt, []string{"g"}, runs.Claim{Run: runs.Run{ID: "r", Epoch: 1}},
	[]runs.Claim{{Run: runs.Run{ID: "r", Epoch: 1}}}, []runs.Event{{Kind: "k"}}, runs.Outcome{Status: runs.Success}, time.Unix(1, 0),
	runs.Schedule{ID: "s", Cron: "0 0 1 1 *", Spec: runs.Spec{ThreadID: "t", Graph: "g"}}}

// TestAfterClose: every method of a Queue whose Saver was closed says so, and with a context that has ended
// it fails; none panics or waits.
func TestAfterClose(t *testing.T) {
	s := open(t, pgtest.Shared(t).Database(t), postgres.Options{})
	q := openQueue(t, s, pgqueue.Options{})
	except := map[string]string{"Close": "ends the watching"}
	ended, end := context.WithCancel(t.Context())
	end()
	for _, args := range [][]any{plausible, nil} {
		methods.Each(t, q, ended, except, args, func(t *testing.T, a methods.Answer) {
			if a.Takes && a.Says && a.Err == nil {
				t.Error("there is no error")
			}
		})
	}
	methods.Each(t, q, t.Context(), except, nil, func(*testing.T, methods.Answer) {})
	if err := errors.Join(q.Close(), s.Close()); err != nil {
		t.Fatal(err)
	}
	methods.Each(t, q, t.Context(), except, plausible, func(t *testing.T, a methods.Answer) {
		if a.Says && !errors.Is(a.Err, saver.ErrClosed) {
			t.Errorf("the error is %v", a.Err)
		}
	})
}
