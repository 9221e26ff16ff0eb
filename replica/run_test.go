package replica

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/replica/bucket/buckettest"
)

// init makes the channels of the shared coders, which must not be those of a bubble.
func init() {
	enc, _ := encoder()
	dec, _ := decoder()
	if _, err := dec.DecodeAll(enc.EncodeAll([]byte("some"), nil), make([]byte, 0, 4)); err != nil {
		panic(err)
	}
}

// running is a machine with the clock of the test, and no other.
func running(t *testing.T, s *buckettest.Sim, dir string) *machine {
	m := newMachine(t, s, dir)
	start := time.Now()
	m.o.Clock = func() time.Duration { return time.Since(start) }
	return m
}

// TestRun: a leader that runs sends what many append, renews its lease, survives a bucket that
// fails, and ends with its context.
func TestRun(t *testing.T) {
	for _, interval := range []time.Duration{0, time.Second} {
		synctest.Test(t, func(t *testing.T) {
			s := buckettest.NewSim(buckettest.Seeded(7, 10))
			a := running(t, s, "a")
			a.o.Interval, a.o.QueueBytes = interval, 4000
			k := &ledger{t: t, s: s}
			l, err := a.open(false, k)
			if err != nil {
				t.Fatal(err)
			}
			a.must("point", func() error { _, err := l.CreatePoint(t.Context(), 0, nil); return err })
			ctx, cancel := context.WithCancel(t.Context())
			ran := make(chan error, 1)
			go func() { ran <- l.Run(ctx) }()
			var waiting sync.WaitGroup
			given := make(chan struct{}) // who waits does not wait for the interval
			for i := range 200 {
				text := fmt.Sprint("record ", i)
				a.d.add([]byte(text))
				b := Batch{First: a.d.End(), Stamp: time.Now().UnixMicro(), Records: [][]byte{[]byte(text)}}
				for err = l.Append(b); errors.Is(err, ErrBacklog); err = l.Append(b) {
					if err := l.Wait(t.Context(), l.Synced()+1); err != nil {
						t.Fatal(err)
					}
				}
				if err != nil {
					t.Fatal(err)
				}
				waiting.Go(func() {
					<-given
					if err := l.Wait(t.Context(), b.First); err != nil {
						t.Error(err)
					}
				})
				time.Sleep(50 * time.Millisecond)
			}
			close(given)
			waiting.Wait()
			k.note(l, a)
			time.Sleep(10 * a.o.TTL)
			if !l.Holds() || l.Synced() != 200 {
				t.Errorf("after a long time it holds the lease: %v; record %d", l.Holds(), l.Synced())
			}
			if chunks := int(l.synced.Seq); interval > 0 && chunks > 15 || interval == 0 && chunks < 100 {
				t.Errorf("%d chunks in 10 s at an interval of %v", chunks, interval)
			}
			s.Disconnect("a")
			a.commit(l, "last")
			time.Sleep(time.Minute)
			if l.Holds() || l.Trouble() == nil {
				t.Error("it holds the lease though it is cut off")
			}
			cancel()
			if err := <-ran; !errors.Is(err, context.Canceled) {
				t.Errorf("Run ends with %v", err)
			}
			wants(t, "wait", l.Wait(t.Context(), 202), fault.ErrOutcomeUnknown)
			k.settled()
		})
	}
}

// TestRunIsFenced: a leader that runs notices that another leads, by its next chunk or, idle, by
// its next renewal.
func TestRunIsFenced(t *testing.T) {
	for _, idle := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := buckettest.NewSim(nil)
			a := running(t, s, "a")
			l := a.begin(Sync)
			ran := make(chan error, 1)
			go func() { ran <- l.Run(t.Context()) }()
			a.commit(l, "one")
			if err := l.Wait(t.Context(), 2); err != nil {
				t.Fatal(err)
			}
			synctest.Wait() // for its first renewal
			b := running(t, s, "b")
			f := b.follow()
			_, err := f.TakeOver(t.Context(), TakeOver{Mode: Sync}, b.d.apply)
			wants(t, "take over", err, ErrLeased)
			b.force(f)
			if !idle {
				a.commit(l, "two")
				wants(t, "wait", l.Wait(t.Context(), 4), ErrFenced)
			}
			wants(t, "run", <-ran, ErrFenced)
			wants(t, "append", l.Append(Batch{First: a.d.End() + 1, Records: [][]byte{nil}}), ErrFenced)
		})
	}
}

// TestStall: a challenger waits for a whole TTL without a beat, and then need not ask the leader,
// whose calls arrive later.
func TestStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := buckettest.NewSim(nil)
		a := running(t, s, "a")
		l := a.begin(Sync)
		ctx, cancel := context.WithCancel(t.Context())
		ran := make(chan error, 1)
		go func() { ran <- l.Run(ctx) }()
		b := running(t, s, "b")
		f := b.follow()
		var next *Leader
		stalled := time.Now()
		for try := 0; next == nil; try++ {
			if try == 100 {
				stalled = time.Now()
				s.Stall("a")
				a.commit(l, "one")
			}
			time.Sleep(a.o.TTL / 20)
			batches, err := f.Next(t.Context())
			if err != nil || b.d.apply(batches) != nil {
				t.Fatal(err)
			}
			next, err = f.TakeOver(t.Context(), TakeOver{Mode: Sync}, b.d.apply)
			if err != nil {
				wants(t, "take over", err, ErrLeased)
			}
			if next != nil && l.Holds() {
				t.Error("both hold the lease")
			}
		}
		if took := time.Since(stalled); took < a.o.TTL*2/3 || took > a.o.TTL*11/10 {
			t.Errorf("it took over after %v", took)
		}
		b.ship(next, "two")
		s.Resume("a")
		wants(t, "wait", l.Wait(t.Context(), base.LSN(2)), ErrFenced)
		wants(t, "run", <-ran, ErrFenced)
		cancel()
		if got := texts(t, s); len(got) != 2 || got[0] != "two" {
			t.Errorf("the lineage has %q", got)
		}
	})
}

// TestWaitDoesNotWaitForTheInterval: what nobody waits for is sent once in an interval; what somebody waits for, at once.
func TestWaitDoesNotWaitForTheInterval(t *testing.T) {
	m := newMachine(t, buckettest.NewSim(nil), "a")
	m.o.Interval = time.Hour
	l := m.begin(Async)
	m.ship(l, "first", "second")
	if at := l.Synced(); at != 2 {
		t.Fatalf("the bucket has %d records", at)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	wants(t, "wait", l.Wait(ended, 4), fault.ErrOutcomeUnknown)
	if err := m.upload(l); err != nil || l.Synced() != 4 {
		t.Errorf("the bucket has %d records, and somebody waits for 4: %v", l.Synced(), err)
	}
	m.ship(l, "third")
	if at := l.Synced(); at != 4 {
		t.Errorf("the bucket has %d records, and nobody waits", at)
	}
}
