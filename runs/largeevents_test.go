package runs

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/serde"
)

// TestLargeEvents: events that are too large for one item together are stored, by Append and by
// Finish, and read again one by one.
func TestLargeEvents(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	q, c := claimed(t)
	large, small := serde.Typed{Kind: "json", Data: make([]byte, 7<<20)}, serde.Typed{Kind: "json", Data: []byte("1")}
	var events []Event
	for range 10 { // 70 MiB
		events = append(events, Event{Kind: "custom", Data: small}, Event{Kind: "custom", Data: large}, Event{Kind: "custom", Data: small})
	}
	if last, err := q.Append(ctx, *c, events); err != nil || last != int64(len(events)) {
		t.Fatalf("append: %d, %v", last, err)
	}
	if err := q.Finish(ctx, *c, Outcome{Status: Success, Events: events}); err != nil {
		t.Fatalf("finish: %v", err)
	}
	for _, after := range []int{0, 1, 2, 3, 22, 23, 24, 25, 47} {
		found, err := q.Events(ctx, c.ID, int64(after), 1)
		if err != nil || len(found) != 1 || found[0].Seq != int64(after)+1 || len(found[0].Data.Data) != len(events[after%len(events)].Data.Data) {
			t.Fatalf("behind %d: %d events, %v", after, len(found), err)
		}
	}
	if err := q.Delete(ctx, c.ID); err != nil {
		t.Fatal(err)
	}
	if found, err := q.itemAt(ctx, storedRun{Run: c.Run}, int64(len(events))); err != nil || len(found) != 0 {
		t.Errorf("%d events are left, %v", len(found), err)
	}
}

// appender is a queue that only appends.
type appender struct {
	Queue
	append func(events []Event) error
}

func (a *appender) Append(_ context.Context, _ Claim, events []Event) (int64, error) {
	return 0, a.append(events)
}

func (a *appender) LeaseTime() time.Duration { return time.Hour }

// TestRecorderBytes: the graph waits while many bytes of events are not stored, so that one call
// never has too many.
func TestRecorderBytes(t *testing.T) {
	release, most := make(chan struct{}), 0
	q := &appender{append: func(events []Event) error {
		<-release
		n := 0
		for _, ev := range events {
			n += len(ev.Data.Data)
		}
		most = max(most, n)
		return nil
	}}
	r := newRecorder(t.Context(), q, Claim{}, nil, Event{Kind: KindAttempt})
	ev := Event{Kind: "custom", Data: serde.Typed{Kind: "json", Data: make([]byte, 1<<20)}}
	added := make(chan struct{})
	go func() {
		defer close(added)
		for range 200 {
			r.add(ev)
		}
	}()
	select {
	case <-added:
		t.Error("the graph did not wait")
	case <-time.After(50 * time.Millisecond):
	}
	close(release)
	<-added
	left, err := r.close()
	if err != nil || most > recorderBytes || len(left) > recorderBytes>>20 {
		t.Errorf("%d bytes in one call, %d events left, %v", most, len(left), err)
	}
}

// TestRefusedEvents: what the queue refuses for good, and what it may have stored, is not stored
// again. Other failures may pass.
func TestRefusedEvents(t *testing.T) {
	for _, c := range []struct {
		err   error
		calls int
	}{
		{saver.ErrTooLarge, 1}, {saver.ErrInvalid, 1}, {&InvalidError{"kind", "is none"}, 1}, {ErrFenced, 1},
		{saver.ErrOutcomeUnknown, 1}, {errors.New("no space"), 2},
	} {
		calls := 0
		q := &appender{append: func([]Event) error {
			if calls++; calls > 1 {
				return nil
			}
			return fmt.Errorf("store: %w", c.err)
		}}
		err := (&recorder{ctx: t.Context(), q: q}).store([]Event{{Kind: "custom"}})
		if calls != c.calls || calls == 1 && !errors.Is(err, c.err) {
			t.Errorf("%v: %d calls, %v", c.err, calls, err)
		}
	}
}
