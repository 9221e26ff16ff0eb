package disk_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/admin"
	"github.com/stele-go/stele/saver/disk"
)

// A store is restored to the moment when a checkpoint was stored, or its thread was copied: the shortest
// prefix that has it. Of what the oldest
// point has already, the moment is the point.
func TestRestoreAtCheckpoint(t *testing.T) {
	w := newHeldWorld(t)
	s := w.open("leader", w.bucket)
	defer func() { _ = s.Close() }()
	type moment struct{ thread, checkpoint string }
	want := map[moment]uint64{}
	stored := func(thread, id string) {
		t.Helper()
		want[moment{thread, id}] = s.Stats().LastLSN
	}
	for i := range 6 {
		id := fmt.Sprint("c", i)
		for _, thread := range []string{"a:b", "other"} {
			if _, err := s.Put(t.Context(), saver.Config{ThreadID: thread}, saver.Checkpoint{ID: id}, nil, nil); err != nil {
				t.Fatal(err)
			}
			stored(thread, id)
		}
		inside := fmt.Sprint("inside", i)
		if _, err := s.Put(t.Context(), saver.Config{ThreadID: "a:b", Namespace: "sub:1"}, saver.Checkpoint{ID: inside}, nil, nil); err != nil {
			t.Fatal(err)
		}
		stored("a:b", inside)
		if i == 3 {
			if err := s.CopyThread(t.Context(), "a:b", "copy"); err != nil {
				t.Fatal(err)
			}
			stored("copy", "c2")
		}
	}
	at := func(m moment) (*admin.BucketReport, string, error) {
		dir := filepath.Join(t.TempDir(), "restored")
		rep, err := admin.RestoreBucket(t.Context(), w.bucket, dir, admin.AtCheckpoint(m.thread, m.checkpoint), admin.BackupOptions{})
		return rep, dir, err
	}
	has := func(dir string, m moment) bool {
		t.Helper()
		r, err := disk.Open(dir, disk.Options{ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = r.Close() }()
		if !saysHeld(r) {
			t.Errorf("%v: not held", m)
		}
		for tup, err := range r.List(t.Context(), saver.Query{ThreadID: m.thread}) {
			if err != nil {
				t.Fatal(err)
			}
			if tup.Checkpoint.ID == m.checkpoint {
				return true
			}
		}
		return false
	}
	for m, lsn := range want {
		rep, dir, err := at(m)
		if err != nil || rep.LastLSN != lsn || !has(dir, m) {
			t.Errorf("%v: %+v, %v; want record %d", m, rep, err, lsn)
		}
	}
	unknown := func(m moment) {
		t.Helper()
		var no *admin.NoMomentError
		_, dir, err := at(m)
		if !errors.As(err, &no) || !errors.Is(err, fault.ErrNotFound) || no.From.IsZero() || no.To.Before(no.From) {
			t.Errorf("%v: %v", m, err)
		}
		if left, err := os.ReadDir(dir); err == nil && len(left) > 0 {
			t.Errorf("%v left %v", m, left)
		}
	}
	for _, m := range []moment{{"a:b", "c9"}, {"none", "c1"}, {"copy", "c4"}, {"other", "inside1"}} {
		unknown(m)
	}

	// An erasure ends what can be restored: one point is left, which has the rest.
	if err := s.Erase(t.Context(), "other"); err != nil {
		t.Fatal(err)
	}
	unknown(moment{"other", "c1"})
	rep, dir, err := at(moment{"a:b", "c1"})
	if err != nil || !has(dir, moment{"a:b", "c5"}) {
		t.Errorf("%+v, %v", rep, err)
	}
}
