package held

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/metrics"
	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/admin"
	"github.com/stele-go/stele/saver/disk"
)

// takeAway removes a file of a live store.
func takeAway(t *testing.T, w world, name string) {
	t.Helper()
	if m, ok := w.(inMemory); ok {
		fatal(t, m.mem.Remove(name))
		return
	}
	fatal(t, os.Remove(w.path(name)))
}

// TestLockTakenAway: somebody removes LOCK, and another writer takes the store. The first
// is told whose it is, at its next call.
func TestLockTakenAway(t *testing.T) {
	rounds(t, func(t *testing.T, w world, _ bool, round int) {
		wr := open(t, w, true, round)
		takeAway(t, w, "store/LOCK")
		second, err := disk.Open(w.path("store"), disk.Options{ManualWork: true, Simulation: w.sim()})
		fatal(t, err)
		fatal(t, putOne(second, "other", 1, "value"))
		had := contents(t, w, "store")
		err = wr.put(1)
		var lost *fault.LockLostError
		if !errors.Is(err, fault.ErrPoisoned) || !errors.As(err, &lost) || !strings.HasPrefix(lost.Holder, "pid ") {
			t.Fatalf("a call without the lock: %v", err)
		}
		if wr.d.Close() == nil {
			t.Fatal("closed in order")
		}
		for n := range contents(t, w, "store") {
			if _, ok := had[n]; !ok && !strings.HasSuffix(n, ".tmp") { // the second prepares its next log
				t.Errorf("%s was made without the lock", n)
			}
		}
		fatal(t, second.Close())
		second, err = disk.Open(w.path("store"), disk.Options{Simulation: w.sim()})
		fatal(t, err)
		if _, err := second.GetTuple(ctx, saver.Config{ThreadID: "other"}); err != nil {
			t.Errorf("what the second writer was told is stored: %v", err)
		}
		fatal(t, second.Close())
	})
}

// TestLockCopied: LOCK is replaced by a copy of itself. The writer is told that, and not
// that somebody else, by its own name, took the directory.
func TestLockCopied(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	d, err := disk.Open(dir, disk.Options{})
	fatal(t, err)
	lock := filepath.Join(dir, "LOCK")
	text, err := os.ReadFile(lock)
	fatal(t, err)
	fatal(t, errors.Join(os.WriteFile(lock+".copy", text, 0o600), os.Rename(lock+".copy", lock)))
	err = putOne(d, "t", 1, "value")
	var lost *fault.LockLostError
	if !errors.As(err, &lost) || !lost.Copied || !strings.Contains(err.Error(), "a copy of itself") || strings.Contains(err.Error(), "somebody else") {
		t.Errorf("a call without the lock: %v", err)
	}
	if d.Close() == nil {
		t.Error("closed in order")
	}
}

// TestReadOfRemoved: a read of a file that is gone says that, and where to read on.
func TestReadOfRemoved(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	d, err := disk.Open(dir, disk.Options{})
	fatal(t, err)
	fatal(t, errors.Join(putOne(d, "t", 1, "value"), d.Flush(ctx), d.Close()))
	d, err = disk.Open(dir, disk.Options{})
	fatal(t, err)
	fatal(t, os.RemoveAll(dir))
	_, err = d.GetTuple(ctx, saver.Config{ThreadID: "t"})
	if !errors.Is(err, saver.ErrCorrupt) || !strings.Contains(err.Error(), "the file is gone") || !strings.Contains(err.Error(), "docs/operations.md") {
		t.Errorf("a read: %v", err)
	}
	for _, bad := range []string{"offset -1", `thread "tt"`} {
		if err != nil && strings.Contains(err.Error(), bad) {
			t.Errorf("a read: %v", err)
		}
	}
	_ = d.Close() // its directory is gone
}

// TestNothingMadeWithoutLock: whatever work is begun after LOCK is gone, no file is made,
// renamed or removed, though nothing was committed since.
func TestNothingMadeWithoutLock(t *testing.T) {
	rounds(t, func(t *testing.T, w world, _ bool, round int) {
		o := options(true, round)
		o.ManualWork = true
		d, err := disk.Open(w.path("store"), o.In(w.sim()))
		fatal(t, err)
		wr := &writer{d: d, small: true}
		for range 2 {
			fatal(t, errors.Join(wr.put(before), d.Flush(ctx)))
		}
		takeAway(t, w, "store/LOCK")
		names := func() string {
			var out []string
			fsys := w.sim().FS
			if fsys == nil {
				fsys = vfs.OS{}
			}
			list, err := fsys.List(w.path("store"))
			fatal(t, err)
			for _, n := range list {
				if !strings.HasSuffix(n, ".tmp") && n != "DURABLE" {
					out = append(out, n)
				}
			}
			return strings.Join(out, " ")
		}
		was := names()
		// Compaction first: it makes files though nothing was written to the log.
		if err := d.Compact(ctx); !errors.Is(err, fault.ErrLockLost) {
			t.Errorf("compact: %v", err)
		}
		if h := d.Health(); h.Status != metrics.StatusFailed {
			t.Errorf("health: %+v", h)
		}
		if err := d.Sync(ctx); !errors.Is(err, fault.ErrLockLost) {
			t.Errorf("sync: %v", err)
		}
		if d.Close() == nil {
			t.Error("closed in order")
		}
		if now := names(); now != was {
			t.Errorf("the directory holds %s, and held %s", now, was)
		}
	})
}

