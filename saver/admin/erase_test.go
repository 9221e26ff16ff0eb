package admin

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
)

// eraseStore is a closed store with threads of two users.
func eraseStore(t *testing.T) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "store")
	d, err := disk.Open(dir, disk.Options{ManualWork: true})
	if err != nil {
		t.Fatal(err)
	}
	for thread, user := range map[string]string{"a1": "ada", "a2": "ada", "b1": "bob", "b2": "bob"} {
		cp := saver.Checkpoint{V: 4, ID: id(1), Versions: map[string]saver.Version{}}
		if _, err := d.Put(t.Context(), saver.Config{ThreadID: thread}, cp, saver.Metadata{"user": user}, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

func threadsOf(t *testing.T, dir string) string {
	t.Helper()
	d, err := (Access{}).Open(dir, false)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }() // read-only
	var ids []string
	for row, err := range Threads(t.Context(), d, ThreadQuery{}) {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, row.ID)
	}
	return strings.Join(ids, " ")
}

// TestEraseSelects: what is asked for is erased and nothing else, and metadata that asks
// for nothing selects nothing.
func TestEraseSelects(t *testing.T) {
	ada := map[string]any{"user": "ada"}
	for name, c := range map[string]struct {
		o    EraseOptions
		left string
	}{
		"a dry run":                 {EraseOptions{Metadata: ada, DryRun: true}, "a1 a2 b1 b2"},
		"by metadata":               {EraseOptions{Metadata: ada}, "b1 b2"},
		"by id":                     {EraseOptions{Threads: []string{"b1"}, Metadata: map[string]any{}}, "a1 a2 b2"},
		"by both":                   {EraseOptions{Threads: []string{"b1", "a1", "nobody"}, Metadata: ada}, "b2"},
		"items alone":               {EraseOptions{Items: [][]string{{"users", "ada"}}, Metadata: map[string]any{}}, "a1 a2 b1 b2"},
		"metadata of nobody":        {EraseOptions{Metadata: map[string]any{"user": "eve"}}, "a1 a2 b1 b2"},
		"metadata of another type":  {EraseOptions{Metadata: map[string]any{"user": 1}}, "a1 a2 b1 b2"},
		"metadata that all must be": {EraseOptions{Metadata: map[string]any{"user": "ada", "none": "x"}}, "a1 a2 b1 b2"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := eraseStore(t)
			rep, err := Erase(t.Context(), dir, c.o)
			if err != nil {
				t.Fatal(err)
			}
			if got := threadsOf(t, dir); got != c.left {
				t.Errorf("%q is left, want %q; %+v", got, c.left, rep)
			}
		})
	}
	for name, o := range map[string]EraseOptions{
		"nothing": {Metadata: map[string]any{}}, "a bad key": {Threads: []string{"a1"}, Metadata: map[string]any{"": 1}},
		"an empty prefix": {Threads: []string{"a1"}, Items: [][]string{nil}}, "an empty id": {Threads: []string{"a1", ""}},
	} {
		dir := eraseStore(t)
		if _, err := Erase(t.Context(), dir, o); !errors.Is(err, saver.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
		if got := threadsOf(t, dir); got != "a1 a2 b1 b2" {
			t.Errorf("%s: %q is left", name, got)
		}
	}
}

// TestEraseGoesOn: an erasure that was interrupted is told of by a dry run, and the same
// call again finishes it although nothing matches any more.
func TestEraseGoesOn(t *testing.T) {
	dir := eraseStore(t)
	d, err := disk.Open(dir, disk.Options{ManualWork: true})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	o := EraseOptions{Metadata: map[string]any{"user": "ada"}, Progress: func(Progress) { cancel() }}
	if _, err := EraseOpen(ctx, d, o); !errors.Is(err, saver.ErrEraseUnfinished) || !errors.Is(err, context.Canceled) {
		t.Fatalf("interrupted: %v", err)
	}
	if _, err := Erase(t.Context(), dir, o); !errors.Is(err, fault.ErrLocked) {
		t.Errorf("while another has it open: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	o.Progress, o.DryRun = nil, true
	for _, want := range []int{2, 2, 0} {
		rep, err := Erase(t.Context(), dir, o)
		if err != nil || rep.Pending != want || len(rep.Threads) != 0 || rep.Nothing() != (want == 0) {
			t.Errorf("dry run %t: %+v, %v, want %d pending", o.DryRun, rep, err, want)
		}
		o.DryRun = !o.DryRun
	}
	if got := threadsOf(t, dir); got != "b1 b2" {
		t.Errorf("%q is left", got)
	}
}
