package admin

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/race"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
)

func id(n int64) string { return fmt.Sprintf("%012d", n) }

// writer puts checkpoint after checkpoint into one thread until it is told to stop.
type writer struct {
	d     *disk.Saver
	acked atomic.Int64
	most  atomic.Int64 // it waits before more than these
	quit  chan struct{}
	done  chan error
}

func startWriter(t *testing.T, dir string) *writer {
	t.Helper()
	d, err := disk.Open(dir, disk.Options{LogFileSize: 64 << 10, FlushBytes: 96 << 10, ImageBytes: 16 << 10, CompactFanout: 2, CompactRate: -1, Sync: disk.SyncNever})
	if err != nil {
		t.Fatal(err)
	}
	w := &writer{d: d, quit: make(chan struct{}), done: make(chan error, 1)}
	w.most.Store(1000)
	go func() {
		for n := int64(1); ; n++ {
			if !w.wait(n) {
				w.done <- nil
				return
			}
			if err := put(d, "t", n); err != nil {
				w.done <- err
				return
			}
			w.acked.Store(n)
		}
	}()
	return w
}

// wait waits until checkpoint n may be put; false if none may be any more.
func (w *writer) wait(n int64) bool {
	for {
		select {
		case <-w.quit:
			return false
		default:
		}
		if n <= w.most.Load() {
			return true
		}
		time.Sleep(100 * time.Microsecond)
	}
}

// goOn lets it put as much as it can beside what comes next. There is an end to it: the
// more there is to look at, the more is put meanwhile.
func (w *writer) goOn() { w.most.Store(w.acked.Load() + 3000) }

func (w *writer) stop(t *testing.T) {
	t.Helper()
	close(w.quit)
	if err := errors.Join(<-w.done, w.d.Close()); err != nil {
		t.Fatal(err)
	}
}

func put(d *disk.Saver, thread string, n int64) error {
	parent := ""
	if n > 1 {
		parent = id(n - 1)
	}
	versions := map[string]saver.Version{"c": saver.IntVersion(n)}
	cp := saver.Checkpoint{V: 4, ID: id(n), TS: "t", Versions: versions, Values: map[string]saver.Value{"c": saver.ValueOf(strings.Repeat(id(n), 40))}}
	_, err := d.Put(context.Background(), saver.Config{ThreadID: thread, CheckpointID: parent}, cp, saver.Metadata{"step": n}, versions)
	return err
}

// prefix is how many checkpoints a store has, which must be the first ones, whole.
func prefix(dir string) (int64, error) {
	d, err := disk.Open(dir, disk.Options{})
	if err != nil {
		return 0, err
	}
	defer func() { _ = d.Close() }() // only read from
	var top, n int64
	for tup, err := range d.List(context.Background(), saver.Query{ThreadID: "t", Namespace: saver.InNamespace("")}) {
		if err != nil {
			return 0, err
		}
		if _, err := fmt.Sscanf(tup.Config.CheckpointID, "%d", &n); err != nil {
			return 0, err
		}
		if top == 0 {
			top = n
		}
		var v string
		if err := tup.Checkpoint.Values["c"].Decode(&v); err != nil || v != strings.Repeat(id(n), 40) {
			return 0, fmt.Errorf("checkpoint %d reads %.20q: %w", n, v, err)
		}
	}
	if n != min(top, 1) {
		return 0, fmt.Errorf("checkpoints from %d to %d, not from 1", n, top)
	}
	return top, nil
}

// TestBesideWriter: while a writer commits, flushes, compacts and removes files, Verify
// finds nothing, and every backup holds what was acknowledged before it was begun, and
// a prefix of what came after.
func TestBesideWriter(t *testing.T) {
	ctx := context.Background()
	root := t.TempDir()
	dir, dest := filepath.Join(root, "store"), filepath.Join(root, "backup")
	w := startWriter(t, dir)
	for w.acked.Load() < 200 {
		time.Sleep(time.Millisecond)
	}
	rounds := 6
	if race.Enabled {
		rounds = 3
	}
	for round := range rounds {
		w.goOn()
		rep, err := Verify(ctx, dir, VerifyOptions{})
		if err != nil || !rep.Clean() {
			t.Fatalf("round %d: verify beside a writer: %+v, %v", round, rep, err)
		}
		w.goOn()
		before := w.acked.Load()
		b, err := Backup(ctx, dir, dest, BackupOptions{})
		if err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(root, fmt.Sprint("restored", round))
		if _, err := Restore(ctx, dest, to, BackupOptions{}); err != nil {
			t.Fatal(err)
		}
		got, err := prefix(to)
		if err != nil || got < before {
			t.Fatalf("round %d: restored %d checkpoints, %d were acknowledged before: %v", round, got, before, err)
		}
		t.Logf("round %d: %d acknowledged, %d in the backup, %d of %d files copied", round, before, got, b.CopiedFiles, b.Files)
	}
	w.stop(t)
}

