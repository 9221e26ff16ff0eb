package server_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/replica/bucket/buckettest"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/wire"
	"github.com/stele-go/stele/wire/client"
	"github.com/stele-go/stele/wire/server"
)

// TestFollowerSettlesNothing: a call that is asked again at a server that follows now is not said to be refused, if the leader
// may have done it, and a sync there does not say that what the leader answered is stored.
func TestFollowerSettlesNothing(t *testing.T) {
	dir, b := t.TempDir(), buckettest.NewSim(nil)
	replica := disk.Replica{Bucket: b, Interval: time.Millisecond}
	leader, err := disk.Open(filepath.Join(dir, "leader"), disk.Options{Replica: replica})
	must(t, err)
	defer func() { must(t, leader.Close()) }()
	for !leader.Health().Replica.Seeded {
		time.Sleep(time.Millisecond)
	}
	follower, err := disk.OpenFollower(filepath.Join(dir, "follower"), disk.Options{Replica: replica})
	must(t, err)
	defer func() { must(t, follower.Close()) }()

	params := func(thread string, c *wire.Call) []byte { return checkpoint(t, thread, "1", "", c) }
	first := serveSaver(t, leader).greeted().does("put", params("t", call(7, 5)))
	must(t, follower.Await(ctx, leader.Stats().LastLSN))
	c := serveSaver(t, follower).greeted()
	if second := c.does("put", params("t", again(call(7, 5)))); string(first) != string(second) {
		t.Errorf("answered %q, first %q", second, first)
	}
	c.refuses("put", params("u", again(call(8, 1))), wire.CodeUnknownOutcome)
	c.refuses("put", params("u", call(8, 1)), wire.CodeReadOnly)
	c.refuses("sync", threads(wire.Threads{}, nil), wire.CodeReadOnly)
}

// TestSyncOfAFencedLeader: a sync that fails because another server leads now says that it is not known what became of the
// calls, and the client does not ask the next server, which does not know either.
func TestSyncOfAFencedLeader(t *testing.T) {
	c := serveSaver(t, syncFails{err: fault.ErrFenced}).greeted()
	c.refuses("sync", threads(wire.Threads{}, nil), wire.CodeUnknownOutcome)
}

// TestStaleFollowerServes: a follower that has not heard of its leader for too long refuses reads, and is there when it has.
func TestStaleFollowerServes(t *testing.T) {
	at, err := server.ListenDir(t.TempDir())
	must(t, err)
	stop, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	s := server.New(server.Options{Saver: brokenSaver{err: fault.ErrStale}})
	go func() { ended <- s.Serve(stop, at.Listener) }()
	c, err := client.Address(at.Address, client.Options{})
	must(t, err)
	for range 2 {
		if err := c.DeleteThread(ctx, "t"); !errors.Is(err, wire.ErrUnavailable) {
			t.Error(err)
		}
	}
	cancel()
	must(t, errors.Join(<-ended, c.Close(), at.Close()))
}

// syncFails is a saver whose Sync fails.
type syncFails struct {
	saver.Saver
	err error
}

func (s syncFails) Sync(context.Context) error { return s.err }

// serveSaver serves a saver until the test ends.
func serveSaver(t *testing.T, s saver.Saver) *node {
	t.Helper()
	at, err := server.ListenDir(t.TempDir())
	must(t, err)
	stop, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	n := &node{t: t, address: at.Address, s: server.New(server.Options{Saver: s, Store: "disk", Token: at.Token})}
	go func() { ended <- n.s.Serve(stop, at.Listener) }()
	t.Cleanup(func() {
		cancel()
		must(t, errors.Join(<-ended, at.Close()))
	})
	return n
}
