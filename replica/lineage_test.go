package replica

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
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
func (m *machine) newer(s *buckettest.Sim, dir string) *machine {
	n := newMachine(m.t, s, dir)
	n.o.Ahead = m.o.Ahead
	return n
}

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
			if _, err := Begin(t.Context(), a.o, a.d, mode, 0); err == nil {
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
	_, err := Begin(t.Context(), a.o, a.d, Sync, 0)
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

// TestSeeding: until there is a point, only the directory that began the lineage leads it.
func TestSeeding(t *testing.T) {
	s := buckettest.NewSim(nil)
	a := newMachine(t, s, "a")
	a.d.add([]byte("one"), []byte("two"))
	_, err := Follow(t.Context(), a.o, a.d, Position{})
	wants(t, "follow", err, ErrNoLineage)
	l, err := Begin(t.Context(), a.o, a.d, Sync, 0)
	if err != nil {
		t.Fatal(err)
	}
	a.ship(l, "three")
	_, err = Begin(t.Context(), a.again().o, a.d, Sync, 0)
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

// TestHandOverCutOff: a process that takes a lease over that was given back dies at one of its calls, which is applied, or not, or later.
// Who takes over next loses nothing, and is not told that it may; unless that process may have led, and acknowledged.
func TestHandOverCutOff(t *testing.T) {
	for n, calls := 0, 1; n < calls; n++ {
		for _, fate := range []buckettest.Fate{buckettest.NotApplied, buckettest.AnswerLost, buckettest.Late} {
			made, dies := 0, false
			s := buckettest.NewSim(func(c buckettest.Call) buckettest.Fate {
				if !dies || c.Client != "b" {
					return buckettest.Applied
				}
				made++
				switch {
				case made <= n:
					return buckettest.Applied
				case made == n+1:
					return fate
				}
				return buckettest.NotApplied
			})
			a := newMachine(t, s, "a")
			l := a.begin(Async)
			a.ship(l, "one")
			if err := l.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
			b := a.newer(s, "b")
			f := b.follow()
			dies = true
			led, err := f.TakeOver(t.Context(), TakeOver{Mode: Async}, b.d.apply)
			if calls = max(calls, made); led != nil {
				continue
			}
			s.Deliver()
			c := a.newer(s, "c")
			g := c.follow()
			if err := g.Look(t.Context()); err != nil {
				t.Fatal(err)
			}
			c.c.pass(c.o.TTL)
			h := c.head()
			next, late := g.TakeOver(t.Context(), TakeOver{Mode: Async}, c.d.apply)
			if h.last().Dir == "b" {
				wants(t, "take over from who may have led", late, ErrLosesTail)
				continue
			}
			if late != nil {
				t.Fatalf("call %d, %s: %v; the next: %v\n%s", n, fate, err, late, s)
			}
			c.ship(next, "two")
			if got := texts(t, s); len(got) != 4 {
				t.Errorf("call %d, %s: the lineage has %q", n, fate, got)
			}
			if h := c.head(); h.Whole {
				t.Error("HEAD says of a leader that acknowledges that nothing can be lost")
			}
		}
		if n > 100 {
			t.Fatal("it makes ever more calls")
		}
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
	t.Run("one after the other", func(t *testing.T) { testWithinChunks(t, 1) })
	t.Run("together", func(t *testing.T) { testWithinChunks(t, ReadAhead) })
}

func testWithinChunks(t *testing.T, ahead int) {
	s := buckettest.NewSim(nil)
	a := newMachine(t, s, "a")
	a.o.Ahead = ahead
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

// TestOtherLineage: a store begins another lineage behind the records that it had in a lost bucket. Who has followed the first one finds
// out, whether or not the second has more records yet, and in whichever epoch it stands.
func TestOtherLineage(t *testing.T) {
	for _, more := range []bool{false, true} {
		s := buckettest.NewSim(nil)
		a := newMachine(t, s, "a")
		l := a.begin(Sync)
		a.ship(l, "one", "two")
		b := newMachine(t, s, "b")
		f := b.follow()
		for batches, err := f.Next(t.Context()); batches != nil || err != nil; batches, err = f.Next(t.Context()) {
			if err = errors.Join(err, b.d.apply(batches)); err != nil {
				t.Fatal(err)
			}
		}
		anew := buckettest.NewSim(nil)
		a.o.Bucket, f.o.Bucket = anew, anew
		a.d.chains[a.d.End()] = Chain{1} // nobody knows the records before
		l = a.begin(Sync)
		if more {
			a.ship(l, "three")
		}
		if batches, err := f.Next(t.Context()); !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("more records %v: it goes on: %v, %v", more, batches, err)
		}
	}
}
