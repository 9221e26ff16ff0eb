package replica

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/replica/bucket"
	"github.com/stele-go/stele/replica/bucket/buckettest"
)

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

// forgetful is a local log that knows the chain behind its last record alone, as that of a follower that was opened anew.
type forgetful struct{ *disk }

func (d forgetful) Chain(lsn base.LSN) (Chain, error) {
	if lsn != d.End() {
		return Chain{}, fmt.Errorf("the chain behind record %d is not known", lsn)
	}
	return d.disk.Chain(lsn)
}

// TestTakeOverAgain: a take-over that has ended the epoch of a lost leader, and cannot say so in HEAD, is begun again, by a follower
// that HEAD lags behind.
func TestTakeOverAgain(t *testing.T) {
	heads := 0
	s := buckettest.NewSim(func(c buckettest.Call) buckettest.Fate {
		if c.Client != "b" || c.Op != buckettest.Put || c.Key != headKey {
			return buckettest.Applied
		}
		if heads++; heads == 2 {
			return buckettest.NotApplied
		}
		return buckettest.Applied
	})
	a := newMachine(t, s, "a")
	l := a.begin(Sync)
	a.ship(l, "one", "two")
	b := newMachine(t, s, "b")
	f := b.follow()
	for b.d.End() < a.d.End() {
		batches, err := f.Next(t.Context())
		if err == nil {
			err = b.d.apply(batches)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	f.local = forgetful{b.d}
	b.c.pass(b.o.TTL)
	if _, err := f.TakeOver(t.Context(), TakeOver{Mode: Sync}, b.d.apply); err == nil || heads != 2 {
		t.Fatalf("%d puts of HEAD, %v", heads, err)
	}
	b.takeOver(f)
}

// sleeps is a leader that has shipped a chunk and falls asleep while it sends the next one.
func sleeps(t *testing.T, s *buckettest.Sim) (*machine, *Leader, *flight) {
	t.Helper()
	a := newMachine(t, s, "a")
	l := a.begin(Sync)
	a.ship(l, "one")
	a.commit(l, "two")
	asleep, err := l.take()
	if err != nil {
		t.Fatal(err)
	}
	return a, l, asleep
}

// TestFencesAreNeverDeleted: a leader sleeps while another takes over and deletes all that is old.
func TestFencesAreNeverDeleted(t *testing.T) {
	s := buckettest.NewSim(nil)
	a, l, asleep := sleeps(t, s)
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
	a, l, asleep := sleeps(t, s)
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
	t.Run("one after the other", func(t *testing.T) { testMissingChunk(t, 1) })
	t.Run("together", func(t *testing.T) { testMissingChunk(t, ReadAhead) })
}

func testMissingChunk(t *testing.T, ahead int) {
	s := buckettest.NewSim(nil)
	a := newMachine(t, s, "a")
	a.o.Ahead = ahead
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