// TestSyncWithoutLock: a sync that finds everything synced does not say that it is safe
// where nobody will find it.
func TestSyncWithoutLock(t *testing.T) {
	rounds(t, func(t *testing.T, w world, _ bool, round int) {
		wr := open(t, w, true, round)
		fatal(t, wr.d.Sync(ctx))
		takeAway(t, w, "store/LOCK")
		if err := wr.d.Sync(ctx); !errors.Is(err, fault.ErrLockLost) {
			t.Errorf("sync: %v", err)
		}
		_ = wr.d.Close() // poisoned
	})
}

// TestLogTakenAway: the log that is written to is removed alone. The next call is not
// acknowledged.
func TestLogTakenAway(t *testing.T) {
	rounds(t, func(t *testing.T, w world, _ bool, round int) {
		wr := open(t, w, true, round)
		for n := range contents(t, w, "store") {
			if filepath.Ext(n) == ".log" {
				takeAway(t, w, "store/"+n)
			}
		}
		if err := wr.put(1); !errors.Is(err, fault.ErrPoisoned) {
			t.Errorf("a call without a log: %v", err)
		}
		_ = wr.d.Close() // poisoned
	})
}

// TestLogCutInPlace: the log that is written to is emptied and keeps its name, as by copytruncate.
// The next call is not acknowledged, Health says why, and the next Open names the file. What
// was in segments is saved.
func TestLogCutInPlace(t *testing.T) {
	rounds(t, func(t *testing.T, w world, _ bool, round int) {
		wr := open(t, w, true, round)
		fatal(t, wr.d.Flush(ctx))
		fatal(t, putOne(wr.d, "other", 1, "value"))
		cut := ""
		for n := range contents(t, w, "store") {
			if filepath.Ext(n) == ".log" {
				emptyFile(t, w, "store/"+n)
				cut = max(cut, n)
			}
		}
		err := wr.put(1)
		var c *fault.CorruptionError
		if !errors.Is(err, fault.ErrPoisoned) || !errors.As(err, &c) || c.File != cut {
			t.Errorf("a call with %s emptied: %v", cut, err)
		}
		if h := wr.d.Health(); h.Status != metrics.StatusFailed || len(h.Problems) == 0 || !errors.Is(h.Problems[0].Err, fault.ErrCorrupt) {
			t.Errorf("health: %+v", h)
		}
		if err := wr.d.Close(); !errors.Is(err, fault.ErrPoisoned) {
			t.Errorf("close: %v", err)
		}
		o := disk.Options{Simulation: w.sim()}
		if _, err := disk.Open(w.path("store"), o); !errors.As(err, &c) || c.File != cut {
			t.Errorf("open: %v", err)
		}
		rep, err := admin.Salvage(ctx, w.path("store"), w.path("saved"), admin.SalvageOptions{Access: admin.Access{Options: o}})
		fatal(t, err)
		if len(rep.Damage) == 0 {
			t.Error("salvage finds nothing")
		}
		wr.check(t, w.path("saved"), w.sim())
	})
}

// emptyFile cuts a file of a live store to nothing.
func emptyFile(t *testing.T, w world, name string) {
	t.Helper()
	if m, ok := w.(inMemory); ok {
		f, err := m.mem.OpenReadWrite(name)
		fatal(t, err)
		fatal(t, errors.Join(f.Truncate(0), f.Close()))
		return
	}
	fatal(t, os.Truncate(w.path(name), 0))
}

// TestManifestTakenAway: the manifest is looked at when it is written to. A writer that
// goes on without it learns that at the latest when the log goes on in a new file, and
// Close and Health say so.
func TestManifestTakenAway(t *testing.T) {
	rounds(t, func(t *testing.T, w world, small bool, round int) {
		if !small {
			return // it takes many log files
		}
		wr := open(t, w, small, round)
		fatal(t, wr.put(200)) // there was an edit
		for n := range contents(t, w, "store") {
			if strings.HasPrefix(n, "MANIFEST") {
				takeAway(t, w, "store/"+n)
			}
		}
		var err error
		for n := 0; err == nil && n < 100; n++ {
			err = wr.put(50)
		}
		if !errors.Is(err, fault.ErrPoisoned) {
			t.Errorf("calls over many log files without a manifest: %v", err)
		}
		if h := wr.d.Health(); h.Status != metrics.StatusFailed {
			t.Errorf("health is %+v", h)
		}
		if err := wr.d.Close(); err == nil {
			t.Error("Close says nothing")
		}
	})
}

// TestBackupOfMoved: a backup of an open store is of the directory it has, and not of what
// its path leads to.
func TestBackupOfMoved(t *testing.T) {
	w := onDisk{t, t.TempDir()}
	wr := open(t, w, true, 0)
	w.rename("store", "moved")
	w.fill("store")
	fatal(t, wr.put(50))
	_, err := admin.BackupOpen(ctx, wr.d, w.path("backup"), admin.BackupOptions{})
	fatal(t, err)
	_, err = admin.Restore(ctx, w.path("backup"), w.path("restored"), admin.BackupOptions{})
	fatal(t, err)
	wr.check(t, w.path("restored"), w.sim())
	fatal(t, wr.d.Close())
}
