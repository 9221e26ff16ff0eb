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

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/vfs/crashfs"
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
// Nor does it rejoin, which would set that record aside: it leads again with all that it has.
func TestFollowerOwnTail(t *testing.T) {
	dir, sim := filepath.Join(t.TempDir(), "s"), buckettest.NewSim(nil)
	lostTail(t, dir, "a", sim)
	opts := Options{Replica: Replica{Bucket: sim, TTL: 20 * time.Millisecond}}
	if _, err := FollowStore(dir, opts); !errors.Is(err, replica.ErrDiverged) || errors.Is(err, ErrSeed) {
		t.Fatalf("it follows: %v", err)
	}
	if first, err := RejoinStore(t.Context(), dir, opts); !errors.Is(err, replica.ErrDiverged) {
		t.Errorf("it rejoins, and record %d is set aside: %v", first, err)
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

// checkPatches checks what a flush relies on, see flusher: no record in the log holds a patch against a value that is flushed. It returns
// the number of patches.
func checkPatches(e *Engine) (n int, err error) {
	floor := e.manifest.FloorLSN()
	err = e.readLog(floor, e.log.LastLSN(), func(lsn base.LSN, record []byte) error {
		rec, err := DecodeRecord(record)
		if err != nil {
			return err
		}
		for _, o := range rec.ops {
			for _, s := range o.slots {
				if s.encoding != slotPatch {
					continue
				}
				if n++; s.base.LSN < floor {
					return fmt.Errorf("record %d has a patch against %d.%d, and all up to %d is flushed", lsn, s.base.LSN, s.base.Ord, floor-1)
				}
			}
		}
		return nil
	})
	return n, err
}

// TestFollowerFlushes follows a leader that replaces one value again and again, each as a patch against the last. The follower flushes
// and compacts meanwhile, and is opened again.
func TestFollowerFlushes(t *testing.T) {
	w := newReplicaWorld(t, 7) // in mode sync, and with a bucket that is well
	lead, err := Open("store", w.options(crashfs.New(), "leader"))
	if err != nil {
		t.Fatal(err)
	}
	opts := w.options(crashfs.New(), "follower")
	f, err := FollowStore("store", opts)
	if err != nil {
		t.Fatal(err)
	}
	patches, flushes := 0, 0
	for i := range 60 {
		v, err := lead.NewRevision(nil, Series{Partition: "p", Name: "s"}, []byte(body(i, 0)))
		if err != nil {
			t.Fatal(err)
		}
		err = lead.Commit(t.Context(), []string{"p"}, func(tx *Tx) error { return tx.Put("p", "k", 0, []SlotIn{{Name: "s", Value: &v}}) })
		if err == nil && i%9 == 8 {
			err = lead.Flush(t.Context())
		}
		if err == nil {
			err = f.follower.poll(t.Context())
			flushes = max(flushes, int(f.flushes.Load()))
		}
		for _, e := range []*Engine{lead, f} {
			if err == nil {
				n := 0
				n, err = checkPatches(e)
				patches += n
			}
		}
		for did := true; err == nil && did; {
			did, err = f.compactor.step(t.Context(), nil)
		}
		if err == nil && i%7 == 6 {
			if err = f.Close(); err == nil {
				f, err = FollowStore("store", opts)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		p, err := f.Partition("p")
		if err != nil {
			t.Fatal(err)
		}
		got, err := f.ReadValue(t.Context(), p.Family, p.Get("k").Slots.At(0).Ref)
		if err != nil || string(got) != body(i, 0) {
			t.Fatalf("after record %d: %q, %v", i+1, got, err)
		}
	}
	if patches == 0 || flushes == 0 {
		t.Errorf("patches: %d, flushes: %d", patches, flushes)
	}
	if err := errors.Join(f.Close(), lead.Close()); err != nil {
		t.Fatal(err)
	}
}
