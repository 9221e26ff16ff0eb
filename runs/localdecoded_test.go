package runs

import (
	"bytes"
	"sync"
	"testing"

	"github.com/stele-go/stele/saver/serde"
)

// TestReadersShare: who reads the stored events of a run gets what others have read, and not what another run
// has, nor what was removed.
func TestReadersShare(t *testing.T) {
	ctx := t.Context()
	q, c := claimed(t)
	var events []Event
	for i := range 200 { // several items
		events = append(events, Event{Kind: "custom", Data: serde.Typed{Kind: "json", Data: bytes.Repeat([]byte{'0' + byte(i%10)}, 20<<10)}})
	}
	if _, err := q.Append(ctx, *c, events); err != nil {
		t.Fatal(err)
	}
	if err := q.Finish(ctx, *c, Outcome{Status: Success}); err != nil {
		t.Fatal(err)
	}
	// Events behind a number, as those get them who follow the run from its beginning.
	read := func(limit int) (all []Event) {
		for {
			after := int64(0)
			if len(all) > 0 {
				after = all[len(all)-1].Seq
			}
			found, err := q.Events(ctx, c.ID, after, limit)
			if err != nil {
				t.Error(err)
			}
			if len(found) == 0 || err != nil {
				return all
			}
			all = append(all, found...)
		}
	}
	want := read(0)
	var done sync.WaitGroup
	for _, limit := range []int{1, 3, 64, 1000} {
		done.Go(func() {
			got := read(limit)
			if len(got) != len(want) {
				t.Errorf("%d events by %d, want %d", len(got), limit, len(want))
			}
			for i, ev := range got {
				if ev.Seq != int64(i)+1 || i < len(events) && !bytes.Equal(ev.Data.Data, events[i].Data.Data) {
					t.Errorf("event %d has the number %d, and not what was appended", i+1, ev.Seq)
					return
				}
			}
		})
	}
	done.Wait()
	one, err := q.itemAt(ctx, storedRun{Run: c.Run}, 1)
	if err != nil {
		t.Fatal(err)
	}
	if other, err := q.itemAt(ctx, storedRun{Run: c.Run}, 1); err != nil || &one[0].Data.Data[0] != &other[0].Data.Data[0] {
		t.Errorf("two readers have two copies of an event, %v", err)
	}
	if found, err := q.itemAt(ctx, storedRun{Run: Run{ID: "another"}}, 1); err != nil || len(found) > 0 {
		t.Errorf("%d events of another run, %v", len(found), err)
	}
	if n := len(q.decoded.list); n == 0 || n > decodedMost {
		t.Errorf("%d items are kept", n)
	}
	if err := q.Delete(ctx, c.ID); err != nil {
		t.Fatal(err)
	}
	if n := len(q.decoded.list); n > 0 {
		t.Errorf("%d items of a run that was removed are kept", n)
	}
}
