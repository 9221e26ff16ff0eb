package wal

import (
	"errors"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/vfs"
)

// elsewhere changes a file of the log through a handle of its own, as another program does.
func (w *world) elsewhere(t testing.TB, name string, change func(f vfs.File) error) {
	t.Helper()
	f, err := w.fs.(*hookFS).FS.OpenReadWrite(filepath.Join(w.dir, name))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(change(f), f.Close()); err != nil {
		t.Fatal(err)
	}
}

// cut and over are what the other program does.
func cut(size int64) func(vfs.File) error {
	return func(f vfs.File) error { return f.Truncate(size) }
}

func over(b []byte) func(vfs.File) error {
	return func(f vfs.File) error {
		_, err := f.WriteAt(b, 0)
		return err
	}
}

// noticed checks that a call was refused for damage, that the log takes nothing more, and
// that the next open says that records are missing.
func (w *world) noticed(t *testing.T, l *Log, err error) {
	t.Helper()
	if !errors.Is(err, fault.ErrPoisoned) || !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), "in place") {
		t.Fatalf("the call was answered with %v", err)
	}
	if err := commit(l, payload(1000, 10)); !errors.Is(err, fault.ErrPoisoned) {
		t.Errorf("the next call: %v", err)
	}
	if err := l.Close(); !errors.Is(err, fault.ErrPoisoned) {
		t.Errorf("close: %v", err)
	}
	if _, _, err := readLog(w.recoverOptions()); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("the next open: %v", err)
	}
}

// TestChangedInPlace: whatever a log does next after its file was cut, or an older copy was
// written over it, is refused.
func TestChangedInPlace(t *testing.T) {
	for name, next := range map[string]func(t *testing.T, w *world, h *hookFS, l *Log, change func()) error{
		"a small record": func(t *testing.T, _ *world, _ *hookFS, l *Log, change func()) error {
			change()
			return commit(l, payload(50, 10))
		},
		"a record beyond the zeros": func(t *testing.T, _ *world, _ *hookFS, l *Log, change func()) error {
			change()
			return commit(l, payload(50, 40_000))
		},
		"a record that ends with zeros beyond the zeros": func(t *testing.T, _ *world, _ *hookFS, l *Log, change func()) error {
			if err := commit(l, payload(50, 40_000), make([]byte, 4000)); err != nil {
				t.Fatal(err)
			}
			change()
			return commit(l, payload(51, 100_000))
		},
		"between write and check": func(t *testing.T, w *world, h *hookFS, l *Log, change func()) error {
			h.set(func(op fsOp) error {
				if op.kind == "write" && filepath.Ext(op.name) == ".log" && op.off > 0 {
					h.set(nil)
					change()
				}
				return nil
			})
			return commit(l, payload(50, 40_000))
		},
		"rotate": func(t *testing.T, _ *world, _ *hookFS, l *Log, change func()) error {
			change()
			return l.Rotate(t.Context())
		},
		"a file that is full": func(t *testing.T, _ *world, _ *hookFS, l *Log, change func()) error {
			for l.fits(50_000) {
				mustCommit(t, l, 40, 10_000)
			}
			if err := l.Sync(t.Context()); err != nil {
				t.Fatal(err)
			}
			change()
			return commit(l, payload(50, 50_000))
		},
		"sync": func(t *testing.T, _ *world, _ *hookFS, l *Log, change func()) error {
			if err := l.Sync(t.Context()); err != nil {
				t.Fatal(err)
			}
			change()
			return l.Sync(t.Context())
		},
		"close": func(t *testing.T, _ *world, _ *hookFS, l *Log, change func()) error {
			change()
			return l.Close()
		},
		"no space": func(t *testing.T, _ *world, h *hookFS, l *Log, change func()) error {
			change()
			h.set(func(op fsOp) error {
				if op.kind == "write" && op.off > 0 && filepath.Ext(op.name) == ".log" {
					return &shortWrite{100, syscall.ENOSPC}
				}
				return nil
			})
			return commit(l, payload(50, 40_000))
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, mode := range []Mode{SyncAlways, SyncInterval, SyncNever} {
				for _, how := range []string{"empty", "cut", "cut a little", "older"} {
					if how == "older" && strings.Contains(name, "small") {
						continue // TestOverwritten
					}
					w, h := hooked(t)
					l := w.open(t, func(o *Options) { o.Mode, o.FileSize = mode, 256<<10 })
					mustCommit(t, l, 0, 100)
					older := readFile(t, w.fs, filepath.Join(w.dir, base.LogFile.Name(1)))
					for i := range 20 {
						mustCommit(t, l, 1+i, 100)
					}
					err := next(t, w, h, l, func() {
						f := l.mu.cur
						w.elsewhere(t, base.LogFile.Name(1), map[string]func(vfs.File) error{
							"empty": cut(0), "cut": cut(f.end / 2),
							"cut a little": cut(f.trace.off + int64(f.trace.n) - 1),
							"older":        over(append(older, make([]byte, max(0, f.size.Load()-int64(len(older))))...)),
						}[how])
					})
					h.set(nil)
					w.noticed(t, l, err)
					if t.Failed() {
						t.Fatalf("mode %v, %s", mode, how)
					}
				}
			}
		})
	}
}

