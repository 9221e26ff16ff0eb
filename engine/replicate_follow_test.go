package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stele-go/stele/replica"
	"github.com/stele-go/stele/replica/bucket/buckettest"
)

// TestFollowerKilled kills a follower, whose manifest does not know how far it has come, and has its directory lead.
func TestFollowerKilled(t *testing.T) {
	root, sim := t.TempDir(), buckettest.NewSim(nil)
	opts := Options{Replica: Replica{Bucket: sim, Mode: replica.Sync, TTL: time.Minute, Interval: time.Millisecond}}
	lead, err := Open(filepath.Join(root, "leader"), opts)
	if err != nil {
		t.Fatal(err)
	}
	putKey(t, lead, "a")
	f, err := FollowStore(filepath.Join(root, "follower"), opts)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 9 {
		putKey(t, lead, fmt.Sprint("b", i))
	}
	if err := f.Await(t.Context(), 10); err != nil {
		t.Fatal(err)
	}
	want := keysOf(t, lead)
	f.follower.stop()
	leave(f)
	if err := lead.Close(); err != nil {
		t.Fatal(err)
	}
	e, err := Open(filepath.Join(root, "follower"), opts)
	if err != nil {
		t.Fatal(err)
	}
	putKey(t, e, "c")
	if got := keysOf(t, e); !slices.Equal(got, append(want, "c")) {
		t.Errorf("it has %q, want %q and c", got, want)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
}

// lostTail makes a leader in dir with one record that the bucket lacks, and loses it.
func lostTail(t *testing.T, dir, key string, sim *buckettest.Sim) {
	t.Helper()
	client := sim.Client(dir + key)
	e, err := Open(dir, Options{Replica: Replica{Bucket: client, TTL: 20 * time.Millisecond, Interval: time.Hour, AcceptLoss: true}, ManualWork: true})
	if err != nil {
		t.Fatal(err)
	}
	<-e.replica.seeded
	sim.Disconnect(dir + key)
	putKey(t, e, key)
	e.replica.patience = time.Millisecond
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestFollowerOwnTail opens a follower in the directory of a leader that has a record which the bucket lacks, while nobody else has led.
// It leads again with all that it has.
func TestFollowerOwnTail(t *testing.T) {
	dir, sim := filepath.Join(t.TempDir(), "s"), buckettest.NewSim(nil)
	lostTail(t, dir, "a", sim)
	opts := Options{Replica: Replica{Bucket: sim, TTL: 20 * time.Millisecond}}
	if _, err := FollowStore(dir, opts); !errors.Is(err, replica.ErrDiverged) || errors.Is(err, ErrSeed) {
		t.Fatalf("it follows: %v", err)
	}
	e, err := Open(dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	if got := keysOf(t, e); !slices.Equal(got, []string{"a"}) {
		t.Errorf("it has %q", got)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestRejoinTwice has a directory rejoin that diverged, and then once more at the same record: both tails are kept.
func TestRejoinTwice(t *testing.T) {
	root, sim := t.TempDir(), buckettest.NewSim(nil)
	dir := filepath.Join(root, "s")
	e, err := Open(filepath.Join(root, "first"), Options{Replica: Replica{Bucket: sim, TTL: 20 * time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	<-e.replica.seeded
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	for n, key := range []string{"a", "b"} {
		// It leads, and is lost; then the first one leads, and writes nothing.
		if n == 0 {
			if _, err := RestoreStore(t.Context(), sim, dir, 0, time.Time{}, Options{}); err != nil {
				t.Fatal(err)
			}
		}
		lostTail(t, dir, key, sim)
		e, err := Open(filepath.Join(root, "first"), Options{Replica: Replica{Bucket: sim, TTL: 20 * time.Millisecond, AcceptLoss: true}})
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		for range 2 { // the second time it has nothing of its own
			first, err := RejoinStore(context.Background(), dir, Options{Replica: Replica{Bucket: sim}})
			if err != nil {
				t.Fatal(err)
			}
			if first > 1 {
				t.Fatalf("record %d is the first of the tail", first)
			}
		}
	}
	for _, name := range []string{TailName(1), "diverged-00000000000000000001-2.tail"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
}