// TestIncremental: a second backup copies what is new and nothing else.
func TestIncremental(t *testing.T) {
	ctx := context.Background()
	root := t.TempDir()
	dir, dest := filepath.Join(root, "store"), filepath.Join(root, "backup")
	// Inline: an idle log would write a sync mark of its own accord.
	d, err := disk.Open(dir, disk.Options{ManualWork: true, Simulation: disk.Simulation{Inline: true}})
	if err != nil {
		t.Fatal(err)
	}
	backup := func(want int) *BackupReport {
		t.Helper()
		rep, err := BackupOpen(ctx, d, dest, BackupOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if rep.CopiedFiles != want {
			t.Errorf("%d files copied, want %d: %+v", rep.CopiedFiles, want, rep)
		}
		return rep
	}
	step := func(n int64, work func(context.Context) error) {
		t.Helper()
		if err := errors.Join(put(d, "t", n), work(ctx)); err != nil {
			t.Fatal(err)
		}
	}
	step(1, d.Flush)
	backup(2) // segment and image; the log was removed by the flush, and the next is not begun
	backup(0)
	step(2, func(context.Context) error { return nil })
	backup(1) // the log
	backup(0)
	step(3, d.Flush)
	if rep := backup(2); len(rep.Removed) != 1 { // the log; the new image is a delta to the old
		t.Errorf("removed %v", rep.Removed)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	// A store that was restored hands out the same file numbers as the one it is a
	// copy of: its files must not be taken for those.
	to := filepath.Join(root, "restored")
	if _, err := Restore(ctx, dest, to, BackupOptions{}); err != nil {
		t.Fatal(err)
	}
	for i, dir := range []string{dir, to} {
		if d, err = disk.Open(dir, disk.Options{ManualWork: true}); err != nil {
			t.Fatal(err)
		}
		for n := range int64(2 + i) {
			step(4+n, d.Flush)
		}
		if _, err := BackupOpen(ctx, d, dest, BackupOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		again := filepath.Join(root, fmt.Sprint("again", i))
		if _, err := Restore(ctx, dest, again, BackupOptions{}); err != nil {
			t.Fatal(err)
		}
		if got, err := prefix(again); err != nil || got != int64(5+i) {
			t.Errorf("restored %d checkpoints of %d: %v", got, 5+i, err)
		}
	}
}

// TestRefusals: what must not be overwritten is not.
func TestRefusals(t *testing.T) {
	ctx := context.Background()
	root := t.TempDir()
	dir, dest, full := filepath.Join(root, "store"), filepath.Join(root, "backup"), filepath.Join(root, "full")
	d, err := disk.Open(dir, disk.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(put(d, "t", 1), d.Close(), os.MkdirAll(full, 0o750), os.WriteFile(filepath.Join(full, "mine"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, err := Backup(ctx, dir, dest, BackupOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := Backup(ctx, dir, full, BackupOptions{}); !errors.Is(err, fault.ErrNotEmpty) {
		t.Errorf("backup into a directory of somebody else: %v", err)
	}
	if _, err := Backup(ctx, dir, dir, BackupOptions{}); !errors.Is(err, fault.ErrNotEmpty) {
		t.Errorf("backup of a store into itself: %v", err)
	}
	if _, err := Backup(ctx, full, dest, BackupOptions{}); !errors.Is(err, fault.ErrNotStore) {
		t.Errorf("backup of no store: %v", err)
	}
	for _, target := range []string{full, dir, dest} {
		if _, err := Restore(ctx, dest, target, BackupOptions{}); !errors.Is(err, fault.ErrNotEmpty) {
			t.Errorf("restore into %s: %v", target, err)
		}
		if _, err := Salvage(ctx, dir, target, SalvageOptions{}); err == nil {
			t.Errorf("salvage into %s", target)
		}
	}
	if _, err := Restore(ctx, dir, filepath.Join(root, "new"), BackupOptions{}); !errors.Is(err, fault.ErrNotStore) {
		t.Errorf("restore of a store: %v", err)
	}
	if _, err := disk.Open(dest, disk.Options{}); !errors.Is(err, fault.ErrNotStore) {
		t.Errorf("open a backup as a store: %v", err)
	}
	if _, err := Compact(ctx, full, Access{}, nil); !errors.Is(err, fault.ErrNotStore) {
		t.Errorf("compact no store: %v", err)
	}
	if rep, err := Verify(ctx, dest, VerifyOptions{}); err != nil || !rep.Clean() || !rep.Backup {
		t.Errorf("verify a backup: %+v, %v", rep, err)
	}
}
