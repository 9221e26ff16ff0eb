package engine

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stele-go/stele/base/vfs/crashfs"
	"github.com/stele-go/stele/replica"
	"github.com/stele-go/stele/replica/bucket/buckettest"
)

// TestOpenInsists: Open waits for a bucket that is away, says so, and opens when it is back. It fails after Replica.Deadline.
func TestOpenInsists(t *testing.T) {
	sim := buckettest.NewSim(func(c buckettest.Call) buckettest.Fate {
		if c.N < 5 || c.Client == "gone" {
			return buckettest.NotApplied
		}
		return buckettest.Applied
	})
	var log bytes.Buffer
	opts := Options{Logger: slog.New(slog.NewTextHandler(&log, nil)), ManualWork: true,
		Replica: Replica{Bucket: sim.Client("m"), Interval: time.Millisecond, Deadline: time.Hour}}
	dir := filepath.Join(t.TempDir(), "s")
	e, err := Open(dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(log.String(), "wait for the bucket") {
		t.Errorf("the log says: %s", &log)
	}
	opts.Replica.Bucket, opts.Replica.Deadline = sim.Client("gone"), 20*time.Millisecond
	if _, err := Open(dir, opts); !errors.Is(err, replica.ErrAway) {
		t.Error(err)
	}
}

// TestOpenWithOneFault has one call of the bucket fail, each in turn and in each way: a store opens all the same.
func TestOpenWithOneFault(t *testing.T) {
	for _, mode := range []replica.Mode{replica.Async, replica.Sync} {
		t.Run(string(mode), func(t *testing.T) {
			buckettest.EachFault(t, func(t *testing.T, sim *buckettest.Sim) {
				opts := Options{FS: crashfs.New(), Inline: true, ManualWork: true, Replica: Replica{Bucket: sim.Client("m"), Mode: mode}}
				for life := range 3 {
					e, err := Open("s", opts)
					if err != nil {
						t.Fatalf("life %d: %v", life, err)
					}
					_ = tryPut(t.Context(), e, "k") // the fault may be its
					_ = e.Close()
				}
			})
		})
	}
}

// TestOpenWaitsOnce: what the steps of Open wait is one sum, and the time of a step that succeeds is not in it. The log says that it
// waits, also if one try takes longer than all may.
func TestOpenWaitsOnce(t *testing.T) {
	var now time.Duration
	var log bytes.Buffer
	o := Options{Logger: slog.New(slog.NewTextHandler(&log, nil)), Replica: Replica{Deadline: time.Minute, Interval: time.Nanosecond,
		Clock: func() time.Duration { return now }}}
	tries := 0
	away := func(until int, takes time.Duration) func() error {
		tries = 0
		return func() error {
			now += takes
			if tries++; tries > until {
				return nil
			}
			return replica.ErrAway
		}
	}
	r := newReplication(&Engine{Store: &Store{Opts: o}})
	for _, step := range []struct {
		fails     int
		takes     time.Duration
		wantTries int
		wantErr   error
	}{{1, 30 * time.Second, 2, nil}, {0, time.Hour, 1, nil}, {5, 20 * time.Second, 2, replica.ErrAway}} {
		if err := r.insist(t.Context(), away(step.fails, step.takes)); !errors.Is(err, step.wantErr) || tries != step.wantTries {
			t.Errorf("%+v: %d tries, and then %v", step, tries, err)
		}
	}
	log.Reset()
	r = newReplication(&Engine{Store: &Store{Opts: o}})
	if err := r.insist(t.Context(), away(5, time.Hour)); !errors.Is(err, replica.ErrAway) || tries != 1 {
		t.Errorf("%d tries of an hour, and then %v", tries, err)
	}
	if n := strings.Count(log.String(), "wait for the bucket"); n != 1 {
		t.Errorf("the log says it %d times", n)
	}
}

// TestFollowerKeepsItsDirectory: a follower's directory that has to be made anew stays as it is while the bucket is away.
func TestFollowerKeepsItsDirectory(t *testing.T) {
	root, sim := t.TempDir(), buckettest.NewSim(nil)
	o := Options{Replica: Replica{Bucket: sim, Interval: time.Millisecond}}
	e, err := Open(filepath.Join(root, "leader"), o)
	if err != nil {
		t.Fatal(err)
	}
	putKey(t, e, "a")
	<-e.replica.seeded
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(root, "follower")
	o.Replica.Bucket = sim.Client("f")
	f, err := FollowStore(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	logs, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil || len(logs) == 0 {
		t.Fatal(logs, err)
	}
	for _, name := range logs {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	names := func() []string {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return names
	}
	want := names()
	sim.Disconnect("f")
	if _, err := FollowStore(dir, o); !errors.Is(err, replica.ErrAway) {
		t.Errorf("with the bucket away: %v", err)
	}
	if got := names(); !slices.Equal(got, want) {
		t.Errorf("it has %q, and had %q", got, want)
	}
	sim.Connect("f")
	if f, err = FollowStore(dir, o); err != nil {
		t.Fatal(err)
	}
	if got := keysOf(t, f); !slices.Equal(got, []string{"a"}) {
		t.Errorf("it has the keys %q", got)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}
