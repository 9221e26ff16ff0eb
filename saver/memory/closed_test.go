package memory_test

import (
	"testing"

	"github.com/stele-go/stele/base/methods"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/memory"
)

// plausible are arguments with which calls get as far as they can.
var plausible = []any{"t", saver.Config{ThreadID: "t", CheckpointID: "1f0f5200-24f1-6000-8000-bde4e02ab92a"}, saver.Checkpoint{V: 4, ID: "1f0f5200-24f1-6000-8000-bde4e02ab92b"}, []string{"t"},
	saver.PutRequest{Config: saver.Config{ThreadID: "t"}, Checkpoint: saver.Checkpoint{V: 4, ID: "1f0f5200-24f1-6000-8000-bde4e02ab92b"}},
	saver.RetentionPolicy{KeepLast: 1}, saver.PruneAll, []saver.Write{{Channel: "c", Value: saver.ValueOf(1)}}}

// TestAfterClose: every method of a Saver that was closed says so, and with a context that has ended it
// fails; none panics or waits.
func TestAfterClose(t *testing.T) {
	s := memory.New(memory.Options{})
	except := map[string]string{"Close": "ends the Saver", "NextVersion": "mints, and stores nothing"}
	methods.Ended(t, s, except, plausible)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	methods.Closed(t, s, except, plausible, saver.ErrClosed)
}
