package replica

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/seal"
	"github.com/stele-go/stele/replica/bucket"
	"github.com/stele-go/stele/replica/bucket/buckettest"
)

// ended is a context that has ended: what waits with it says what is known now.
func ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

func wants(t *testing.T, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Fatalf("%s: %v, and not %v", what, got, want)
	}
}

// force takes over at once.
func (m *machine) force(f *Follower) *Leader {
	m.t.Helper()
	l, err := f.TakeOver(m.t.Context(), TakeOver{Mode: Sync, Force: true, LoseTail: true}, m.d.apply)
	if err != nil {
		m.t.Fatal(err)
	}
	return l
}

// again is the machine after a crash: the same disk, another process.
func (m *machine) again() *machine {
	n := *m
	n.o.Owner += "-again"
	return &n
}

// newer is another machine that has nothing.
func (m *machine) newer(s *buckettest.Sim, dir string) *machine { return newMachine(m.t, s, dir) }

// texts are the records that a reader has in the end who begins with some.
func texts(t *testing.T, s *buckettest.Sim, has ...[]byte) (all []string) {
	t.Helper()
	m := newMachine(t, s, "texts")
	m.d.add(has...)
	m.o.Bucket = s
	f := m.follow()
	for {
		batches, err := f.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(batches) == 0 {
			break
		}
		if err := m.d.apply(batches); err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range m.d.records {
		all = append(all, string(r))
	}
	return all
}

func exists(t *testing.T, s *buckettest.Sim, key string) bool {
	t.Helper()
	_, err := s.Get(t.Context(), key, bucket.GetOptions{})
	if err != nil && !errors.Is(err, bucket.ErrNotFound) {
		t.Fatal(err)
	}
	return err == nil
}

func (m *machine) head() *head {
	m.t.Helper()
	o := m.o.withDefaults()
	h, err := o.readHead(m.t.Context())
	if err != nil {
		m.t.Fatal(err)
	}
	return h
}

// TestFenceIsNoAcknowledgement: decision 1. A create that fails because a fence stands there is
// not taken for one whose answer was lost.
func TestFenceIsNoAcknowledgement(t *testing.T) {
	s := buckettest.NewSim(nil)
	a := newMachine(t, s, "a")
	l := a.begin(Sync)
	a.ship(l, "one")
	a.commit(l, "two")
	b := a.newer(s, "b")
	b.force(b.follow())
	wants(t, "upload", a.upload(l), ErrFenced)
	wants(t, "wait for what the fence cut off", l.Wait(t.Context(), 3), ErrFenced)
	wants(t, "append", l.Append(Batch{First: 5, Records: [][]byte{nil}}), ErrFenced)
	if err := l.Wait(t.Context(), 2); err != nil || l.Synced() != 2 {
		t.Errorf("what was acknowledged is not: %v", err)
	}
}

// TestAcknowledgedInOrder: chunk 1 lands, and a fence takes number 0.
func TestAcknowledgedInOrder(t *testing.T) {
	s := buckettest.NewSim(nil)
	a := newMachine(t, s, "a")
	l := a.begin(Sync)
	var chunks []*flight
	for _, text := range []string{"one", "two"} {
		a.commit(l, text)
		f, err := l.take()
		if err != nil {
			t.Fatal(err)
		}
		chunks = append(chunks, f)
	}
	l.settle(chunks[1], l.send(t.Context(), chunks[1]))
	if l.Synced() != 0 {
		t.Errorf("record %d is acknowledged before record 1", l.Synced())
	}
	wants(t, "wait", l.Wait(ended(), 4), fault.ErrOutcomeUnknown)
	b := a.newer(s, "b")
	next := b.force(b.follow())
	b.ship(next, "three")
	l.settle(chunks[0], l.send(t.Context(), chunks[0]))
	wants(t, "wait", l.Wait(t.Context(), 4), ErrFenced)
	if got := texts(t, s); len(got) != 2 || got[0] != "three" {
		t.Errorf("the lineage has %q", got)
	}
}

// TestDamagedAnswerIsNoFence: the answer to a create is lost, and what is read back is damaged.
func TestDamagedAnswerIsNoFence(t *testing.T) {
	s := buckettest.NewSim(func(c buckettest.Call) buckettest.Fate {
		if c.Op == buckettest.Put && strings.HasPrefix(c.Key, "e") && c.Nth == 0 {
			return buckettest.AnswerLost
		}
		return buckettest.Applied
	})
	a := newMachine(t, s, "a")
	l := a.begin(Sync)
	bad := &flips{Bucket: a.o.Bucket, left: 1}
	l.o.Bucket = bad
	a.commit(l, "one")
	wants(t, "upload", a.upload(l), fault.ErrCorrupt)
	wants(t, "wait", l.Wait(ended(), 1), fault.ErrOutcomeUnknown)
	if err := a.upload(l); err != nil || l.Synced() != 2 {
		t.Errorf("record %d is acknowledged; %v", l.Synced(), err)
	}
}

// flips is a bucket that changes a bit of what it answers.
type flips struct {
	bucket.Bucket
	left int
}

func (f *flips) Get(ctx context.Context, key string, o bucket.GetOptions) (*bucket.Object, error) {
	obj, err := f.Bucket.Get(ctx, key, o)
	if err != nil || f.left == 0 {
		return obj, err
	}
	f.left--
	b, err := io.ReadAll(obj.Body)
	b[len(b)-10] ^= 4
	obj.Body = io.NopCloser(bytes.NewReader(b))
	return obj, err
}

// TestChainIsChecked: a chunk is only read behind the records that it was written behind, and
// only with its own.
func TestChainIsChecked(t *testing.T) {
	for name, spoil := range map[string]func(h *header){
		"other records before": func(h *header) {
			h.before = Chain{1}
			h.after = h.before.Next(nil, 1, []byte("one"))
		},
		"other records": func(h *header) { h.after = Chain{1} },
		"a gap":         func(h *header) { h.first, h.last = 2, 2 },
	} {
		t.Run(name, func(t *testing.T) {
			s := buckettest.NewSim(nil)
			a := newMachine(t, s, "a")
			a.begin(Sync)
			h := header{store: testStore, epoch: 1, first: 1, last: 1, after: Chain{}.Next(nil, 1, []byte("one"))}
			spoil(&h)
			body, err := encodeChunk(h, []Batch{{First: h.first, Records: [][]byte{[]byte("one")}}}, nil)
			if err != nil {
				t.Fatal(err)
			}
			o := a.o.withDefaults()
			if _, err := o.create(t.Context(), chunkKey(1, 0), body); err != nil {
				t.Fatal(err)
			}
			b := a.newer(s, "b")
			_, err = b.follow().Next(t.Context())
			wants(t, "next", err, fault.ErrCorrupt)
		})
	}
}

// TestDeposedLeaderStops: a leader that reads a newer epoch takes nothing more, and says of what it
// has not sent that it is lost.
func TestDeposedLeaderStops(t *testing.T) {
	s := buckettest.NewSim(nil)
	a := newMachine(t, s, "a")
	l := a.begin(Async)
	a.commit(l, "one")
	if !l.Holds() {
		t.Error("a new leader does not hold the lease")
	}
	b := a.newer(s, "b")
	b.force(b.follow())
	wants(t, "renew", l.Renew(t.Context()), ErrFenced)
	wants(t, "wait", l.Wait(ended(), 1), ErrFenced)
	wants(t, "append", l.Append(Batch{First: 3, Records: [][]byte{nil}}), ErrFenced)
	if l.Holds() {
		t.Error("it holds the lease")
	}
	wants(t, "retain", l.Retain(t.Context(), 0), ErrFenced)
	_, err := l.CreatePoint(t.Context(), 0, nil)
	wants(t, "point", err, ErrFenced)
}

// TestFencesAreNeverDeleted: a leader sleeps while another takes over and deletes all that is old.
func TestFencesAreNeverDeleted(t *testing.T) {
	s := buckettest.NewSim(nil)
	a := newMachine(t, s, "a")
	l := a.begin(Sync)
	a.ship(l, "one")
	a.commit(l, "two")
	asleep, err := l.take()
	if err != nil {
		t.Fatal(err)
	}
	b := a.newer(s, "b")
	next := b.force(b.follow())
	b.ship(next, "three")
	b.point(next, 4)
	if err := next.Retain(t.Context(), 4); err != nil {
		t.Fatal(err)
	}
	if exists(t, s, chunkKey(1, 0)) || exists(t, s, chunkKey(2, 0)) {
		t.Error("chunks below the floor are there")
	}
	l.settle(asleep, l.send(t.Context(), asleep))
	wants(t, "wait", l.Wait(t.Context(), 3), fault.ErrOutcomeUnknown) // it was not there, but nothing that is left says so
}

// TestEveryOlderEpochIsFenced: a take-over crashes behind its first write of HEAD. The old leader
// sleeps until a second one is over.
func TestEveryOlderEpochIsFenced(t *testing.T) {
	s := buckettest.NewSim(nil)
	a := newMachine(t, s, "a")
	l := a.begin(Sync)
	a.ship(l, "one")
	a.commit(l, "two")
	asleep, err := l.take()
	if err != nil {
		t.Fatal(err)
	}
	b := a.newer(s, "b")
	f := b.follow()
	if err := newLease(f.o, f.head, f.tag).update(t.Context(), func(h *head) { h.Epoch++ }); err != nil {
		t.Fatal(err)
	}
	c := a.newer(s, "c")
	next := c.force(c.follow())
	if next.Epoch() != 3 || next.End().LSN != 2 {
		t.Errorf("epoch %d begins behind record %d", next.Epoch(), next.End().LSN)
	}
	for _, key := range []string{chunkKey(1, 1), chunkKey(2, 0)} {
		if !exists(t, s, key) {
			t.Errorf("no fence stands at %s", key)
		}
	}
	c.ship(next, "three")
	l.settle(asleep, l.send(t.Context(), asleep))
	wants(t, "wait", l.Wait(t.Context(), 3), ErrFenced)
	if got := texts(t, s); len(got) != 4 || got[2] != "three" {
		t.Errorf("the lineage has %q", got)
	}
}

// TestLateFence: a challenger's fence comes late, at the number of a chunk that a later leader has read
// and deleted.
func TestLateFence(t *testing.T) {
	s := buckettest.NewSim(func(c buckettest.Call) buckettest.Fate {
		switch {
		case c.Client == "a" && c.Op == buckettest.Put && c.Key == chunkKey(1, 1) && c.Nth < 2:
			return buckettest.AnswerLost
		case c.Client == "b" && c.Op == buckettest.Put && strings.HasPrefix(c.Key, chunkPrefix):
			return buckettest.Late
		}
		return buckettest.Applied
	})
	a := newMachine(t, s, "a")
	l := a.begin(Sync)
	a.ship(l, "one")
	if err := l.Renew(t.Context()); err != nil { // HEAD has chunk 0
		t.Fatal(err)
	}
	a.commit(l, "two", "three")
	b := a.newer(s, "b")
	_, err := b.follow().TakeOver(t.Context(), TakeOver{Mode: Sync, Force: true}, b.d.apply)
	wants(t, "take over", err, buckettest.ErrUnknown)
	if _, err := l.Upload(t.Context()); err == nil {
		t.Fatal("the answer is not lost")
	}
	old := a.newer(s, "old")
	old.d.add(a.d.records[:2]...)
	f := old.follow()

	c := a.newer(s, "c")
	next := c.force(c.follow())
	c.point(next, 6)
	if err := next.Retain(t.Context(), 6); err != nil {
		t.Fatal(err)
	}
	s.Deliver()
	if !exists(t, s, chunkKey(1, 1)) || exists(t, s, chunkKey(1, 0)) {
		t.Fatal("the fence is not there, or the chunks are")
	}
	wants(t, "upload", a.upload(l), fault.ErrOutcomeUnknown)
	wants(t, "wait for what the lineage has", l.Wait(t.Context(), 3), fault.ErrOutcomeUnknown)
	if l.Synced() != 2 {
		t.Errorf("record %d is acknowledged", l.Synced())
	}
	_, err = l.Upload(t.Context())
	wants(t, "upload", err, ErrFenced)
	_, err = f.Next(t.Context())
	wants(t, "next", err, ErrPointGone)
	_, err = f.Next(t.Context())
	wants(t, "next", err, ErrPointGone)
}

// TestOvertaken: a challenger sleeps behind its claim, while another leads and deletes what it needs.
func TestOvertaken(t *testing.T) {
	s := buckettest.NewSim(nil)
	a := newMachine(t, s, "a")
	l := a.begin(Sync)
	a.ship(l, "one", "two")
	if err := l.Renew(t.Context()); err != nil { // HEAD has both
		t.Fatal(err)
	}
	b := a.newer(s, "b")
	f := b.follow()
	hold, err := f.claim(t.Context(), TakeOver{Mode: Sync, Force: true})
	if err != nil {
		t.Fatal(err)
	}
	c := a.newer(s, "c")
	next := c.force(c.follow())
	c.point(next, 4)
	if err := next.Retain(t.Context(), 4); err != nil {
		t.Fatal(err)
	}
	_, err = f.begin(t.Context(), hold, b.d.apply)
	wants(t, "begin", err, ErrFenced)
	_, err = f.Next(t.Context())
	wants(t, "next", err, ErrPointGone)
}

// TestMissingChunk: what somebody else deleted from the bucket is missed, and does not pass for the end.
func TestMissingChunk(t *testing.T) {
	s := buckettest.NewSim(nil)
	a := newMachine(t, s, "a")
	l := a.begin(Sync)
	a.ship(l, "one", "two", "three")
	if err := l.Renew(t.Context()); err != nil { // HEAD says how far the lineage goes
		t.Fatal(err)
	}
	b := a.newer(s, "b")
	c := a.newer(s, "c")
	f, g := b.follow(), c.follow()
	if err := s.Delete(t.Context(), chunkKey(1, 1)); err != nil {
		t.Fatal(err)
	}
	batches, err := f.Next(t.Context())
	if err != nil || b.d.apply(batches) != nil {
		t.Fatal(err)
	}
	for range 2 {
		_, err = f.Next(t.Context())
		wants(t, "next", err, fault.ErrCorrupt)
	}
	_, err = g.TakeOver(t.Context(), TakeOver{Mode: Sync, Force: true}, c.d.apply)
	wants(t, "take over", err, fault.ErrCorrupt)
	if exists(t, s, chunkKey(1, 1)) {
		t.Error("a fence ends the lineage before its end")
	}
}

// TestFloorIsRaisedFirst: a leader crashes at its first deletion.
func TestFloorIsRaisedFirst(t *testing.T) {
	dead := false
	s := buckettest.NewSim(func(c buckettest.Call) buckettest.Fate {
		if dead = dead || c.Client == "a" && c.Op == buckettest.Delete; dead && c.Client == "a" {
			if c.Op == buckettest.Delete {
				return buckettest.AnswerLost
			}
			return buckettest.NotApplied
		}
		return buckettest.Applied
	})
	a := newMachine(t, s, "a")
	l := a.begin(Sync)
	a.ship(l, "one", "two")
	a.point(l, 2)
	a.point(l, 4)
	wants(t, "retain", l.Retain(t.Context(), 4), buckettest.ErrUnknown)
	b := a.newer(s, "b")
	if floor := b.head().Floor.LSN; floor != 4 {
		t.Errorf("something was deleted, and HEAD has the floor %d", floor)
	}
}

// TestFloorDoesNotFall: the write that raises the floor lands late, and the next retention wants a
// lower one.
func TestFloorDoesNotFall(t *testing.T) {
	late := false
	s := buckettest.NewSim(func(c buckettest.Call) buckettest.Fate {
		if late && c.Op == buckettest.Put && c.Key == headKey {
			return buckettest.Late
		}
		return buckettest.Applied
	})
	a := newMachine(t, s, "a")
	l := a.begin(Sync)
	a.ship(l, "one", "two")
	a.point(l, 2)
	a.point(l, 4)
	late = true
	wants(t, "retain", l.Retain(t.Context(), 4), buckettest.ErrUnknown)
	late = false
	s.Deliver()
	if err := l.Retain(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	if floor := a.head().Floor.LSN; floor != 4 {
		t.Errorf("the floor fell from 4 to %d", floor)
	}
}

// TestLeaseCountsFromSending: the answer to a renewal takes long.
func TestLeaseCountsFromSending(t *testing.T) {
	var a *machine
	s := buckettest.NewSim(func(c buckettest.Call) buckettest.Fate {
		if c.Op == buckettest.Put && c.Key == headKey && c.Nth == 3 {
			a.c.pass(6 * time.Second)
		}
		return buckettest.Applied
	})
	a = newMachine(t, s, "a")
	l := a.begin(Sync) // which writes HEAD three times
	if err := l.Renew(t.Context()); err != nil {
		t.Fatal(err)
	}
	if a.c.pass(time.Second); !l.Holds() {
		t.Error("the lease is over 7 s after it was renewed")
	}
	if a.c.pass(time.Second); l.Holds() {
		t.Error("it holds the lease 8 s after it sent the renewal, of a TTL of 10 s")
	}
}

// TestHeadWrites: a write of HEAD has no answer, and lands before the next one.
func TestHeadWrites(t *testing.T) {
	var a *machine
	s := buckettest.NewSim(func(c buckettest.Call) buckettest.Fate {
		switch {
		case c.Op != buckettest.Put || c.Key != headKey:
		case c.Nth == 3:
			return buckettest.Late
		case c.Nth == 5:
			return buckettest.NotApplied
		}
		return buckettest.Applied
	})
	a = newMachine(t, s, "a")
	l := a.begin(Sync)
	wants(t, "renew", l.Renew(t.Context()), buckettest.ErrUnknown)
	s.Deliver()
	a.c.pass(5 * time.Second)
	// The first try is refused, since the earlier one has landed; the second is lost.
	wants(t, "set the mode", l.SetMode(t.Context(), Bounded), buckettest.ErrUnknown)
	if a.c.pass(3 * time.Second); l.Holds() {
		t.Error("the lease counts from a write that did not land")
	}
	if err := l.Renew(t.Context()); err != nil || !l.Holds() {
		t.Errorf("renewed: %v", err)
	}
	if err := l.SetMode(t.Context(), Bounded); err != nil || a.head().Mode != Bounded {
		t.Errorf("HEAD has mode %s; %v", a.head().Mode, err)
	}
}

// TestHeadChangeIsKept: a write of HEAD that landed late does not pass for the next one, which has
// another change.
func TestHeadChangeIsKept(t *testing.T) {
	s := buckettest.NewSim(func(c buckettest.Call) buckettest.Fate {
		if c.Op == buckettest.Put && c.Key == headKey && c.Nth == 3 {
			return buckettest.Late
		}
		return buckettest.Applied
	})
	a := newMachine(t, s, "a")
	l := a.begin(Sync)
	wants(t, "renew", l.Renew(t.Context()), buckettest.ErrUnknown)
	s.Deliver()
	if err := l.SetMode(t.Context(), Bounded); err != nil || a.head().Mode != Bounded {
		t.Errorf("HEAD has mode %s; %v", a.head().Mode, err)
	}
}

// TestDiverged: local records that are not those of the lineage are found before anything is
// applied, whatever they are behind.
func TestDiverged(t *testing.T) {
	t.Run("other bytes", func(t *testing.T) {
		s := buckettest.NewSim(nil)
		a := newMachine(t, s, "a")
		l := a.begin(Sync)
		b := a.newer(s, "b")
		b.d.add([]byte("else"))
		f := b.follow()
		a.ship(l, "one")
		_, err := f.Next(t.Context())
		wants(t, "next", err, ErrDiverged)
		if err := l.Renew(t.Context()); err != nil { // now HEAD leads to where they differ
			t.Fatal(err)
		}
		_, err = Follow(t.Context(), b.o, b.d, Position{})
		wants(t, "follow", err, ErrDiverged)
	})
	t.Run("a tail that another leader did not see", func(t *testing.T) {
		s := buckettest.NewSim(nil)
		a := newMachine(t, s, "a")
		l := a.begin(Async)
		a.ship(l, "one")
		a.commit(l, "two")
		old := a.again().follow()
		b := a.newer(s, "b")
		next := b.force(b.follow())
		_, err := old.TakeOver(t.Context(), TakeOver{Force: true, Mode: Async, LoseTail: true}, a.d.apply)
		wants(t, "take over", err, ErrDiverged)
		wants(t, "renew", next.Renew(t.Context()), ErrFenced)
		if h := b.head(); h.Released {
			t.Error("a lease that nobody used is given back: as if nothing could be lost")
		}
		b.again().takeOver(b.again().follow())
		a.again().follow() // the lineage ends where both agree
		_, err = a.again().follow().TakeOver(t.Context(), TakeOver{Force: true, Mode: Async, LoseTail: true}, a.d.apply)
		wants(t, "take over", err, ErrDiverged)
	})
	t.Run("a tail that nobody led behind", func(t *testing.T) {
		s := buckettest.NewSim(nil)
		a := newMachine(t, s, "a")
		l := a.begin(Async)
		a.ship(l, "one")
		a.commit(l, "two")
		a = a.again()
		l = a.force(a.follow())
		if l.End().LSN != 2 {
			t.Fatalf("the lineage ends at %d", l.End().LSN)
		}
		if err := l.Append(Batch{First: 3, Records: a.d.records[2:]}); err != nil {
			t.Fatal(err)
		}
		if err := a.upload(l); err != nil {
			t.Fatal(err)
		}
		if got := texts(t, s); len(got) != 4 || got[2] != "two" {
			t.Errorf("the lineage has %q", got)
		}
	})
}

// TestModeInHead: HEAD says sync only while nothing that was acknowledged can be lost.
func TestModeInHead(t *testing.T) {
	s := buckettest.NewSim(nil)
	a := newMachine(t, s, "a")
	l := a.begin(Async)
	a.commit(l, "one")
	wants(t, "set mode sync", l.SetMode(ended(), Sync), fault.ErrOutcomeUnknown)
	if mode := a.head().Mode; mode != Async {
		t.Errorf("HEAD says %s, and the bucket lags", mode)
	}
	b := a.newer(s, "b")
	_, err := b.follow().TakeOver(t.Context(), TakeOver{Mode: Sync, Force: true}, b.d.apply)
	wants(t, "take over", err, ErrLosesTail)
	if err := a.upload(l); err != nil {
		t.Fatal(err)
	}
	if err := l.SetMode(t.Context(), Sync); err != nil || a.head().Mode != Sync {
		t.Fatalf("HEAD says %s; %v", a.head().Mode, err)
	}
	_, err = b.follow().TakeOver(t.Context(), TakeOver{Mode: Async}, b.d.apply)
	wants(t, "take over", err, ErrLeased)
	next := b.takeOver(b.follow())
	if mode := a.head().Mode; mode != Sync {
		t.Errorf("the new leader says %s", mode)
	}
	if err := next.SetMode(t.Context(), Async); err != nil || a.head().Mode != Async {
		t.Errorf("HEAD says %s; %v", a.head().Mode, err)
	}
}

// TestPins: retention keeps what a pin needs, until the pin ends or lapses.
func TestPins(t *testing.T) {
	s := buckettest.NewSim(nil)
	a := newMachine(t, s, "a")
	l := a.begin(Sync)
	a.ship(l, "one", "two", "three")
	a.point(l, 2)
	a.point(l, 6)
	r := a.newer(s, "r")
	keys, err := Points(t.Context(), r.o)
	if err != nil || len(keys) != 3 {
		t.Fatalf("points %v; %v", keys, err)
	}
	p, err := ReadPoint(t.Context(), r.o, keys[1])
	if err != nil || p.LSN != 2 {
		t.Fatalf("point %+v; %v", p, err)
	}
	pin, err := TakePin(t.Context(), r.o, p.Position)
	if err != nil {
		t.Fatal(err)
	}
	retain := func() {
		t.Helper()
		if err := l.Retain(t.Context(), 6); err != nil {
			t.Fatal(err)
		}
	}
	retain()
	if exists(t, s, chunkKey(1, 0)) || !exists(t, s, chunkKey(1, 1)) || !exists(t, s, keys[1].key()) {
		t.Error("a pin at record 2 keeps chunk 0, or does not keep chunk 1 and its point")
	}
	r.d.add(a.d.records[:2]...)
	f, err := Follow(t.Context(), r.o, r.d, p.Position)
	if err != nil {
		t.Fatal(err)
	}
	if batches, err := f.Next(t.Context()); err != nil || r.d.apply(batches) != nil || r.d.End() != 4 {
		t.Fatalf("%d records; %v", r.d.End(), err)
	}
	late := a.newer(s, "late")
	_, err = TakePin(t.Context(), late.o, p.Position)
	wants(t, "a pin below the floor", err, ErrPointGone)
	if pins, err := s.List(t.Context(), pinPrefix, ""); err != nil || len(pins) != 1 {
		t.Errorf("a pin that keeps nothing stays: %v; %v", pins, err)
	}
	a.c.pass(pinLapse - time.Second)
	retain()
	if err := pin.Beat(t.Context()); err != nil {
		t.Fatal(err)
	}
	a.c.pass(pinLapse - time.Second)
	retain()
	if !exists(t, s, chunkKey(1, 2)) {
		t.Fatal("a pin that was renewed lapsed")
	}
	a.c.pass(pinLapse)
	retain()
	wants(t, "beat", pin.Beat(t.Context()), ErrPointGone)
	_, err = f.Next(t.Context())
	wants(t, "next", err, ErrPointGone)
	_, err = ReadPoint(t.Context(), r.o, keys[1])
	wants(t, "read the point", err, ErrPointGone)
	if keys, err := Points(t.Context(), r.o); err != nil || len(keys) != 1 {
		t.Errorf("points %v; %v", keys, err)
	}
}

// TestLateRelease: the deletion of a pin comes late, when its reader has another one.
func TestLateRelease(t *testing.T) {
	s := buckettest.NewSim(func(c buckettest.Call) buckettest.Fate {
		if c.Client == "r" && c.Op == buckettest.Delete {
			return buckettest.Late
		}
		return buckettest.Applied
	})
	a := newMachine(t, s, "a")
	l := a.begin(Sync)
	a.ship(l, "one", "two")
	r := a.newer(s, "r")
	for range 2 {
		pin, err := TakePin(t.Context(), r.o, Position{Epoch: 1})
		if err != nil {
			t.Fatal(err)
		}
		wants(t, "release", pin.Release(t.Context()), buckettest.ErrUnknown)
	}
	if _, err := TakePin(t.Context(), r.o, Position{Epoch: 1}); err != nil {
		t.Fatal(err)
	}
	s.Deliver()
	a.point(l, 4)
	if err := l.Retain(t.Context(), 4); err != nil {
		t.Fatal(err)
	}
	if !exists(t, s, chunkKey(1, 0)) {
		t.Error("a late release of one pin removed another")
	}
}

// TestPinWithinChunk: a pin keeps its point and its files though the floor lies in the same chunk.
func TestPinWithinChunk(t *testing.T) {
	s := buckettest.NewSim(nil)
	a := newMachine(t, s, "a")
	l := a.begin(Sync)
	a.ship(l, "one")
	a.commit(l, "two", "three")
	if err := a.upload(l); err != nil {
		t.Fatal(err)
	}
	o := a.o.withDefaults()
	key := l.FileKey("state-2")
	if _, err := o.create(t.Context(), key, []byte("state")); err != nil {
		t.Fatal(err)
	}
	p, err := l.CreatePoint(t.Context(), 2, []File{{Name: "state", Key: key, Size: 5}})
	if err != nil {
		t.Fatal(err)
	}
	a.point(l, 4)
	r := a.newer(s, "r")
	pin, err := TakePin(t.Context(), r.o, p.Position)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Retain(t.Context(), 4); err != nil {
		t.Fatal(err)
	}
	if floor := a.head().Floor; floor.LSN != 4 || floor.Seq != p.Seq {
		t.Fatalf("the floor is %+v, and the point is %+v", floor, p.Position)
	}
	if !exists(t, s, p.ref().key()) || !exists(t, s, key) {
		t.Error("a pinned point, or its file, is deleted")
	}
	if err := pin.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := l.Retain(t.Context(), 4); err != nil {
		t.Fatal(err)
	}
	if exists(t, s, p.ref().key()) || exists(t, s, key) {
		t.Error("nobody needs the point any more, and it is there")
	}
}

// TestRetainedFiles: with a point go the files that no later point has.
func TestRetainedFiles(t *testing.T) {
	s := buckettest.NewSim(nil)
	a := newMachine(t, s, "a")
	l := a.begin(Sync)
	a.ship(l, "one", "two")
	var files []File
	o := a.o.withDefaults()
	for _, name := range []string{"old", "both", "new"} {
		key := l.FileKey(name)
		if _, err := o.create(t.Context(), key, []byte(name)); err != nil {
			t.Fatal(err)
		}
		files = append(files, File{Name: name, Key: key, Size: int64(len(name))})
	}
	for i, at := range []base.LSN{2, 4} {
		if _, err := l.CreatePoint(t.Context(), at, files[i:i+2]); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Retain(t.Context(), 9); err != nil {
		t.Fatal(err)
	}
	for i, want := range []bool{false, true, true} {
		if exists(t, s, files[i].Key) != want {
			t.Errorf("%s is there: %v", files[i].Name, !want)
		}
	}
	b := a.newer(s, "b")
	b.d.add(a.d.records...)
	next := b.force(b.follow())
	b.ship(next, "three")
	if _, err := next.CreatePoint(t.Context(), 6, files[:1]); err == nil || errors.Is(err, ErrFenced) {
		t.Error("a point has a file of an earlier leader that no point has: ", err)
	}
	if _, err := next.CreatePoint(t.Context(), 6, files[1:2]); err != nil {
		t.Error(err)
	}
}

// TestFilesOfStray: a point fails at HEAD, and retention deletes it with its files. A second try with the
// same files does not make a point without files.
func TestFilesOfStray(t *testing.T) {
	cut := false
	s := buckettest.NewSim(func(c buckettest.Call) buckettest.Fate {
		if cut && c.Key == headKey {
			return buckettest.NotApplied
		}
		return buckettest.Applied
	})
	a := newMachine(t, s, "a")
	l := a.begin(Sync)
	a.ship(l, "one", "two")
	o := a.o.withDefaults()
	file := File{Name: "state", Key: l.FileKey("state"), Size: 5}
	upload := func() {
		t.Helper()
		if _, err := o.create(t.Context(), file.Key, []byte("state")); err != nil {
			t.Fatal(err)
		}
	}
	failed := func() {
		t.Helper()
		l.o.Bucket = &afterPoint{l.o.Bucket, func() { cut = true }}
		_, err := l.CreatePoint(t.Context(), 2, []File{file})
		wants(t, "point", err, buckettest.ErrUnknown)
		l.o.Bucket, cut = a.o.Bucket, false
	}
	upload()
	failed()
	if _, err := l.CreatePoint(t.Context(), 2, []File{file}); err != nil { // the files are there
		t.Fatal(err)
	}
	file.Key = l.FileKey("state-2")
	upload()
	failed()
	if err := l.Retain(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if exists(t, s, file.Key) {
		t.Fatal("the file is there")
	}
	upload() // and a late deletion may come
	_, err := l.CreatePoint(t.Context(), 4, []File{file})
	wants(t, "point", err, ErrFileGone)
}

// afterPoint calls a function once a point is put.
type afterPoint struct {
	bucket.Bucket
	fn func()
}

func (b *afterPoint) Put(ctx context.Context, key string, body *io.SectionReader, cond bucket.Condition) (bucket.ETag, error) {
	tag, err := b.Bucket.Put(ctx, key, body, cond)
	if strings.HasPrefix(key, pointPrefix) {
		b.fn()
	}
	return tag, err
}

// TestStrayFiles: a leader leaves files without a point. The next one deletes them, and those that a point
// has stay.
func TestStrayFiles(t *testing.T) {
	s := buckettest.NewSim(nil)
	a := newMachine(t, s, "a")
	l := a.begin(Sync)
	a.ship(l, "one")
	o := a.o.withDefaults()
	var files []File
	for _, name := range []string{"kept", "stray"} {
		files = append(files, File{Name: name, Key: l.FileKey(name), Size: 1})
		if _, err := o.create(t.Context(), l.FileKey(name), []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := l.CreatePoint(t.Context(), 2, files[:1]); err != nil {
		t.Fatal(err)
	}
	if err := l.Retain(t.Context(), 0); err != nil || !exists(t, s, files[1].Key) {
		t.Fatal("a leader deletes its own file, which a point may get: ", err)
	}
	b := a.newer(s, "b")
	next := b.force(b.follow())
	if err := next.Retain(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if !exists(t, s, files[0].Key) || exists(t, s, files[1].Key) {
		t.Error("the stray file stays, or the other is gone")
	}
}

// TestDamagedPoint: a point that cannot be read keeps all files and its error, but no chunk, and goes
// with the floor.
func TestDamagedPoint(t *testing.T) {
	s := buckettest.NewSim(nil)
	a := newMachine(t, s, "a")
	l := a.begin(Sync)
	a.ship(l, "one", "two", "three")
	o := a.o.withDefaults()
	var keys []string
	for _, at := range []base.LSN{2, 4, 6} {
		file := File{Name: "state", Key: l.FileKey(fmt.Sprint("state-", at)), Size: 1}
		if _, err := o.create(t.Context(), file.Key, []byte("x")); err != nil {
			t.Fatal(err)
		}
		p, err := l.CreatePoint(t.Context(), at, []File{file})
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, file.Key)
		if at == 4 {
			if _, err := s.Put(t.Context(), p.ref().key(), bucket.NewBody([]byte("?")), bucket.Condition{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	points := a.head().Points
	if _, err := TakePin(t.Context(), a.newer(s, "r").o, Position{LSN: 4, Epoch: 1, Seq: 2}); err != nil {
		t.Fatal(err)
	}
	wants(t, "retain", l.Retain(t.Context(), 4), fault.ErrCorrupt)
	if floor := a.head().Floor.LSN; floor != 2 {
		t.Errorf("the floor is %d", floor)
	}
	wants(t, "retain", l.Retain(t.Context(), 6), fault.ErrCorrupt)
	if exists(t, s, points[1].key()) || exists(t, s, chunkKey(1, 1)) || !exists(t, s, chunkKey(1, 2)) || !exists(t, s, keys[0]) {
		t.Error("the damaged point keeps more than files, or not them")
	}
	a.c.pass(2 * pinLapse)
	if err := l.Retain(t.Context(), 6); err != nil {
		t.Fatal(err)
	}
	if exists(t, s, points[2].key()) || !exists(t, s, points[3].key()) || !exists(t, s, keys[2]) {
		t.Error("the damaged point stays below the floor, or the floor goes")
	}
}

// TestNotApplied: what the caller failed to apply comes again.
func TestNotApplied(t *testing.T) {
	s := buckettest.NewSim(nil)
	a := newMachine(t, s, "a")
	a.ship(a.begin(Sync), "one", "two")
	b := a.newer(s, "b")
	f := b.follow()
	for range 2 {
		if batches, err := f.Next(t.Context()); err != nil || len(batches) != 1 || batches[0].First != 1 {
			t.Fatalf("got %v; %v", batches, err)
		}
	}
	failed := errors.New("a full disk")
	_, err := f.TakeOver(t.Context(), TakeOver{Mode: Sync, Force: true}, func([]Batch) error { return failed })
	wants(t, "take over", err, failed)
	b.force(f)
	if b.d.End() != 4 {
		t.Errorf("it leads behind record %d", b.d.End())
	}
	_, err = Follow(t.Context(), a.o, newDisk(), f.Position())
	if err == nil {
		t.Error("it follows from behind the local end")
	}
}

// TestForceBelowFloor: who lacks what was deleted deposes nobody.
func TestForceBelowFloor(t *testing.T) {
	s := buckettest.NewSim(nil)
	a := newMachine(t, s, "a")
	l := a.begin(Sync)
	b := a.newer(s, "b")
	f := b.follow()
	a.ship(l, "one")
	a.point(l, 2)
	if err := l.Retain(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	_, err := f.TakeOver(t.Context(), TakeOver{Mode: Sync, Force: true}, b.d.apply)
	wants(t, "take over", err, ErrPointGone)
	if err := l.Renew(t.Context()); err != nil {
		t.Errorf("the leader is deposed: %v", err)
	}
}

// TestBadOptions: what cannot be is told before anything is written.
func TestBadOptions(t *testing.T) {
	for name, spoil := range map[string]func(o *Options, mode *Mode){
		"no directory":         func(o *Options, _ *Mode) { o.Dir = "" },
		"no key for the chain": func(o *Options, _ *Mode) { o.Keys = new(seal.Keyring) },
		"a long lease":         func(o *Options, _ *Mode) { o.TTL = 25 * time.Hour },
		"no mode":              func(_ *Options, m *Mode) { *m = "" },
	} {
		t.Run(name, func(t *testing.T) {
			s := buckettest.NewSim(nil)
			a := newMachine(t, s, "a")
			mode := Sync
			spoil(&a.o, &mode)
			if _, err := Begin(t.Context(), a.o, a.d, mode); err == nil {
				t.Error("it begins")
			}
			b := newMachine(t, s, "b")
			l := b.begin(Sync)
			if err := l.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
			before := len(s.History())
			f, err := Follow(t.Context(), a.o, a.d, Position{})
			if err == nil {
				_, err = f.TakeOver(t.Context(), TakeOver{Mode: mode}, a.d.apply)
			}
			if err == nil {
				t.Error("it takes over")
			}
			for _, c := range s.History()[before:] {
				if c.Op == buckettest.Put {
					t.Errorf("it writes: %s", c)
				}
			}
		})
	}
	s := buckettest.NewSim(nil)
	a := newMachine(t, s, "a")
	if _, err := s.Put(t.Context(), pointPrefix+"x", bucket.NewBody(nil), bucket.Condition{}); err != nil {
		t.Fatal(err)
	}
	_, err := Begin(t.Context(), a.o, a.d, Sync)
	wants(t, "begin", err, ErrNotEmpty)
}

// TestHeadDeleted: HEAD is deleted under a leader, which is not another leader's doing.
func TestHeadDeleted(t *testing.T) {
	s := buckettest.NewSim(nil)
	a := newMachine(t, s, "a")
	l := a.begin(Sync)
	if err := s.Delete(t.Context(), headKey); err != nil {
		t.Fatal(err)
	}
	wants(t, "renew", l.Renew(t.Context()), ErrNoLineage)
}

// TestLatePoint: the point of a leader that was deposed meanwhile does not count, and does not stay.
func TestLatePoint(t *testing.T) {
	s := buckettest.NewSim(func(c buckettest.Call) buckettest.Fate {
		if c.Client == "a" && c.Op == buckettest.Put && strings.HasPrefix(c.Key, pointPrefix+"00000000000000000004") {
			return buckettest.Late
		}
		return buckettest.Applied
	})
	a := newMachine(t, s, "a")
	l := a.begin(Sync)
	a.ship(l, "one", "two")
	_, err := l.CreatePoint(t.Context(), 4, nil)
	wants(t, "point", err, buckettest.ErrUnknown)
	b := a.newer(s, "b")
	next := b.force(b.follow())
	b.point(next, 2)
	s.Deliver()
	points, err := Points(t.Context(), b.o)
	if err != nil || len(points) != 2 || points[1].LSN != 2 {
		t.Errorf("points %v; %v", points, err)
	}
	if !exists(t, s, PointRef{LSN: 4, Epoch: 1, Nth: 2}.key()) {
		t.Fatal("the point has not come")
	}
	if err := next.Retain(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	if exists(t, s, PointRef{LSN: 4, Epoch: 1, Nth: 2}.key()) || !exists(t, s, points[1].key()) {
		t.Error("the late point stays, or another goes")
	}
}

// TestSleepingRetention: a leader sleeps between the floor and its deletions, while another leads and
// makes a point.
func TestSleepingRetention(t *testing.T) {
	s := buckettest.NewSim(nil)
	a := newMachine(t, s, "a")
	l := a.begin(Sync)
	a.ship(l, "one", "two")
	a.point(l, 2)
	to, err := l.newFloor(t.Context(), 2)
	if err != nil || to.LSN != 2 {
		t.Fatalf("a floor at %d; %v", to.LSN, err)
	}
	if err := l.raiseFloor(t.Context(), to); err != nil {
		t.Fatal(err)
	}
	b := a.newer(s, "b")
	b.d.add(a.d.records...)
	next := b.force(b.follow())
	b.ship(next, "three")
	b.point(next, 6)
	if err := l.dropPoints(t.Context(), to.LSN); err != nil {
		t.Fatal(err)
	}
	if err := l.dropChunks(t.Context(), to); err != nil {
		t.Fatal(err)
	}
	points, err := Points(t.Context(), b.o)
	if err != nil || len(points) != 2 {
		t.Errorf("points %v; %v", points, err)
	}
	for _, p := range points {
		if _, err := ReadPoint(t.Context(), b.o, p); err != nil {
			t.Error(err)
		}
	}
}

// TestSeeding: until there is a point, only the directory that began the lineage leads it.
func TestSeeding(t *testing.T) {
	s := buckettest.NewSim(nil)
	a := newMachine(t, s, "a")
	a.d.add([]byte("one"), []byte("two"))
	_, err := Follow(t.Context(), a.o, a.d, Position{})
	wants(t, "follow", err, ErrNoLineage)
	l, err := Begin(t.Context(), a.o, a.d, Sync)
	if err != nil {
		t.Fatal(err)
	}
	a.ship(l, "three")
	_, err = Begin(t.Context(), a.again().o, a.d, Sync)
	wants(t, "begin", err, ErrNotEmpty)
	b := a.newer(s, "b")
	_, err = Follow(t.Context(), b.o, b.d, Position{})
	wants(t, "follow", err, ErrPointGone)
	b.d.add(a.d.records[:2]...)
	_, err = b.follow().TakeOver(t.Context(), TakeOver{Force: true, Mode: Sync}, b.d.apply)
	wants(t, "take over", err, ErrSeeding)
	a = a.again()
	l = a.force(a.follow())
	a.point(l, 3)
	b.force(b.follow())
	if b.d.End() != 4 {
		t.Errorf("it leads behind record %d", b.d.End())
	}
}

// TestHandOver: a lease that is given back is free at once, and nothing is lost.
func TestHandOver(t *testing.T) {
	s := buckettest.NewSim(nil)
	a := newMachine(t, s, "a")
	l := a.begin(Async)
	a.commit(l, "one")
	wants(t, "release", l.Release(ended()), fault.ErrOutcomeUnknown)
	if err := a.upload(l); err != nil {
		t.Fatal(err)
	}
	b := a.newer(s, "b")
	f := b.follow()
	if f.Vacant() {
		t.Error("the lease is free")
	}
	if err := l.Release(t.Context()); err != nil || l.Holds() {
		t.Fatalf("released: %v", err)
	}
	wants(t, "append", l.Append(Batch{First: 3, Records: [][]byte{nil}}), ErrFenced)
	next, err := f.TakeOver(t.Context(), TakeOver{Mode: Async}, b.d.apply)
	if err != nil || b.d.End() != 2 || !next.Holds() {
		t.Fatalf("%d records; %v", b.d.End(), err)
	}
	b.ship(next, "two")
	if got := texts(t, s); len(got) != 4 {
		t.Errorf("the lineage has %q", got)
	}
}

// TestBucketAway: while the bucket is away batches queue, up to a bound, and nobody is told
// anything that is not so.
func TestBucketAway(t *testing.T) {
	s := buckettest.NewSim(nil)
	a := newMachine(t, s, "a")
	a.o.QueueBytes = 360
	l := a.begin(Sync)
	s.Disconnect("a")
	a.commit(l, "one", "two") // 2 × (100 + 3 + 9 + 64) bytes
	wants(t, "upload", a.upload(l), buckettest.ErrUnknown)
	wants(t, "trouble", l.Trouble(), buckettest.ErrUnknown)
	wants(t, "wait", l.Wait(ended(), 2), fault.ErrOutcomeUnknown)
	wants(t, "append", l.Append(Batch{First: 5, Records: [][]byte{make([]byte, 20)}}), ErrBacklog)
	if err := l.Append(Batch{First: 6, Records: [][]byte{nil}}); err == nil {
		t.Error("a batch that leaves a gap is taken")
	}
	s.Connect("a")
	if err := a.upload(l); err != nil || l.Wait(t.Context(), 4) != nil || l.Trouble() != nil {
		t.Errorf("after that: %v, %v", err, l.Trouble())
	}
	if err := l.Append(Batch{First: 5, Records: [][]byte{make([]byte, 100)}}); err != nil {
		t.Errorf("a batch alone that is over the bound: %v", err)
	}
	wants(t, "append", l.Append(Batch{First: 6, Records: [][]byte{make([]byte, MaxBatch+1)}}), fault.ErrTooLarge)
}

// TestStampsDoNotFall: a leader whose clock is behind that of the last one.
func TestStampsDoNotFall(t *testing.T) {
	s := buckettest.NewSim(nil)
	a := newMachine(t, s, "a")
	l := a.begin(Sync)
	for i, stamp := range []int64{7, 3} {
		if err := l.Append(Batch{First: base.LSN(i + 1), Stamp: stamp, Records: [][]byte{nil}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.upload(l); err != nil {
		t.Fatal(err)
	}
	b := a.newer(s, "b")
	next := b.force(b.follow())
	if next.End().Stamp != 7 {
		t.Errorf("the lineage ends with the stamp %d", next.End().Stamp)
	}
}

// TestWithinChunks: a follower joins at any record of any epoch, and gets what it lacks.
func TestWithinChunks(t *testing.T) {
	s := buckettest.NewSim(nil)
	a := newMachine(t, s, "a")
	l := a.begin(Sync)
	for i := range 4 {
		for j := range 9 {
			a.commit(l, fmt.Sprint(i, " ", j))
			if j%2 == i%2 {
				if err := a.upload(l); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := a.upload(l); err != nil {
			t.Fatal(err)
		}
		a = a.again()
		l = a.force(a.follow())
	}
	for from := range a.d.End() + 1 {
		b := a.newer(s, "b")
		b.d.add(a.d.records[:from]...)
		f := b.follow()
		for {
			batches, err := f.Next(t.Context())
			if err != nil {
				t.Fatalf("from %d: %v", from, err)
			}
			if len(batches) == 0 {
				break
			}
			if err := b.d.apply(batches); err != nil {
				t.Fatal(err)
			}
		}
		if !slices.Equal(b.d.chains, a.d.chains) {
			t.Errorf("from %d it gets to %d of %d records", from, b.d.End(), a.d.End())
		}
	}
}

// TestDirectory: a directory is a bucket as any.
func TestDirectory(t *testing.T) {
	dir, err := bucket.Dir(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	a := newMachine(t, buckettest.NewSim(nil), "a")
	a.o.Bucket = dir
	l := a.begin(Sync)
	a.ship(l, "one", "two")
	a.point(l, 2)
	b := a.newer(buckettest.NewSim(nil), "b")
	b.o.Bucket = dir
	next := b.force(b.follow())
	b.ship(next, "three")
	b.point(next, 6)
	a.commit(l, "lost")
	wants(t, "upload", a.upload(l), ErrFenced)
	if err := next.Retain(t.Context(), 6); err != nil {
		t.Fatal(err)
	}
	if err := next.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	f := b.again().follow()
	if batches, err := f.Next(t.Context()); err != nil || len(batches) > 0 || !f.Vacant() {
		t.Errorf("%d batches; %v", len(batches), err)
	}
}

// TestOtherStores: a bucket that is not this store's, or was written by a newer build.
func TestOtherStores(t *testing.T) {
	s := buckettest.NewSim(nil)
	a := newMachine(t, s, "a")
	a.ship(a.begin(Sync), "one")
	b := a.newer(s, "b")
	b.o.Store++
	_, err := Follow(t.Context(), b.o, b.d, Position{})
	wants(t, "follow", err, ErrOtherStore)
	body, err := encodeText(map[string]any{"format": HeadVersion + 1, "else": 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Put(t.Context(), headKey, io.NewSectionReader(bytes.NewReader(body), 0, int64(len(body))), bucket.Condition{}); err != nil {
		t.Fatal(err)
	}
	_, err = Follow(t.Context(), a.o, a.d, Position{})
	wants(t, "follow", err, fault.ErrVersion)
}
