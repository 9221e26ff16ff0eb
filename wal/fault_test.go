package wal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/base/vfs/faultfs"
)

// faultRun is a store's log through two lives, with a fault somewhere.
type faultRun struct {
	w     *world
	fs    *faultfs.FS
	acked int
	errs  []error
}

func (r *faultRun) note(err error) bool {
	if err != nil {
		r.errs = append(r.errs, err)
	}
	return err == nil
}

const faultRecord = 9000

// live commits n records, repeating what a full disk refuses. A caller that
// meets another error gives up.
func (r *faultRun) live(l *Log, n int) bool {
	for range n {
		err := commit(l, cachedPayload(r.acked+1, faultRecord))
		for tries := 0; errors.Is(err, fault.ErrDiskFull) && tries < 3; tries++ {
			r.note(err)
			err = commit(l, cachedPayload(r.acked+1, faultRecord))
		}
		if !r.note(err) {
			return false
		}
		r.acked++
	}
	return true
}

// run is the whole script: a first life that rotates and dies, a second that
// recovers and closes. acked never runs ahead of what Commit returned.
func (r *faultRun) run() {
	heard := func(o *Options) { o.Events.MarkFailed = func(err error) { r.note(err) } }
	o := r.w.options()
	heard(&o)
	l, err := New(o)
	if !r.note(err) {
		return
	}
	ok := r.live(l, 9) && r.note(l.Rotate(context.Background())) && r.live(l, 2)
	halfClose(l)
	if !ok {
		return
	}
	l, _, got, err := r.w.reopen(heard)
	if !r.note(err) {
		return
	}
	if len(got) != r.acked {
		r.note(fmt.Errorf("%w: %d of %d records", errLost, len(got), r.acked))
	}
	r.live(l, 2)
	r.note(l.Close())
}

var errLost = errors.New("records lost")

// Each operation of the script fails in turn, in every way. Nothing that was
// acknowledged may be lost, whatever the page cache forgets later, and no error
// may be swallowed but the ones that are harmless by kind.
func TestEveryFault(t *testing.T) {
	harmless := map[faultfs.Op]bool{
		faultfs.OpClose:    true, // of a file that is only read, or already synced
		faultfs.OpTruncate: true, // cutting zeros off a sealed file
		faultfs.OpRemove:   true, // of a spare; the next open sweeps it
		// Making a spare: the commit that needs a file makes one itself, and
		// reports what is in its way.
		faultfs.OpCreate: true, faultfs.OpRename: true, faultfs.OpOpenReadWrite: true,
	}
	kinds := []struct {
		name string
		rule faultfs.Rule
	}{
		{"EIO", faultfs.Rule{Op: faultfs.OpAny}},
		{"EIO after the deed", faultfs.Rule{Op: faultfs.OpAny, After: true}},
		{"ENOSPC", faultfs.Rule{Op: faultfs.OpAnyWrite, Err: syscall.ENOSPC}},
		{"short, EIO", faultfs.Rule{Op: faultfs.OpAny, Short: true, Err: syscall.EIO}},
		{"short, ENOSPC", faultfs.Rule{Op: faultfs.OpWriteAt, Short: true, Err: syscall.ENOSPC}},
		{"sync loses data", faultfs.Rule{Op: faultfs.OpSync, LoseData: true}},
		{"data sync loses data", faultfs.Rule{Op: faultfs.OpSyncData, LoseData: true}},
		{"reads fail from then on", faultfs.Rule{Op: faultfs.OpReadAt, Sticky: true}},
		{"EIO from then on", faultfs.Rule{Op: faultfs.OpAnyWrite, Sticky: true}},
	}
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			sites, swallowed := 0, 0
			for n := 1; ; n++ {
				rule := k.rule
				rule.N = n
				inj := faultfs.NewInjector(rule)
				mem := vfs.NewMem(vfs.MemOptions{})
				if err := mem.MkdirAll(testDir); err != nil {
					t.Fatal(err)
				}
				w := newWorld(mem)
				r := &faultRun{w: w, fs: faultfs.New(mem, inj)}
				w.fs = r.fs
				r.run()
				if inj.Count() == 0 {
					break
				}
				sites++
				where := fmt.Sprintf("fault at operation %d: %v", n, inj.Last())
				if len(r.errs) == 0 {
					var f *faultfs.Fault
					errors.As(inj.Last(), &f)
					// A step of zeros that found no space is missed by nobody.
					zeros := f.Op == faultfs.OpWriteAt && errors.Is(f, syscall.ENOSPC)
					// What was written is read back once more, and a look is repeated.
					again := f.Op == faultfs.OpReadAt || f.Op == faultfs.OpAttached || f.Op == faultfs.OpSize
					passing := again && !rule.Sticky
					if !harmless[f.Op] && !zeros && !passing {
						t.Fatalf("%s: swallowed", where)
					}
					swallowed++
				}
				for _, err := range r.errs {
					if errors.Is(err, errLost) || errors.Is(err, fault.ErrCorrupt) {
						t.Fatalf("%s: %v", where, err)
					}
				}
				inj.Set()
				r.afterwards(t, where)
			}
			t.Logf("%d fault sites, %d harmless ones not reported", sites, swallowed)
			if sites < 5 {
				t.Fatal("the script has more operations than that")
			}
		})
	}
}

// afterwards opens the log twice without faults; in between the page cache
// loses what failed syncs left in it.
func (r *faultRun) afterwards(t *testing.T, where string) {
	t.Helper()
	for life := range 2 {
		l, _, got, err := r.w.reopen()
		if err != nil {
			t.Fatalf("%s: open %d: %v", where, life, err)
		}
		if len(got) < r.acked {
			t.Fatalf("%s: open %d: %d records, %d were acknowledged", where, life, len(got), r.acked)
		}
		for i, b := range got {
			if !bytes.Equal(b, cachedPayload(i+1, faultRecord)) {
				t.Fatalf("%s: open %d: record %d has wrong bytes", where, life, i+1)
			}
		}
		r.acked = len(got)
		if !r.live(l, 1) {
			t.Fatalf("%s: writing on: %v", where, r.errs)
		}
		mustClose(t, l)
		if _, err := r.fs.DropLost(); err != nil {
			t.Fatal(err)
		}
	}
	names, err := r.w.fs.List(r.w.dir)
	if err != nil {
		t.Fatal(err)
	}
	names = slices.DeleteFunc(names, func(n string) bool { return n == MarkName })
	if len(names) != len(r.w.manifest()) {
		t.Fatalf("%s: files %v, the manifest names %v", where, names, r.w.manifest())
	}
	for _, num := range r.w.manifest() {
		if _, err := r.w.fs.Open(filepath.Join(r.w.dir, base.LogFile.Name(num))); err != nil {
			t.Fatal(err)
		}
	}
}
