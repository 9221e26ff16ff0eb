package replica

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/race"
	"github.com/stele-go/stele/replica/bucket"
	"github.com/stele-go/stele/replica/bucket/buckettest"
)

// ledger is what was acknowledged.
type ledger struct {
	t     *testing.T
	s     *buckettest.Sim
	acked [][]byte
}

// note adds what a leader acknowledges, of the records that its machine has.
func (k *ledger) note(l *Leader, m *machine) {
	k.t.Helper()
	for lsn := range l.Synced() {
		switch r := m.d.records[lsn]; {
		case int(lsn) == len(k.acked):
			k.acked = append(k.acked, r)
		case !bytes.Equal(k.acked[lsn], r):
			k.t.Errorf("record %d was acknowledged as %q and as %q", lsn+1, k.acked[lsn], r)
		}
	}
}

// settled compares with what the bucket has at the end.
func (k *ledger) settled() []string {
	k.t.Helper()
	k.s.Deliver()
	got := texts(k.t, k.s, k.belowFloor()...)
	for i, r := range k.acked {
		if i >= len(got) || got[i] != string(r) {
			k.t.Errorf("record %d was acknowledged as %q, and the lineage is %q", i+1, r, got)
		}
	}
	return got
}

// belowFloor is what a point would hold.
func (k *ledger) belowFloor() [][]byte {
	k.t.Helper()
	m := newMachine(k.t, k.s, "ledger")
	m.o.Bucket = k.s
	return k.acked[:m.head().Floor.LSN]
}

// retried does something until it succeeds, as all callers do: one call fails, and perhaps a second
// because of it. It returns the first error of another kind.
func retried(do func() error) (err error) {
	for range 4 {
		err = do()
		if err == nil || !errors.Is(err, buckettest.ErrUnknown) && !errors.Is(err, bucket.ErrCondition) && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, fault.ErrCorrupt) {
			return err
		}
	}
	return err
}

func (m *machine) must(what string, do func() error) {
	m.t.Helper()
	if err := retried(do); err != nil {
		m.t.Fatalf("%s: %v", what, err)
	}
}

// open leads, as the start of a program does. k has what a point holds.
func (m *machine) open(force bool, k *ledger) (l *Leader, err error) {
	err = retried(func() error {
		f, err := Follow(m.t.Context(), m.o, m.d, Position{})
		if errors.Is(err, ErrPointGone) {
			m.d.add(k.belowFloor()[m.d.End():]...)
			f, err = Follow(m.t.Context(), m.o, m.d, Position{})
		}
		if errors.Is(err, ErrNoLineage) {
			l, err = Begin(m.t.Context(), m.o, m.d, Sync, 0)
			if !errors.Is(err, ErrNotEmpty) {
				return err
			}
			f, err = Follow(m.t.Context(), m.o, m.d, Position{})
		}
		if err != nil {
			return err
		}
		l, err = f.TakeOver(m.t.Context(), TakeOver{Mode: Sync, Force: force}, m.d.apply)
		if errors.Is(err, ErrLeased) && !force && f.head.Owner == m.o.Owner {
			return buckettest.ErrUnknown
		}
		return err
	})
	return l, err
}

// TestEachFault: whatever one call of the bucket does, all that two leaders, a reader and retention
// do comes to its end, and what was acknowledged is there.
func TestEachFault(t *testing.T) {
	if race.Enabled {
		t.Skip("it runs on one goroutine; without the race detector it is quick")
	}
	buckettest.EachFault(t, func(t *testing.T, s *buckettest.Sim) {
		k := &ledger{t: t, s: s}
		a, b, c, r := newMachine(t, s, "a"), newMachine(t, s, "b"), newMachine(t, s, "c"), newMachine(t, s, "r")
		opened := func(m *machine, force bool) (l *Leader) {
			t.Helper()
			l, err := m.open(force, k)
			if err != nil {
				t.Fatal(err)
			}
			return l
		}
		point := func(m *machine, l *Leader, at base.LSN) {
			t.Helper()
			m.must("point", func() error { _, err := l.CreatePoint(t.Context(), at, nil); return err })
		}
		l := opened(a, false)
		point(a, l, 0)
		for _, text := range []string{"one", "two", "three"} {
			a.commit(l, text)
			a.must("upload", func() error { return a.upload(l) })
			k.note(l, a)
		}
		point(a, l, 2)
		a.commit(l, "four")
		next := opened(b, true)
		if err := retried(func() error { return a.upload(l) }); err != nil && !errors.Is(err, ErrFenced) {
			t.Fatal(err)
		}
		k.note(l, a)
		b.commit(next, "five")
		b.must("upload", func() error { return b.upload(next) })
		k.note(next, b)
		point(b, next, 4)

		var p *Point
		b.must("read a point", func() error {
			keys, err := Points(t.Context(), r.o)
			if err == nil {
				p, err = ReadPoint(t.Context(), r.o, keys[1])
			}
			return err
		})
		var pin *Pin
		for try := 0; pin == nil; try++ {
			r.o.Owner = fmt.Sprint("r-", try)
			var err error
			if pin, err = TakePin(t.Context(), r.o, p.Position); err != nil && try > 2 {
				t.Fatal(err)
			}
		}
		b.must("retain", func() error { return next.Retain(t.Context(), 4) })
		r.d.add(b.d.records[:2]...)
		var f *Follower
		r.must("follow", func() (err error) { f, err = Follow(t.Context(), r.o, r.d, p.Position); return err })
		for more := true; more; {
			r.must("next", func() error {
				batches, err := f.Next(t.Context())
				more = len(batches) > 0
				return errors.Join(err, r.d.apply(batches))
			})
		}
		if !slices.Equal(r.d.chains, b.d.chains) {
			t.Errorf("a reader got %q", r.d.records)
		}
		r.must("beat", func() error { return pin.Beat(t.Context()) })
		r.must("release the pin", func() error { return pin.Release(t.Context()) })
		b.must("retain", func() error { return next.Retain(t.Context(), 4) })
		b.must("release", func() error { return next.Release(t.Context()) })
		last := opened(c, false)
		c.commit(last, "six")
		c.must("upload", func() error { return c.upload(last) })
		k.note(last, c)
		if k.settled(); len(k.acked) < 10 {
			t.Errorf("%d records were acknowledged", len(k.acked))
		}
	})
}

