package disk_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/engine"
	"github.com/stele-go/stele/replica"
	"github.com/stele-go/stele/replica/bucket/buckettest"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
)

// TestReadWhileAway: a store that is opened while the bucket is away is read and not written, and leads when the
// bucket is back.
func TestReadWhileAway(t *testing.T) {
	sim, root := buckettest.NewSim(nil), t.TempDir()
	r := disk.Replica{Mode: replica.Sync}
	a, _ := led(t, sim, root, r)
	if err := a.stop(); err != nil {
		t.Fatal(err)
	}
	sim.Disconnect("a")
	a = begin(t, sim, root, "a", r)
	s := a.next(t, true)
	if err := has(t.Context(), s, "1"); err != nil {
		t.Error(err)
	}
	_, err := s.Put(t.Context(), saver.Config{ThreadID: "2"}, saver.Checkpoint{ID: "1"}, nil, nil)
	if !errors.Is(err, fault.ErrBucketAway) || !errors.Is(err, saver.ErrReadOnly) {
		t.Errorf("a write: %v", err)
	}
	if h := s.Health(); h.Replica.Follower.Away <= 0 {
		t.Errorf("its health: %+v", h.Replica)
	}
	sim.Connect("a")
	s = a.next(t, false)
	if err := <-a.ended; !errors.Is(err, engine.ErrVacant) {
		t.Errorf("the role ended for %v", err)
	}
	put(t, s, "2")
	if err := has(t.Context(), s, "1"); err != nil {
		t.Error(err)
	}
}

// puts waits until the machine has tried so many puts. It fails if a role of the machine ends before.
func (m *machine) puts(t *testing.T, sim *buckettest.Sim, times int) {
	t.Helper()
	for before := len(sim.History()); ; time.Sleep(time.Millisecond) {
		select {
		case err := <-m.ended:
			t.Fatalf("its role ended: %v", err)
		default:
		}
		n := 0
		for _, c := range sim.History()[before:] {
			if c.Client == m.name && c.Op == buckettest.Put {
				n++
			}
		}
		if n >= times {
			return
		}
	}
}

// TestNoRoleWithoutPuts: while gets succeed and puts fail no role changes, of a directory that led last and of one
// that follows a lost leader. When puts succeed, it leads.
func TestNoRoleWithoutPuts(t *testing.T) {
	for _, name := range []string{"a", "b"} {
		t.Run(name, func(t *testing.T) {
			var full atomic.Bool
			sim, root := buckettest.NewSim(func(c buckettest.Call) buckettest.Fate {
				if full.Load() && c.Op == buckettest.Put {
					return buckettest.NotApplied
				}
				return buckettest.Applied
			}), t.TempDir()
			r := disk.Replica{Mode: replica.Sync}
			m := begin(t, sim, root, "a", r)
			leader := m.next(t, false)
			put(t, leader, "1")
			seeded(leader)
			if name == "b" {
				m = begin(t, sim, root, "b", r)
				m.next(t, true)
				sim.Disconnect("a")
				full.Store(true)
				m.waits()
			} else {
				if err := m.stop(); err != nil {
					t.Fatal(err)
				}
				full.Store(true)
				m = begin(t, sim, root, "a", r)
				m.next(t, true)
			}
			m.puts(t, sim, 4)
			full.Store(false)
			put(t, m.next(t, false), "2")
		})
	}
}

// TestAwayEnds: a bucket that answers with what only opening can find ends LeadOrFollow.
func TestAwayEnds(t *testing.T) {
	sim, root := buckettest.NewSim(nil), t.TempDir()
	r := disk.Replica{Mode: replica.Sync}
	a, _ := led(t, sim, root, r)
	if err := a.stop(); err != nil {
		t.Fatal(err)
	}
	sim = buckettest.NewSim(nil)
	sim.Disconnect("a")
	a = begin(t, sim, root, "a", r)
	a.next(t, true)
	sim.Connect("a") // and is empty
	for range a.roles {
		t.Error("it has another role")
	}
	if err := a.stop(); !errors.Is(err, replica.ErrNoLineage) {
		t.Errorf("it ended with %v", err)
	}
}

