package disk_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
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

// machine has a store by LeadOrFollow, and tells each of its roles.
type machine struct {
	name  string
	roles chan *disk.Saver // each role, when it begins
	ended chan error       // the cause of the end of each role's context
	stop  func() error     // ends LeadOrFollow
	ahead atomic.Int64     // of its clock
}

// ttl is longer than a test, so that a lease ends when the test says so.
const ttl = time.Hour

// waits lets a TTL pass for a machine.
func (m *machine) waits() { m.ahead.Add(int64(ttl)) }

var started = time.Now()

// begin begins LeadOrFollow in a directory of its own.
func begin(t *testing.T, sim *buckettest.Sim, root, name string, r disk.Replica) *machine {
	t.Helper()
	r.Bucket = sim.Client(name)
	if r.Interval == 0 {
		r.Interval = 2 * time.Millisecond
	}
	m := &machine{name: name, roles: make(chan *disk.Saver), ended: make(chan error, 100)}
	r.TTL, r.Deadline = ttl, ttl
	r.Clock = func() time.Duration { return time.Since(started) + time.Duration(m.ahead.Load()) }
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- disk.LeadOrFollow(ctx, filepath.Join(root, name), disk.Options{Replica: r}, func(ctx context.Context, s *disk.Saver) error {
			select {
			case m.roles <- s:
			case <-ctx.Done():
			}
			<-ctx.Done()
			m.ended <- context.Cause(ctx)
			return nil
		})
		close(m.roles)
	}()
	var err error
	stopped := false
	m.stop = func() error {
		if !stopped {
			stopped = true
			cancel()
			for range m.roles { // until it is closed
			}
			err = <-done
		}
		return err
	}
	t.Cleanup(func() { _ = m.stop() })
	return m
}

// next is the next role of a machine that leads, or follows.
func (m *machine) next(t *testing.T, follows bool) *disk.Saver {
	t.Helper()
	for s := range m.roles {
		if s.Follows() == follows {
			return s
		}
	}
	t.Fatalf("%s has ended: %v", m.name, m.stop())
	return nil
}

// noteFenced writes at a leader until it notices that another has taken over.
func noteFenced(s *disk.Saver) {
	for i := 0; ; i++ {
		select {
		case <-s.Fenced():
			return
		default:
			_, _ = s.Put(context.Background(), saver.Config{ThreadID: fmt.Sprint("late", i)}, saver.Checkpoint{ID: "1"}, nil, nil)
		}
	}
}

// looks waits until a machine has looked at HEAD so often.
func looks(sim *buckettest.Sim, name string, times int) {
	for before := len(sim.History()); ; time.Sleep(time.Millisecond) {
		n := 0
		for _, c := range sim.History()[before:] {
			if c.Client == name && c.Key == "head" {
				n++
			}
		}
		if n >= times {
			return
		}
	}
}

// seeded waits until others can follow a leader.
func seeded(s *disk.Saver) {
	for !s.Health().Replica.Seeded {
		time.Sleep(time.Millisecond)
	}
}

// led is a machine a that leads, and has put thread 1, which the bucket has.
func led(t *testing.T, sim *buckettest.Sim, root string, r disk.Replica) (a *machine, leader *disk.Saver) {
	t.Helper()
	a = begin(t, sim, root, "a", r)
	leader = a.next(t, false)
	put(t, leader, "1")
	seeded(leader)
	return a, leader
}