// TestCrashAtEachCall: a leader crashes at each of its calls, which is applied, or not, or later.
// Another one leads, or the same disk again; what was acknowledged is there.
func TestCrashAtEachCall(t *testing.T) {
	life := func(t *testing.T, s *buckettest.Sim, k *ledger) (*machine, bool) {
		a := newMachine(t, s, "a")
		l, err := a.open(true, k)
		if err != nil {
			return a, false
		}
		_, _ = l.CreatePoint(t.Context(), 0, nil) // it may have crashed, here and below
		for _, text := range []string{"one", "two", "three"} {
			a.commit(l, text)
			_ = a.upload(l)
			k.note(l, a)
		}
		_, _ = l.CreatePoint(t.Context(), 4, nil)
		_ = l.Retain(t.Context(), 4)
		a.commit(l, "four")
		_ = a.upload(l)
		k.note(l, a)
		return a, l.Synced() == a.d.End() && l.Release(t.Context()) == nil
	}
	whole := buckettest.NewSim(nil)
	if _, ok := life(t, whole, &ledger{t: t, s: whole}); !ok {
		t.Fatal("it fails without a crash")
	}
	calls := len(whole.History())
	// A take-over crashes as well, so that there may be two epochs without a fence.
	step := 1
	if race.Enabled {
		step = 6
	}
	for crash := range calls {
		for _, fate := range []buckettest.Fate{buckettest.NotApplied, buckettest.AnswerLost, buckettest.Late} {
			for second := 0; second < 12; second += step {
				t.Run(fmt.Sprintf("call %d %s, then call %d", crash, fate, second), func(t *testing.T) {
					made := map[string]int{}
					s := buckettest.NewSim(func(c buckettest.Call) buckettest.Fate {
						n := made[c.Client]
						made[c.Client]++
						switch {
						case c.Client == "a" && n == crash, c.Client == "b" && n == second:
							return fate
						case c.Client == "a" && n > crash, c.Client == "b" && n > second:
							return buckettest.NotApplied
						}
						return buckettest.Applied
					})
					k := &ledger{t: t, s: s}
					a, _ := life(t, s, k)
					b := newMachine(t, s, "b")
					if l, err := b.open(true, k); err == nil {
						b.commit(l, "five")
						_ = b.upload(l)
						k.note(l, b)
					}
					if crash%2 == 0 {
						s.Deliver()
					}
					c := newMachine(t, s, "c")
					l, err := c.open(true, k)
					for _, old := range []*machine{a, b} { // one of them seeds
						if errors.Is(err, ErrSeeding) {
							c.d, c.o.Dir = old.d, old.o.Dir
							l, err = c.open(true, k)
						}
					}
					if err != nil {
						t.Fatal(err)
					}
					for lsn := l.End().LSN; lsn < c.d.End(); lsn++ {
						if err := l.Append(Batch{First: lsn + 1, Records: c.d.records[lsn : lsn+1]}); err != nil {
							t.Fatal(err)
						}
					}
					s.Deliver()
					c.commit(l, "six")
					if err := c.upload(l); err != nil {
						t.Fatal(err)
					}
					k.note(l, c)
					c.point(l, c.d.End())
					if got := k.settled(); len(got) == 0 || got[len(got)-1] != "six again" {
						t.Errorf("the lineage is %q", got)
					}
					if t.Failed() {
						t.Logf("the calls:\n%s", s)
					}
				})
			}
		}
	}
}
