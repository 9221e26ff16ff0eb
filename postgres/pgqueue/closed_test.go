//go:build unix

package pgqueue_test

import (
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
	methods.Ended(t, q, except, plausible)
	if err := errors.Join(q.Close(), s.Close()); err != nil {
		t.Fatal(err)
	}
	methods.Closed(t, q, except, plausible, saver.ErrClosed)
}
