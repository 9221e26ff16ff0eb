package runs

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stele-go/stele/saver/serde"
	"github.com/stele-go/stele/store"
)

// TestLastEvents: the last events of a run that ended are in its own item, if they are small, and
// other runs have items of them. Either way they are read as they were, also by the next process,
// after the run was tried again, and they go with it.
func TestLastEvents(t *testing.T) {
	ctx := t.Context()
	for _, c := range []struct {
		name     string
		appended int    // events
		n, bytes int    // of the events that are left to Finish
		items    [3]int // of events: when the run has ended, is tried again, and has ended again
	}{
		{"few", 0, 3, 10, [3]int{0, 1, 1}},
		{"behind others", 2, 3, 10, [3]int{1, 2, 3}},
		{"many", 0, eventsInItem, 10, [3]int{2, 2, 4}},
		{"large", 0, 1, besideBytes, [3]int{1, 1, 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			q, items := newQueue(t, LocalOptions{})
			r := submitted(t, q, Request{Spec: Spec{ThreadID: "t", Graph: "g"}})
			events := func(n, bytes int) (list []Event) {
				for i := range n {
					list = append(list, Event{Kind: "a", Data: serde.Typed{Kind: "b", Data: fmt.Appendf(nil, "%*d", bytes, i)}})
				}
				return list
			}
			total := 0
			check := func(when string, wantItems int) {
				t.Helper()
				for _, known := range []bool{true, false} { // by this process, and by the next
					if !known {
						var err error
						if q, err = NewLocal(ctx, items, LocalOptions{}); err != nil {
							t.Fatal(err)
						}
					}
					for _, after := range []int64{1 << 31, 1 << 32, math.MaxInt64} { // what a client may ask for
						if found, err := q.Events(ctx, r.ID, after, 0); err != nil || len(found) != 0 {
							t.Fatalf("%s: behind %d: %v, %v", when, after, found, err)
						}
					}
					for after := range total + 1 {
						found, err := q.Events(ctx, r.ID, int64(after), 0)
						if err != nil || len(found) != total-after || len(found) > 0 && found[0].Seq != int64(after)+1 {
							t.Fatalf("%s: behind %d of %d: %v, %v", when, after, total, found, err)
						}
					}
				}
				n := 0
				for _, err := range items.Scan(ctx, store.Query{Prefix: eventsSpace}) {
					if n++; err != nil {
						t.Fatal(err)
					}
				}
				if n != wantItems {
					t.Errorf("%s: %d items of events, want %d", when, n, wantItems)
				}
			}
			end := func() {
				t.Helper()
				held, _, err := q.Claim(ctx, "w", []string{"g"})
				if err == nil {
					_, err = q.Append(ctx, *held, events(c.appended, 10))
				}
				if err == nil {
					err = q.Finish(ctx, *held, Outcome{Status: Error, Events: events(c.n, c.bytes)})
				}
				if err != nil {
					t.Fatal(err)
				}
				total += c.appended + c.n + 1
			}
			end()
			check("ended", c.items[0])
			if _, err := q.Retry(ctx, r.ID); err != nil {
				t.Fatal(err)
			}
			check("tried again", c.items[1])
			end()
			check("ended again", c.items[2])
			if err := q.Delete(ctx, r.ID); err != nil {
				t.Fatal(err)
			}
			total = 0
			check("deleted", 0)
		})
	}
}

