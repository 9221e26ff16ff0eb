package runs_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stele-go/stele/base/methods"
	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/store"
)

// plausible are arguments with which calls get as far as they can.
var plausible = []any{"r", runs.Request{Spec: runs.Spec{ThreadID: "t", Graph: "g"}}, runs.Interrupt, []string{"g"}, runs.Claim{Run: runs.Run{ID: "r", Epoch: 1}},
	[]runs.Claim{{Run: runs.Run{ID: "r", Epoch: 1}}}, []runs.Event{{Kind: "k"}}, runs.Outcome{Status: runs.Success}, time.Unix(1, 0),
	runs.Schedule{ID: "s", Cron: "0 0 1 1 *", Spec: runs.Spec{ThreadID: "t", Graph: "g"}}}

// TestAfterClose: every method of a Local whose store was closed says so, and with a context that has ended
// it fails; none panics or waits.
func TestAfterClose(t *testing.T) {
	d, err := disk.Open("store", disk.Options{}.In(disk.Simulation{FS: vfs.NewMem(vfs.MemOptions{})}))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	items, err := store.On(d, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer items.Close()
	q, err := runs.NewLocal(t.Context(), items, runs.LocalOptions{})
	if err != nil {
		t.Fatal(err)
	}
	except := map[string]string{"WhenAsked": "calls the function that it gets"}
	methods.Ended(t, q, except, plausible)
	if err := errors.Join(items.Close(), d.Close()); err != nil {
		t.Fatal(err)
	}
	methods.Each(t, q, t.Context(), except, plausible, func(t *testing.T, a methods.Answer) {
		// The runs are in memory: what needs the store no more than that may be told.
		if stores := a.Method == "Submit" || a.Method == "PutSchedule"; stores && !errors.Is(a.Err, saver.ErrClosed) {
			t.Errorf("the error is %v", a.Err)
		}
	})
}
