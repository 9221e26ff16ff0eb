package disk_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/metrics"
	"github.com/stele-go/stele/replica/bucket/buckettest"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/admin"
	"github.com/stele-go/stele/saver/disk"
)

// isHeld reports whether Health says that a store is held, and checks that its threads say so, too.
func isHeld(t *testing.T, s *disk.Saver) bool {
	t.Helper()
	held := saysHeld(s)
	for info, err := range s.Threads(t.Context(), saver.ThreadQuery{}) {
		if err != nil || info.Held != held {
			t.Fatalf("%+v, %v in a store that is held: %t", info, err, held)
		}
	}
	return held
}

func saysHeld(s *disk.Saver) bool {
	return slices.ContainsFunc(s.Health().Problems, func(p metrics.Problem) bool { return p.Kind == metrics.TroubleHeld })
}

// heldWorld has a bucket whose leader has ended, and where the record of its thread is.
type heldWorld struct {
	t      *testing.T
	root   string
	bucket *buckettest.Sim
	record uint64
}

func (w *heldWorld) dir(name string) string { return filepath.Join(w.root, name) }

func (w *heldWorld) open(name string, b *buckettest.Sim) *disk.Saver {
	w.t.Helper()
	o := disk.Options{}
	if b != nil {
		o.Replica = disk.Replica{Bucket: b, Mode: "sync", TTL: time.Minute}
	}
	s, err := disk.Open(w.dir(name), o)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// isHeld opens a directory, and closes it again.
func (w *heldWorld) isHeld(name string, b *buckettest.Sim) bool {
	w.t.Helper()
	s := w.open(name, b)
	held := isHeld(w.t, s)
	w.close(s)
	return held
}

func (w *heldWorld) close(s *disk.Saver) {
	w.t.Helper()
	if err := s.Close(); err != nil {
		w.t.Fatal(err)
	}
}

func (w *heldWorld) restore(name string, b *buckettest.Sim, at uint64, release bool) {
	w.t.Helper()
	if _, err := admin.RestoreBucket(w.t.Context(), b, w.dir(name), moment(at), admin.BackupOptions{Release: release}); err != nil {
		w.t.Fatal(err)
	}
}

// unfinished puts a checkpoint whose node is to run.
func unfinished(id string) saver.PutRequest {
	return saver.PutRequest{Config: saver.Config{ThreadID: "t"}, Checkpoint: saver.Checkpoint{ID: id}, Note: &saver.Note{Graph: "g", Next: []string{"n"}}}
}

func newHeldWorld(t *testing.T) *heldWorld {
	w := &heldWorld{t: t, root: t.TempDir(), bucket: buckettest.NewSim(nil)}
	s := w.open("leader", w.bucket)
	if _, err := s.PutRequest(t.Context(), unfinished("1")); err != nil {
		t.Fatal(err)
	}
	w.record = s.Stats().LastLSN
	w.close(s)
	return w
}

// A store that takes its original's place goes on, and any other is held.
func TestWhatIsHeld(t *testing.T) {
	w := newHeldWorld(t)
	for _, c := range []struct {
		name   string
		at     uint64
		free   bool // --release
		detach bool
		held   bool
	}{
		{"newest", 0, false, false, false},
		{"earlier", w.record, false, false, true},
		{"earlier, released", w.record, true, false, false},
		{"newest, released", 0, true, false, false},
		{"detached", 0, false, true, true},
	} {
		w.restore(c.name, w.bucket, c.at, c.free)
		if c.detach {
			if err := admin.DetachBucket(w.dir(c.name), admin.Access{}); err != nil {
				t.Fatal(err)
			}
		}
		leads := w.bucket
		if c.at > 0 || c.detach {
			leads = nil
		}
		for range 2 { // it stays so
			if held := w.isHeld(c.name, leads); held != c.held {
				t.Errorf("%s: held %t", c.name, held)
			}
		}
	}
	// One that has led has no original beside it.
	if err := admin.DetachBucket(w.dir("newest"), admin.Access{}); err != nil {
		t.Fatal(err)
	}
	if w.isHeld("newest", nil) {
		t.Error("a leader is held once it is detached")
	}
}

// A thread with which somebody went on is held no more, whether that stored a checkpoint or the writes of a task.
func TestWhoGoesOnReleasesAThread(t *testing.T) {
	w := newHeldWorld(t)
	for name, goesOn := range map[string]func(s *disk.Saver) error{
		"writes": func(s *disk.Saver) error {
			return s.PutWrites(t.Context(), saver.Config{ThreadID: "t", CheckpointID: "1"}, []saver.Write{{Channel: "c", Value: saver.ValueOf(1)}}, "task", "")
		},
		"checkpoint": func(s *disk.Saver) error {
			_, err := s.PutRequest(t.Context(), unfinished("2"))
			return err
		},
	} {
		w.restore(name, w.bucket, w.record, false)
		s := w.open(name, nil)
		if !isHeld(t, s) {
			t.Fatal("the restored store is not held")
		}
		if err := goesOn(s); err != nil {
			t.Fatal(err)
		}
		for info, err := range s.Threads(t.Context(), saver.ThreadQuery{}) {
			if err != nil || info.Held {
				t.Errorf("%s: %+v, %v", name, info, err)
			}
		}
		w.close(s)
	}
}

// What is held is so in a new bucket, at a follower and where it is restored from there, until it is released: also where the point of the
// restore is of before the release.
func TestReleaseReachesTheBucket(t *testing.T) {
	w := newHeldWorld(t)
	w.restore("staging", w.bucket, w.record, false)
	second := buckettest.NewSim(nil)
	s := w.open("staging", second)
	for !s.Health().Replica.Seeded {
		time.Sleep(time.Millisecond)
	}
	f, err := disk.OpenFollower(w.dir("follower"), disk.Options{Replica: disk.Replica{Bucket: second, Interval: time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if !isHeld(t, f) {
		t.Error("the follower is not held")
	}
	if err := f.Release(t.Context()); !errors.Is(err, saver.ErrReadOnly) {
		t.Errorf("a release at a follower: %v", err)
	}
	w.restore("before", second, 0, false)
	if err := s.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := f.Await(t.Context(), s.Stats().LastLSN); err != nil {
		t.Fatal(err)
	}
	if isHeld(t, f) {
		t.Error("the follower is held after the release")
	}
	w.close(s)
	w.restore("after", second, 0, false)
	if w.isHeld("after", second) {
		t.Error("who takes over after the release is held")
	}
	if err := admin.DetachBucket(w.dir("before"), admin.Access{}); err != nil {
		t.Fatal(err)
	}
	if !w.isHeld("before", nil) {
		t.Error("who was restored before the release is not held")
	}
	// Released, and restored again to a moment: the release was that of another store.
	rep, err := admin.RestoreBucket(t.Context(), second, w.dir("earlier"), moment(w.record+1), admin.BackupOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if !w.isHeld("earlier", nil) {
		t.Errorf("restored to record %d, behind the release, and not held", rep.LastLSN)
	}
}

// A store that is salvaged is held if it was, and if nobody knows it, as its manifest is lost.
func TestSalvagedIsHeld(t *testing.T) {
	w := newHeldWorld(t)
	w.restore("staging", w.bucket, w.record, false)
	for _, held := range []bool{true, false} {
		name := "saved"
		if !held {
			s := w.open("staging", nil)
			if err := s.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := s.Release(t.Context()); err != nil { // nothing
				t.Fatal(err)
			}
			w.close(s)
			name = "saved later"
		}
		if _, err := admin.Salvage(t.Context(), w.dir("staging"), w.dir(name), admin.SalvageOptions{}); err != nil {
			t.Fatal(err)
		}
		if w.isHeld(name, nil) != held {
			t.Errorf("%s: held %t", name, !held)
		}
	}
	w.loseManifest("staging")
	if rep, err := admin.Salvage(t.Context(), w.dir("staging"), w.dir("guessed"), admin.SalvageOptions{}); err != nil || !rep.ManifestLost || !rep.Held || !w.isHeld("guessed", nil) {
		t.Errorf("without a manifest: %+v, %v", rep, err)
	}
}

func (w *heldWorld) loseManifest(name string) {
	w.t.Helper()
	all, err := filepath.Glob(filepath.Join(w.dir(name), "MANIFEST*"))
	if err != nil || len(all) == 0 {
		w.t.Fatalf("%v, %v", all, err)
	}
	for _, f := range all {
		if err := os.Remove(f); err != nil {
			w.t.Fatal(err)
		}
	}
}

func moment(record uint64) admin.Moment { return admin.Moment{LSN: base.LSN(record)} }