// TestCutHiddenByZeros: zeros that are written ahead between the write of a batch and the look
// that follows it do not hide that the file was cut before.
func TestCutHiddenByZeros(t *testing.T) {
	w, _ := hooked(t)
	var l *Log
	armed, stepped := false, false
	l = w.open(t, func(o *Options) {
		o.Mode, o.FileSize = SyncNever, 1<<20
		o.Guard = func() error {
			if armed {
				armed = false
				f := l.mu.cur
				was := f.size.Load()
				l.prealloc.step(f)
				stepped = f.size.Load() > was || l.Poison() != nil
			}
			return nil
		}
	})
	// Until zeros are due, and not more than due: else the batch itself writes them.
	for i := 0; ; i++ {
		mustCommit(t, l, i, 1000)
		f := l.mu.cur
		if want := l.prealloc.target(f.end); f.end > 100_000 && f.zeroed-f.end < want*2/3 {
			break
		}
	}
	w.elsewhere(t, base.LogFile.Name(1), cut(100))
	armed = true
	err := commit(l, payload(7, 10))
	if !stepped {
		t.Fatal("no zeros were written")
	}
	w.noticed(t, l, err)
}

// TestOverwritten: an older copy of the same size is noticed when the log becomes idle, by the
// first record after that, and by a log that is never idle after some batches.
func TestOverwritten(t *testing.T) {
	for _, when := range []string{"before idle", "idle", "never idle"} {
		synctest.Test(t, func(t *testing.T) {
			w, _ := hooked(t)
			l := w.open(t, func(o *Options) {
				if when != "never idle" {
					o.Inline, o.IdleMark = false, time.Millisecond
				}
			})
			mustCommit(t, l, 0, 100)
			time.Sleep(time.Second)
			older := readFile(t, w.fs, filepath.Join(w.dir, base.LogFile.Name(1)))
			for i := range 2 * anchorBatches {
				mustCommit(t, l, 1+i, 100)
			}
			if when == "idle" {
				time.Sleep(time.Second)
			}
			w.elsewhere(t, base.LogFile.Name(1), over(older))
			err := l.Poison()
			if err != nil {
				t.Fatal(err)
			}
			switch when {
			case "before idle":
				time.Sleep(time.Second)
				err = l.Poison()
			case "idle":
				err = commit(l, payload(50, 10))
			default:
				for i := 0; err == nil && i < anchorBatches; i++ {
					err = commit(l, payload(50+i, 10))
				}
			}
			w.noticed(t, l, err)
		})
	}
}