// TestLeadOrFollow: the first machine leads, the second follows, and leads when the first cannot reach the bucket any more. The first
// is fenced and follows, when it can. When the second is closed, the first leads again at once.
func TestLeadOrFollow(t *testing.T) {
	for _, mode := range []replica.Mode{replica.Async, replica.Bounded, replica.Sync} {
		t.Run(string(mode), func(t *testing.T) {
			sim, root := buckettest.NewSim(nil), t.TempDir()
			r := disk.Replica{Mode: mode, AcceptLoss: mode != replica.Sync}
			a := begin(t, sim, root, "a", r)
			leader := a.next(t, false)
			put(t, leader, "1")
			if err := leader.Sync(t.Context()); err != nil {
				t.Fatal(err)
			}
			seeded(leader)
			b := begin(t, sim, root, "b", r)
			follower := b.next(t, true)
			if err := follower.Await(t.Context(), leader.Stats().LastLSN); err != nil {
				t.Fatal(err)
			}
			if follower.Fenced() != nil {
				t.Error("a follower can be fenced")
			}

			sim.Disconnect("a")
			b.waits()
			second := b.next(t, false)
			if err := <-b.ended; !errors.Is(err, engine.ErrVacant) {
				t.Errorf("the follower's context ended for %v", err)
			}
			put(t, second, "2")
			if err := errors.Join(has(t.Context(), second, "1"), has(t.Context(), second, "2")); err != nil {
				t.Error(err)
			}
			sim.Connect("a")
			noteFenced(leader)
			if err := <-a.ended; !errors.Is(err, fault.ErrFenced) {
				t.Errorf("the leader's context ended for %v", err)
			}
			again := a.next(t, true)
			if err := again.Await(t.Context(), second.Stats().LastLSN); err != nil {
				t.Fatal(err)
			}
			if err := has(t.Context(), again, "2"); err != nil {
				t.Error(err)
			}

			if err := b.stop(); err != nil {
				t.Fatal(err)
			}
			third := a.next(t, false)
			put(t, third, "3")
			if err := a.stop(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestFencedLeaderWrites: a leader whose place another took acknowledges nothing, and says that it is fenced.
func TestFencedLeaderWrites(t *testing.T) {
	sim, root := buckettest.NewSim(nil), t.TempDir()
	r := disk.Replica{Mode: replica.Sync}
	a := begin(t, sim, root, "a", r)
	leader := a.next(t, false)
	put(t, leader, "1")
	seeded(leader)
	b := begin(t, sim, root, "b", r)
	b.next(t, true)
	sim.Disconnect("a")
	b.waits()
	second := b.next(t, false)
	lost := make(chan error, 1)
	go func() {
		_, err := leader.Put(context.Background(), saver.Config{ThreadID: "lost"}, saver.Checkpoint{ID: "1"}, nil, nil)
		lost <- err
	}()
	put(t, second, "2")
	sim.Connect("a")
	if err := <-lost; !errors.Is(err, fault.ErrFenced) && !errors.Is(err, saver.ErrClosed) {
		t.Errorf("the fenced leader: %v", err)
	}
	again := a.next(t, true)
	if err := again.Await(t.Context(), second.Stats().LastLSN); err != nil {
		t.Fatal(err)
	}
	if err := has(t.Context(), again, "lost"); !errors.Is(err, saver.ErrNotFound) {
		t.Errorf("what was not acknowledged: %v", err)
	}
}

// TestLossIsNotAccepted: in the modes async and bounded nobody takes over from a lost leader unless that is asked for; and from one that
// was closed, at once.
func TestLossIsNotAccepted(t *testing.T) {
	for _, mode := range []replica.Mode{replica.Async, replica.Bounded} {
		t.Run(string(mode), func(t *testing.T) {
			sim, root := buckettest.NewSim(nil), t.TempDir()
			r := disk.Replica{Mode: mode}
			a := begin(t, sim, root, "a", r)
			leader := a.next(t, false)
			put(t, leader, "1")
			seeded(leader)
			b := begin(t, sim, root, "b", r)
			b.next(t, true)
			sim.Disconnect("a")
			b.waits()
			looks(sim, "b", 3) // of which one began behind that, and was judged before the last
			select {
			case err := <-b.ended:
				t.Fatalf("it takes over: %v", err)
			default:
			}
			sim.Connect("a")
			if err := a.stop(); err != nil {
				t.Fatal(err)
			}
			second := b.next(t, false)
			if err := has(t.Context(), second, "1"); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestOneOfSeveralTakesOver: of many followers one wins, and the others follow it.
func TestOneOfSeveralTakesOver(t *testing.T) {
	sim, root := buckettest.NewSim(nil), t.TempDir()
	r := disk.Replica{Mode: replica.Sync}
	a := begin(t, sim, root, "a", r)
	leader := a.next(t, false)
	put(t, leader, "1")
	seeded(leader)
	all := make(chan *disk.Saver)
	var machines []*machine
	for i := range 4 {
		m := begin(t, sim, root, fmt.Sprint("f", i), r)
		machines = append(machines, m)
		m.next(t, true)
		go func() {
			for s := range m.roles {
				if !s.Follows() {
					all <- s
				}
			}
		}()
	}
	sim.Disconnect("a")
	for _, m := range machines {
		m.waits()
	}
	second := <-all
	put(t, second, "2")
	select {
	case <-second.Fenced():
		t.Error("another one took over from a leader that lives")
	default:
	}
}

// TestNobodyLeadsWhileSeeding: a second machine waits until the bucket has a complete point, and follows then.
func TestNobodyLeadsWhileSeeding(t *testing.T) {
	sim, root := buckettest.NewSim(nil), t.TempDir()
	r := disk.Replica{Mode: replica.Async, AcceptLoss: true}
	a := begin(t, sim, root, "a", r)
	leader := a.next(t, false)
	b := begin(t, sim, root, "b", r) // before or after the point is complete
	put(t, leader, "1")
	follower := b.next(t, true)
	if err := follower.Await(t.Context(), leader.Stats().LastLSN); err != nil {
		t.Fatal(err)
	}
	select {
	case <-leader.Fenced():
		t.Error("it is fenced")
	default:
	}
}

// TestLeadOrFollowEnds: what serve returns ends it, and a directory without a bucket is refused.
func TestLeadOrFollowEnds(t *testing.T) {
	sim, root := buckettest.NewSim(nil), t.TempDir()
	mine := errors.New("enough")
	err := disk.LeadOrFollow(t.Context(), filepath.Join(root, "a"), disk.Options{Replica: disk.Replica{Bucket: sim.Client("a")}},
		func(context.Context, *disk.Saver) error { return mine })
	if !errors.Is(err, mine) {
		t.Error(err)
	}
	err = disk.LeadOrFollow(t.Context(), root, disk.Options{}, nil)
	if !errors.Is(err, saver.ErrInvalid) {
		t.Error(err)
	}
}

// TestServeThatHangs: a machine that is to lead, and whose serve does not return, does not keep another one from leading.
func TestServeThatHangs(t *testing.T) {
	const patience = time.Minute
	sim, root := buckettest.NewSim(nil), t.TempDir()
	type role struct {
		name  string
		leads bool
	}
	roles, ended, hang := make(chan role, 10), make(chan string, 10), make(chan struct{})
	run := func(name string) (stop func()) {
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		r := disk.Replica{Mode: replica.Sync, Bucket: sim.Client(name), TTL: 300 * time.Millisecond, Interval: 10 * time.Millisecond, PointEvery: time.Hour}
		go func() {
			done <- disk.LeadOrFollow(ctx, filepath.Join(root, name), disk.Options{Replica: r}, func(ctx context.Context, s *disk.Saver) error {
				if !s.Follows() {
					seeded(s)
				}
				roles <- role{name, !s.Follows()}
				<-ctx.Done()
				ended <- name
				if name == "b" {
					<-hang
				}
				return nil
			})
		}()
		return func() {
			t.Helper()
			cancel()
			select {
			case <-done:
			case <-time.After(patience):
				t.Fatalf("%q has not ended in %v", name, patience)
			}
		}
	}
	next := func(want role) {
		t.Helper()
		for late := time.After(patience); ; {
			select {
			case got := <-roles:
				if got == want {
					return
				}
			case <-late:
				t.Fatalf("%q has not got its role in %v; leads: %t", want.name, patience, want.leads)
			}
		}
	}
	stopA := run("a")
	next(role{"a", true})
	stopB := run("b")
	next(role{"b", false})
	stopA() // in order
	for name, late := "", time.After(patience); name != "b"; {
		select {
		case name = <-ended:
		case <-late:
			t.Fatalf("the role of b, a follower whose leader gave its lease back, has not ended in %v", patience)
		}
	}
	stopC := run("c")
	next(role{"c", true})
	close(hang)
	stopB()
	stopC()
}
