package runs

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stele-go/stele/saver/serde"
	"github.com/stele-go/stele/store"
)

// TestPackEvents: packed events are read as they were, whatever they say. An item tells the kind of their
// data, and of events that follow on one another the number, attempt and time, once.
func TestPackEvents(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
	events := []Event{
		{Seq: 7, Attempt: 2, Kind: "values", Data: serde.Typed{Kind: "msgpack", Data: []byte{0, 1, 0xff}}, Time: at},
		{Seq: 1 << 60, Kind: "a\"\\\n<ü\u2028", Namespace: []string{"a|b", "\"", ""}, Data: serde.Typed{Kind: "ms+\x7f\x01", Data: []byte{}}, Time: at.Add(-time.Hour * 24 * 365 * 100)},
		{Seq: -1, Attempt: -1, Data: serde.Typed{Data: bytes.Repeat([]byte("x"), 300)}, Time: at},
	}
	for i, attempt := range []int{1, 1, 1, 0, 0, 2} {
		events = append(events, Event{Seq: int64(i) + 7, Attempt: attempt, Kind: "a", Data: serde.Typed{Kind: "b", Data: []byte{1}}, Time: at})
	}
	events[5].Time = at.Add(time.Microsecond)
	packed, n := packEvents(events)
	if n != len(events) {
		t.Fatal(n)
	}
	whole, err := json.Marshal(events)
	if err != nil {
		t.Fatal(err)
	}
	for _, stored := range []any{packed, string(whole)} {
		if got, err := eventsIn(stored); err != nil || !reflect.DeepEqual([]Event(got), events) {
			t.Errorf("%s: %+v, %v", stored, got, err)
		}
	}
	follows := slices.Repeat(events[3:4], 3)
	for i := range follows {
		follows[i].Seq += int64(i)
	}
	one, _ := packEvents(follows[:1])
	three, _ := packEvents(follows)
	if more := len(three) - len(one); more != 2*len("\x00\x01a\x01\x01") {
		t.Errorf("two events that follow have %d bytes: %x", more, three)
	}
}

