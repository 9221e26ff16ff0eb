package runs

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stele-go/stele/store"
)

// TestListReads: a list by thread or status reads no other runs.
func TestListReads(t *testing.T) {
	ctx := t.Context()
	q, items := newQueue(t, LocalOptions{})
	ids := map[Status][]string{}
	submit := func(thread string, as Status) string {
		t.Helper()
		r := submitted(t, q, Request{Spec: Spec{ThreadID: thread, Graph: "g"}})
		ids[as] = append(ids[as], r.ID)
		if as == Pending {
			return r.ID
		}
		c, _, err := q.Claim(ctx, "w", []string{"g"})
		if err != nil || c.ID != r.ID {
			t.Fatalf("%v: claimed %+v", err, c)
		}
		if as == Running {
			return r.ID
		}
		if err := q.Finish(ctx, *c, Outcome{Status: as}); err != nil {
			t.Fatal(err)
		}
		return r.ID
	}
	for _, as := range []Status{Success, Error, Success, Interrupted, Success, Error, Running} {
		submit("t"+string(as), as)
	}
	submit("t", Running)
	bad := submit("bad", Error)
	submit("t", Pending)
	lists := func(sel Query, want []string) {
		t.Helper()
		var got []string
		for r, err := range q.List(ctx, sel) {
			if err != nil {
				t.Fatalf("%+v: %v", sel, err)
			}
			got = append(got, r.ID)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%+v: %q, want %q", sel, got, want)
		}
	}
	all := func() {
		t.Helper()
		for _, as := range []Status{Pending, Running, Success, Interrupted, Error} {
			lists(Query{Status: as}, ids[as])
			lists(Query{Status: as, Limit: 1}, ids[as][:1])
			lists(Query{Status: as, After: ids[as][0]}, ids[as][1:])
			lists(Query{Status: as, After: bad, Graph: "none"}, nil)
			lists(Query{Status: as, ThreadID: "none"}, nil)
		}
	}
	all()
	lists(Query{ThreadID: "t"}, []string{ids[Running][1], ids[Pending][0]})
	lists(Query{ThreadID: "t", Status: Pending}, ids[Pending])
	lists(Query{ThreadID: "tsuccess", Status: Success, After: ids[Success][0]}, ids[Success][1:])

	// One is tried again, one is removed.
	if _, err := q.Retry(ctx, ids[Error][0]); err != nil {
		t.Fatal(err)
	}
	if err := q.Delete(ctx, ids[Success][1]); err != nil {
		t.Fatal(err)
	}
	ids[Pending] = []string{ids[Error][0], ids[Pending][0]}
	ids[Error], ids[Success] = ids[Error][1:], slices.Delete(ids[Success], 1, 2)
	all()
	// Another process knows the same; to it no claim holds.
	var err error
	if q, err = NewLocal(ctx, items, LocalOptions{Clock: func() time.Time { return time.Now().Add(time.Hour) }}); err != nil {
		t.Fatal(err)
	}
	all()

	// A run that cannot be read is in the way of those alone that ask for it.
	if _, err := items.Batch(ctx, store.PutOp{Namespace: runsSpace, Key: bad, Value: map[string]any{jsonField: "{"}}); err != nil {
		t.Fatal(err)
	}
	for _, as := range []Status{Pending, Running, Success, Interrupted} {
		lists(Query{Status: as}, ids[as])
	}
	lists(Query{ThreadID: "t"}, []string{ids[Running][1], ids[Pending][1]})
	// Who asks for it is told so, and sees the others.
	others := submitted(t, q, Request{Spec: Spec{ThreadID: "bad", Graph: "g"}})
	for _, c := range []struct {
		sel  Query
		want []string
	}{
		{Query{Status: Error}, ids[Error]},
		{Query{Status: Error, Limit: len(ids[Error])}, ids[Error]},
		{Query{ThreadID: "bad"}, []string{bad, others.ID}},
		{Query{After: ids[Running][1]}, []string{bad, ids[Pending][1], others.ID}},
	} {
		var got []string
		for r, err := range q.List(ctx, c.sel) {
			if got = append(got, r.ID); errors.Is(err, ErrUnreadable) != (r.ID == bad) || err != nil && r.ID != bad {
				t.Errorf("%+v: run %s: %v", c.sel, r.ID, err)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%+v: %q, want %q", c.sel, got, c.want)
		}
	}
}

// TestListOrder: runs are listed by their ids, and page by page, also if one was stored before one
// that got its id earlier.
func TestListOrder(t *testing.T) {
	ctx := t.Context()
	q, _ := newQueue(t, LocalOptions{})
	req := Request{Spec: Spec{ThreadID: "t", Graph: "g"}}
	var between Run
	first, err := q.SubmitWith(ctx, req, func(Run) (ops []store.Op, err error) {
		between, err = q.Submit(ctx, req)
		return nil, err
	}, false)
	if err != nil {
		t.Fatal(err)
	}
	last, err := q.Submit(ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{first.ID, between.ID, last.ID}
	var got []string
	for after := ""; len(got) <= len(want); {
		n := len(got)
		for r, err := range q.List(ctx, Query{ThreadID: "t", After: after, Limit: 1}) {
			if err != nil {
				t.Fatal(err)
			}
			got, after = append(got, r.ID), r.ID
		}
		if len(got) == n {
			break
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("listed %q, want %q", got, want)
	}
}

// TestListPages: a listing of many runs looks up a bounded number at a time, and shows each run once.
func TestListPages(t *testing.T) {
	q, _ := newQueue(t, LocalOptions{})
	var want []string
	for i := range 2*listPage + 1 {
		r := Run{ID: fmt.Sprintf("%06d", i), Status: []Status{Success, Error, Pending}[i%3], Spec: Spec{ThreadID: fmt.Sprint("t", i%2)}}
		l := &localRun{storedRun: storedRun{Run: r}}
		q.byThread[r.ThreadID] = withID(q.byThread[r.ThreadID], r.ID)
		if q.add(l); r.Status.Ended() {
			q.drop(l)
		}
		want = append(want, r.ID)
	}
	for _, sel := range []Query{{}, {Limit: 1}, {Limit: listPage}, {Limit: listPage + 1}, {After: want[5]}, {Status: Error}, {Status: Pending}, {Status: Success, Limit: 3},
		{ThreadID: "t1"}, {ThreadID: "t1", Status: Pending}, {ThreadID: "t1", Status: Error, Limit: 1}, {Status: "none"},
		{Newest: true}, {Newest: true, Limit: 3}, {Newest: true, After: want[5]}, {Newest: true, After: want[5], ThreadID: "t1"}, {Newest: true, ThreadID: "t0", Limit: 1}, {Newest: true, Status: Error, Limit: listPage + 1},
		{Newest: true, Status: Pending}, {Newest: true, ThreadID: "t1", Status: Pending, After: want[100]}, {Newest: true, ThreadID: "t0", Status: Success}, {Newest: true, After: want[0]}} {
		var wanted, got []string
		order := slices.Clone(want)
		if sel.Newest {
			slices.Reverse(order)
		}
		for _, id := range order {
			i, _ := strconv.Atoi(id)
			if (sel.Newest && (sel.After == "" || id < sel.After) || !sel.Newest && id > sel.After) && (sel.ThreadID == "" || sel.ThreadID == fmt.Sprint("t", i%2)) && (sel.Status == "" || sel.Status == []Status{Success, Error, Pending}[i%3]) {
				wanted = append(wanted, id)
			}
		}
		for r, err := range q.List(t.Context(), sel) {
			if got = append(got, r.ID); err != nil {
				t.Fatal(err)
			}
		}
		if !slices.Equal(got, first(wanted, sel.Limit)) {
			t.Errorf("%+v: %d runs, want %d", sel, len(got), len(first(wanted, sel.Limit)))
		}
		if ids, _, more := q.idsOf(sel, 7); !slices.Equal(ids, first(wanted, 7)) || more != (len(wanted) > 7) && sel.Status == "" {
			t.Errorf("%+v: a page is %q", sel, ids)
		}
	}
}

// TestWithoutID: an id is taken out of a list wherever it is. If it is the oldest, no other id moves:
// who removes all runs would move each of them as often as there are runs.
func TestWithoutID(t *testing.T) {
	var all []string
	for i := range 9 {
		all = withID(all, string(rune('a'+i)))
	}
	for i, id := range all {
		want := slices.Delete(slices.Clone(all), i, i+1)
		got := withoutID(slices.Clone(all), id)
		if !slices.Equal(got, want) {
			t.Errorf("without %s: %q", id, got)
		}
		if got = withID(got, id); !slices.Equal(got, all) {
			t.Errorf("with %s again: %q", id, got)
		}
	}
	if got := withoutID(slices.Clone(all), "none"); !slices.Equal(got, all) {
		t.Errorf("without one that is not there: %q", got)
	}
	second := &all[1]
	if left := withoutID(all, "a"); &left[0] != second {
		t.Error("all ids move when the oldest is taken out")
	}
}

// TestSubmitLeavesOthers: a run that waits for its turn is submitted without a look at the others of its
// thread, which may be many and busy.
func TestSubmitLeavesOthers(t *testing.T) {
	q, _ := newQueue(t, LocalOptions{})
	first := submitted(t, q, Request{Spec: Spec{ThreadID: "t", Graph: "g"}})
	busy := &q.open[first.ID].appending
	busy.Lock()
	done := make(chan error, 2)
	for _, how := range []Strategy{Enqueue, Reject} {
		go func() {
			_, err := q.Submit(t.Context(), Request{Spec: Spec{ThreadID: "t", Graph: "g", Multitask: how}})
			done <- err
		}()
	}
	rejected := 0
	for range 2 {
		select {
		case err := <-done:
			if errors.Is(err, ErrBusy) {
				rejected++
			} else if err != nil {
				t.Error(err)
			}
		case <-time.After(time.Minute): // patience alone
			t.Fatal("a submission waits for another run of its thread")
		}
	}
	busy.Unlock()
	if rejected != 1 {
		t.Errorf("%d submissions were rejected, want 1", rejected)
	}
}
