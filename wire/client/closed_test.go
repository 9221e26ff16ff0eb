package client_test

import (
	"testing"

	"github.com/stele-go/stele/base/methods"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/store"
)

// plausible are arguments with which calls get as far as they can.
var plausible = []any{"t", saver.Config{ThreadID: "t", CheckpointID: "1f0f5200-24f1-6000-8000-bde4e02ab92a"}, saver.Checkpoint{V: 4, ID: "1f0f5200-24f1-6000-8000-bde4e02ab92b"}, []string{"t"},
	saver.PutRequest{Config: saver.Config{ThreadID: "t"}, Checkpoint: saver.Checkpoint{V: 4, ID: "1f0f5200-24f1-6000-8000-bde4e02ab92b"}},
	saver.RetentionPolicy{KeepLast: 1}, saver.PruneAll, []saver.Write{{Channel: "c", Value: saver.ValueOf(1)}},
	store.Namespace{"a"}, map[string]any{"n": 1}, store.GetOp{Namespace: store.Namespace{"a"}, Key: "key"}}

// TestAfterClose: every method of a client that was closed says so, and with a context that has ended it
// fails; none panics or waits.
func TestAfterClose(t *testing.T) {
	c := (&hole{}).client(t)
	except := map[string]string{"Close": "ends the client", "NextVersion": "mints, and stores nothing"}
	both := func(check func(v any, except map[string]string)) {
		check(c, except)
		check(c.Items(), nil)
	}
	both(func(v any, except map[string]string) { methods.Ended(t, v, except, plausible) })
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	both(func(v any, except map[string]string) { methods.Closed(t, v, except, plausible, saver.ErrClosed) })
}