// TestJSONEvents: queues before 0.1.0 stored events as JSON, of which those that follow had no number,
// attempt and time.
func TestJSONEvents(t *testing.T) {
	got, err := eventsIn(`[{"kind":"attempt","data":{"Kind":"msgpack","Data":"oWE="},"seq":3,"attempt":1,"time":"2026-01-02T03:04:05.000006Z"},{"kind":"end","namespace":["a"],"data":{"Kind":"msgpack","Data":"p3N1Y2Nlc3M="}}]`)
	at := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
	want := []Event{
		{Seq: 3, Attempt: 1, Kind: KindAttempt, Data: serde.Typed{Kind: "msgpack", Data: []byte("\xa1a")}, Time: at},
		{Seq: 4, Attempt: 1, Kind: KindEnd, Namespace: []string{"a"}, Data: serde.Typed{Kind: "msgpack", Data: []byte("\xa7success")}, Time: at},
	}
	if err != nil || !reflect.DeepEqual([]Event(got), want) {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := eventsIn(nil); !errors.Is(err, serde.ErrMalformed) {
		t.Errorf("%+v, %v", got, err)
	}
}

// FuzzUnpackEvents: what is no packed event is an error, and what is one can be packed again.
func FuzzUnpackEvents(f *testing.F) {
	packed, _ := packEvents([]Event{{Seq: 1, Kind: "a", Namespace: []string{"n"}, Data: serde.Typed{Kind: "b", Data: []byte{1}}, Time: time.UnixMicro(1)}, {Seq: 2, Kind: "a", Time: time.UnixMicro(1)}})
	for n := range len(packed) + 1 {
		f.Add(packed[:n])
	}
	f.Add([]byte{packedForm, packedPlace << 1})
	f.Add([]byte{packedForm + 1})
	f.Add(append([]byte{packedForm, packedNames}, 1, 'a', 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1))
	f.Fuzz(func(t *testing.T, b []byte) {
		events, err := unpackEvents(b)
		if (err != nil) != errors.Is(err, serde.ErrMalformed) {
			t.Fatal(err)
		}
		if len(events) > eventsInItem || len(b) >= itemBytes {
			return
		}
		again, n := packEvents(events)
		got, err := unpackEvents(again)
		if n != len(events) || err != nil || !reflect.DeepEqual(got, events) {
			t.Fatalf("%+v, %v, want %+v", got, err, events)
		}
	})
}

// TestOlderItems: a queue reads the items of before 0.1.0, whose fields were those of the value: a
// run with its Spec, and an event an item. What it writes afterwards is whole.
func TestOlderItems(t *testing.T) {
	ctx := t.Context()
	items, err := store.NewMemory(store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	older := func(ns store.Namespace, key string, v any) {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		var fields map[string]any
		if err := json.Unmarshal(text, &fields); err != nil {
			t.Fatal(err)
		}
		if _, err := items.Batch(ctx, store.PutOp{Namespace: ns, Key: key, Value: fields}); err != nil {
			t.Fatal(err)
		}
	}
	run, err := NewRun(Request{Spec: Spec{ThreadID: "t", Graph: "g", Metadata: map[string]any{"a": "b"}}, Input: "in"}, serde.Default(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	older(runsSpace, run.ID, storedRun{Run: run})
	for seq := range int64(3) {
		older(eventsOf(run.ID), seqKey(seq+1), Event{Seq: seq + 1, Attempt: 1, Kind: KindAttempt, Data: serde.Typed{Kind: "msgpack", Data: []byte{byte(seq)}}, Time: run.Created})
	}
	for _, status := range []Status{Pending, Interrupted, Interrupted} {
		q, err := NewLocal(ctx, items, LocalOptions{})
		if err != nil {
			t.Fatal(err)
		}
		got, err := q.Get(ctx, run.ID)
		if err != nil || got.Status != status || !reflect.DeepEqual(got.Spec, run.Spec) {
			t.Fatalf("%v: %+v, want %s and %+v", err, got, status, run.Spec)
		}
		events, err := q.Events(ctx, run.ID, 0, 0)
		if want := 3 + map[Status]int{Interrupted: 1}[status]; err != nil || len(events) != want || events[2].Data.Data[0] != 2 {
			t.Fatalf("%v: %+v, want %d", err, events, want)
		}
		if _, err := q.Cancel(ctx, run.ID, Interrupt); err != nil {
			t.Fatal(err)
		}
	}
}

// claimNext claims the next run of the graph g; nil if there is none.
func claimNext(t *testing.T, q *Local) *Claim {
	t.Helper()
	c, _, err := q.Claim(t.Context(), "w", []string{"g"})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// claimed is a queue in memory, with one run that a worker has.
func claimed(t *testing.T) (*Local, *Claim) {
	t.Helper()
	q, _ := newQueue(t, LocalOptions{})
	submitted(t, q, Request{Spec: Spec{ThreadID: "t", Graph: "g"}})
	c, _, err := q.Claim(t.Context(), "w", []string{"g"})
	if err != nil || c == nil {
		t.Fatal(c, err)
	}
	return q, c
}

// TestEndedMeanwhile: who waits to append while the run ends is fenced, and leaves no lock behind.
func TestEndedMeanwhile(t *testing.T) {
	ctx := t.Context()
	q, c := claimed(t)
	q.mu.Lock()
	r := q.open[c.ID]
	q.mu.Unlock()
	r.appending.Lock() // as an Append has it that is under way
	calls := map[string]func() error{
		"append": func() error { _, err := q.Append(ctx, *c, []Event{{Kind: "a"}}); return err },
		"finish": func() error { return q.Finish(ctx, *c, Outcome{Status: Success}) },
		"cancel": func() error { _, err := q.Cancel(ctx, c.ID, Interrupt); return err },
	}
	results := map[string]chan error{}
	for name, call := range calls {
		done := make(chan error, 1)
		results[name] = done
		go func() { done <- call() }()
	}
	waiting(t, "(*Local).lock", len(calls))
	q.mu.Lock()
	err := q.save(ctx, r, func() Run { to := r.Run; to.Status = Success; return to }(), nil)
	q.mu.Unlock()
	r.appending.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]error{"append": ErrFenced, "finish": ErrFenced, "cancel": nil} {
		if err := <-results[name]; !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
	if !q.mu.TryLock() || !r.appending.TryLock() {
		t.Error("a lock was left behind")
	}
}

// TestRetryDurable: a run that is tried again shows no event that is not durable.
func TestRetryDurable(t *testing.T) {
	ctx := t.Context()
	q, c := claimed(t)
	// Finish and Retry before they sync, as others see them.
	if err := q.finish(ctx, *c, Outcome{Status: Interrupted}); err != nil {
		t.Fatal(err)
	}
	ended := q.writes.Load()
	if _, err := q.retry(ctx, c.ID); err != nil {
		t.Fatal(err)
	}
	if q.durable.Load() >= ended {
		t.Fatal("the end is durable already")
	}
	found, err := q.Events(ctx, c.ID, 0, 0)
	if err != nil || len(found) != 1 || q.durable.Load() < ended {
		t.Errorf("%d events, %v; durable up to %d, the end is %d", len(found), err, q.durable.Load(), ended)
	}
}

// waiting returns when n goroutines wait for a mutex in a function.
func waiting(t *testing.T, function string, n int) {
	t.Helper()
	for t.Context().Err() == nil {
		stacks := make([]byte, 1<<20)
		found := 0
		for stack := range strings.SplitSeq(string(stacks[:runtime.Stack(stacks, true)]), "\n\n") {
			if strings.Contains(stack, function) && strings.Contains(stack, "sync.(*Mutex).Lock") {
				found++
			}
		}
		if found == n {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatal("they do not wait")
}