// TestTakeOverKilled: a follower is cut off behind each call of its take-over in turn, and ended. Started again it
// leads, with all that was acknowledged.
func TestTakeOverKilled(t *testing.T) {
	n := int64(1)
	for takeOverKilled(t, n) {
		n++
	}
	if n < 10 {
		t.Errorf("only %d calls", n)
	}
}

// takeOverKilled lets n calls of the take-over through. It reports whether there were more.
func takeOverKilled(t *testing.T, n int64) bool {
	const off = int64(1 << 40)
	var left atomic.Int64 // calls of b
	left.Store(off)
	cut := make(chan struct{}, 1)
	sim, root := buckettest.NewSim(func(c buckettest.Call) buckettest.Fate {
		if c.Client != "b" || left.Add(-1) >= 0 {
			return buckettest.Applied
		}
		select {
		case cut <- struct{}{}:
		default:
		}
		return buckettest.NotApplied
	}), t.TempDir()
	r := disk.Replica{Mode: replica.Sync, MaxStale: -1} // the clock of b jumps
	a, leader := led(t, sim, root, r)
	b := begin(t, sim, root, "b", r)
	follower := b.next(t, true)
	if err := follower.Await(t.Context(), leader.Stats().LastLSN); err != nil {
		t.Fatal(err)
	}
	sim.Disconnect("a")
	b.waits()
	left.Store(n)
	more := true
	for done := false; !done; {
		select {
		case <-cut:
			done = true
		case s := <-b.roles:
			if s != nil && !s.Follows() {
				more, done = left.Load() < 0, true
			}
		}
	}
	if err := b.stop(); err != nil && more {
		t.Logf("%d calls: %v", n, err) // what it says of the bucket
	}
	left.Store(off)
	b = begin(t, sim, root, "b", r)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go func() { // until it leads
		for ctx.Err() == nil {
			b.waits()
			time.Sleep(5 * time.Millisecond)
		}
	}()
	s := b.next(t, false)
	stop()
	put(t, s, "2")
	if err := has(t.Context(), s, "1"); err != nil {
		t.Errorf("%d calls: %v", n, err)
	}
	if err := b.stop(); err != nil {
		t.Errorf("%d calls: %v", n, err)
	}
	_ = a.stop() // it is fenced, and cut off
	return more
}

// TestEndGivesBack: a machine that is ended in order, after it has taken the lease and before it leads, gives the lease
// back, in mode async, too: another one leads. It is one that followed, or one that was opened while its bucket was away.
// It is ended while it serves, or between two roles.
func TestEndGivesBack(t *testing.T) {
	for _, c := range []struct {
		last    string
		between bool
	}{{"a", false}, {"a", true}, {"b", false}, {"b", true}} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			last := c.last
			sim, root := buckettest.NewSim(nil), t.TempDir()
			r := disk.Replica{Mode: replica.Async}
			a, _ := led(t, sim, root, r)
			ctx, end := context.WithCancel(t.Context())
			defer end()
			up, done := make(chan struct{}), make(chan error, 1)
			run := func() {
				o := r
				o.Bucket, o.TTL, o.Interval = sim.Client(last), ttl, 2*time.Millisecond
				between := slog.New(slog.NewTextHandler(writes(func(line string) {
					if strings.Contains(line, "the store changes its role") { // it is closed
						end()
					}
				}), nil))
				done <- disk.LeadOrFollow(ctx, filepath.Join(root, last), disk.Options{Replica: o, Logger: between}, func(ctx context.Context, s *disk.Saver) error {
					close(up)
					<-ctx.Done()
					if why := context.Cause(ctx); !s.Follows() || !errors.Is(why, engine.ErrVacant) {
						t.Errorf("it follows: %t, and ended for %v", s.Follows(), why)
					}
					if !c.between {
						end()
					}
					return nil
				})
			}
			if last == "b" {
				go run()
				<-up
			}
			if err := a.stop(); err != nil {
				t.Fatal(err)
			}
			if last == "a" {
				sim.Disconnect("a")
				go run()
				<-up
				sim.Connect("a")
			}
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			if st, err := replica.ReadStatus(t.Context(), replica.Options{Bucket: sim}); err != nil || !st.Released {
				t.Fatalf("the lease is given back: %+v, %v", st, err)
			}
			put(t, begin(t, sim, root, "c", r).next(t, false), "2")
		})
	}
}