// TestLastEventsNamespaces: long namespaces count, and no event is lost for them.
func TestLastEventsNamespaces(t *testing.T) {
	ctx := t.Context()
	q, items := newQueue(t, LocalOptions{})
	r := submitted(t, q, Request{Spec: Spec{ThreadID: "t", Graph: "g"}})
	c, _, err := q.Claim(ctx, "w", []string{"g"})
	if err != nil {
		t.Fatal(err)
	}
	events := slices.Repeat([]Event{{Kind: "a", Namespace: []string{strings.Repeat("n", itemBytes/20)}, Data: serde.Typed{Kind: "b"}}}, 40)
	if err := q.Finish(ctx, *c, Outcome{Status: Error, Events: events}); err != nil {
		t.Fatal(err)
	}
	if q, err = NewLocal(ctx, items, LocalOptions{}); err != nil {
		t.Fatal(err)
	}
	found, err := q.Events(ctx, r.ID, 0, 0)
	if err != nil || len(found) != len(events)+1 || found[len(events)].Kind != KindEnd {
		t.Errorf("%d events, %v", len(found), err)
	}
}

// TestUnreadableNeighbour: a run that cannot be decoded keeps no other run of its thread from being tried again,
// deleted, or swept.
func TestUnreadableNeighbour(t *testing.T) {
	ctx := t.Context()
	q, items := newQueue(t, LocalOptions{})
	end := func() string {
		t.Helper()
		c, _, err := q.Claim(ctx, "w", []string{"g"})
		if err != nil || c == nil {
			t.Fatal(c, err)
		}
		if err := q.Finish(ctx, *c, Outcome{Status: Error}); err != nil {
			t.Fatal(err)
		}
		return c.ID
	}
	var ids []string
	for range 4 {
		submitted(t, q, Request{Spec: Spec{ThreadID: "t", Graph: "g"}})
		ids = append(ids, end())
	}
	bad := ids[0]
	if _, err := items.Batch(ctx, store.PutOp{Namespace: runsSpace, Key: bad, Value: map[string]any{jsonField: `{"id":`}}); err != nil {
		t.Fatal(err)
	}
	if r, err := q.Retry(ctx, ids[3]); err != nil || r.Status != Pending {
		t.Errorf("tried again: %+v, %v", r, err)
	}
	if q.ended["t"].id != ids[2] {
		t.Errorf("the last that ended is %q, want %s", q.ended["t"].id, ids[2])
	}
	if id := end(); id != ids[3] {
		t.Errorf("claimed %s, want %s", id, ids[3])
	}
	if err := q.Delete(ctx, ids[3]); err != nil {
		t.Error(err)
	}
	if n, err := q.Sweep(ctx, time.Now().Add(time.Hour)); n != 2 || !errors.Is(err, ErrUnreadable) {
		t.Errorf("swept %d, %v", n, err)
	}
}

// TestJSONLast: the last events of a run that are in its item as JSON, as before 0.1.0, are read, also when
// the run was tried again and they became an item of their own.
func TestJSONLast(t *testing.T) {
	ctx := t.Context()
	q, items := newQueue(t, LocalOptions{})
	r := submitted(t, q, Request{Spec: Spec{ThreadID: "t", Graph: "g"}})
	c, _, err := q.Claim(ctx, "w", []string{"g"})
	if err != nil || c == nil {
		t.Fatal(c, err)
	}
	if err := q.Finish(ctx, *c, Outcome{Status: Error, Events: []Event{{Kind: "a", Data: serde.Typed{Kind: "b", Data: []byte{1}}}}}); err != nil {
		t.Fatal(err)
	}
	want, err := q.Events(ctx, r.ID, 0, 0)
	if err != nil || len(want) != 2 {
		t.Fatal(want, err)
	}
	item, err := items.Get(ctx, runsSpace, r.ID)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	item.Value[eventsField] = string(text)
	if _, err := items.Batch(ctx, store.PutOp{Namespace: runsSpace, Key: r.ID, Value: item.Value}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if q, err = NewLocal(ctx, items, LocalOptions{}); err != nil {
			t.Fatal(err)
		}
		if got, err := q.Events(ctx, r.ID, 0, 0); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, %v, want %+v", got, err, want)
		}
		if _, err := q.Retry(ctx, r.ID); err != nil && !errors.Is(err, ErrInvalid) { // the second time it is pending
			t.Fatal(err)
		}
	}
}