// writes is a Writer of lines.
type writes func(line string)

func (w writes) Write(b []byte) (int, error) {
	w(string(b))
	return len(b), nil
}

// TestHoldsUntilItLeads: a follower that has taken the lease renews it until it leads, though that takes as long as a
// TTL: no other one takes over meanwhile.
func TestHoldsUntilItLeads(t *testing.T) {
	sim, root := buckettest.NewSim(nil), t.TempDir()
	r := disk.Replica{Mode: replica.Sync}
	a, _ := led(t, sim, root, r)
	r.Bucket, r.TTL, r.Interval = sim.Client("b"), 3*time.Second, 2*time.Millisecond
	ctx, end := context.WithCancel(t.Context())
	up, done := make(chan struct{}, 1), make(chan error, 1)
	go func() {
		done <- disk.LeadOrFollow(ctx, filepath.Join(root, "b"), disk.Options{Replica: r}, func(role context.Context, s *disk.Saver) error {
			up <- struct{}{}
			<-role.Done()
			if s.Follows() && !beats(sim, "b", 3) {
				t.Error("it does not renew the lease")
			}
			return nil
		})
	}()
	<-up
	if err := a.stop(); err != nil {
		t.Fatal(err)
	}
	<-up // it leads, after 3 beats
	end()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// beats waits until a machine has written HEAD so often. It reports false once the machine has read it 2000 times.
func beats(sim *buckettest.Sim, name string, times int) bool {
	for before := len(sim.History()); ; time.Sleep(5 * time.Millisecond) {
		puts, gets := 0, 0
		for _, c := range sim.History()[before:] {
			switch {
			case c.Client != name || c.Key != "head":
			case c.Op == buckettest.Put:
				puts++
			default:
				gets++
			}
		}
		if puts >= times || gets >= 2000 {
			return puts >= times
		}
	}
}

// TestRefusedTakeOverIsTold: a follower that is to take over, and whose puts fail, says so at each look at its health,
// until it has taken over.
func TestRefusedTakeOverIsTold(t *testing.T) {
	var full atomic.Bool
	sim, root := buckettest.NewSim(func(c buckettest.Call) buckettest.Fate {
		if full.Load() && c.Client == "b" && c.Op == buckettest.Put {
			return buckettest.NotApplied
		}
		return buckettest.Applied
	}), t.TempDir()
	r := disk.Replica{Mode: replica.Sync}
	a, _ := led(t, sim, root, r)
	b := begin(t, sim, root, "b", r)
	f := b.next(t, true)
	if h := f.Health(); len(h.Problems) > 0 || h.Replica.Follower.Away > 0 {
		t.Errorf("%+v", h)
	}
	full.Store(true)
	if err := a.stop(); err != nil {
		t.Fatal(err)
	}
	b.puts(t, sim, 2)
	for last := time.Duration(0); last < 20*time.Millisecond; {
		h := f.Health()
		if away := h.Replica.Follower.Away; len(h.Problems) == 0 || away < last || h.Replica.Trouble == "" {
			t.Fatalf("away for %v after %v: %+v", away, last, h)
		} else {
			last = away
		}
	}
	full.Store(false)
	put(t, b.next(t, false), "2")
}
