package snapshot

import (
	"errors"
	"fmt"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/race"
	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/base/vfs/faultfs"
)

// hookFS calls a hook around every operation.
type hookFS struct {
	vfs.FS
	hook func(op, name string, do func() error) error
}

func (h *hookFS) call(op, name string, do func() error) error {
	return h.hook(op, filepath.Base(name), do)
}

func (h *hookFS) open(op, name string, do func(string) (vfs.File, error)) (vfs.File, error) {
	var f vfs.File
	err := h.call(op, name, func() (err error) { f, err = do(name); return err })
	if err != nil {
		if f != nil {
			_ = f.Close() // the hook failed it afterwards
		}
		return nil, err
	}
	return &hookFile{File: f, fs: h, name: name}, nil
}

func (h *hookFS) Create(name string) (vfs.File, error) { return h.open("create", name, h.FS.Create) }
func (h *hookFS) Open(name string) (vfs.File, error)   { return h.open("open", name, h.FS.Open) }
func (h *hookFS) OpenReadWrite(name string) (vfs.File, error) {
	return h.open("openrw", name, h.FS.OpenReadWrite)
}

func (h *hookFS) Rename(a, b string) error {
	return h.call("rename", b, func() error { return h.FS.Rename(a, b) })
}

func (h *hookFS) Remove(name string) error {
	return h.call("remove", name, func() error { return h.FS.Remove(name) })
}

func (h *hookFS) SyncDir(dir string) error {
	return h.call("syncdir", dir, func() error { return h.FS.SyncDir(dir) })
}

func (h *hookFS) List(dir string) (names []string, err error) {
	err = h.call("list", dir, func() (err error) { names, err = h.FS.List(dir); return err })
	return names, err
}

type hookFile struct {
	vfs.File
	fs   *hookFS
	name string
}

func (f *hookFile) ReadAt(b []byte, off int64) (n int, err error) {
	err = f.fs.call("read", f.name, func() (err error) { n, err = f.File.ReadAt(b, off); return err })
	return n, err
}

func (f *hookFile) WriteAt(b []byte, off int64) (n int, err error) {
	err = f.fs.call("write", f.name, func() (err error) { n, err = f.File.WriteAt(b, off); return err })
	return n, err
}

func (f *hookFile) Size() (n int64, err error) {
	err = f.fs.call("size", f.name, func() (err error) { n, err = f.File.Size(); return err })
	return n, err
}

func (f *hookFile) Sync() error     { return f.fs.call("sync", f.name, f.File.Sync) }
func (f *hookFile) SyncData() error { return f.fs.call("syncdata", f.name, f.File.SyncData) }
func (f *hookFile) Close() error    { return f.fs.call("close", f.name, f.File.Close) }

// failNth fails the n-th operation, before it is done or after. If that is a read, and stays is set,
// it fails all later reads as well.
type failNth struct {
	n     int
	stays bool
	err   error
	after bool
	op    string // what it met; "" if there was no n-th operation
}

func (f *failNth) hook(op, name string, do func() error) error {
	f.n--
	if f.n > 0 || f.n < 0 && !(f.stays && op == "read" && f.op == "read") {
		return do()
	}
	if f.n == 0 {
		f.op = op
	}
	if f.after || op == "close" { // a handle is closed whatever close says
		_ = do() // its own outcome is what the caller does not learn
	}
	return f.err
}

// faultRun is a life under one fault: what was acknowledged last, what was being
// applied, and the errors that came back.
type faultRun struct {
	acked, trying State
	created       bool
	rotated       bool
	errs          []error
	cause         error // what is injected
}

func (r *faultRun) note(err error) {
	if err != nil {
		r.errs = append(r.errs, err)
	}
}

// run opens or creates, edits across a rotation, tries once more after an error,
// and closes.
func (r *faultRun) run(fsys vfs.FS) {
	m, _, err := Open(fsys, testDir, seeded(1))
	if errors.Is(err, ErrNoManifest) {
		r.trying = firstState()
		m, err = Create(fsys, testDir, firstState(), seeded(1))
	}
	if err != nil {
		r.note(err)
		return
	}
	r.acked, r.created = m.State(), true
	first := fileOf(m)
	r.trying = r.acked
	for i := range 60 {
		e := scriptEdit(i, &r.acked)
		next := r.acked.Clone()
		if next.apply(&e) != nil {
			continue // the script is ahead of the state after a refusal
		}
		r.trying = next
		st, err := m.Apply(e)
		if err == nil {
			r.acked = st
			continue
		}
		r.note(err)
		if errors.Is(err, fault.ErrPoisoned) {
			// Poisoned for good, with the first cause.
			if _, err := m.Apply(Edit{}); !errors.Is(err, fault.ErrPoisoned) || !errors.Is(err, r.cause) {
				r.note(fmt.Errorf("%w: after a poisoning: %w", errBroken, err))
			}
			break
		}
	}
	r.rotated = fileOf(m) > first
	if !same(m.State(), r.acked) {
		r.note(fmt.Errorf("%w: State is not the acknowledged one", errBroken))
	}
	r.note(m.Close())
}

var (
	errFault  = fmt.Errorf("injected: %w", syscall.EIO)
	errNoRoom = fmt.Errorf("injected: %w", syscall.ENOSPC)
	errBroken = errors.New("broken rule")
	// errMany and errMayNot are refusals: the system did nothing.
	errMany   = fmt.Errorf("injected: %w", syscall.EMFILE)
	errMayNot = fmt.Errorf("injected: %w", syscall.EACCES)
)

// TestManifestFaults fails every single operation, in turn, of creating, editing,
// rotating and opening; before it is done and after. Whatever happens: the
// failure is reported or harmless, and what is on the disk afterwards is the
// acknowledged state or the one being applied. A file that the system refuses to make,
// name or open poisons nothing.
func TestManifestFaults(t *testing.T) {
	counts := map[string]int{}
	total := 0
	for _, existing := range []bool{false, true} {
		for _, cause := range []error{errFault, errNoRoom, errMany, errMayNot} {
			for i, after := range []bool{false, true, false} {
				for n := 1; ; n += race.Every {
					mem := newMem(t, vfs.MemOptions{})
					if existing {
						m := mustCreate(t, mem)
						if err := m.Close(); err != nil {
							t.Fatal(err)
						}
					}
					f := &failNth{n: n, err: cause, after: after, stays: i == 2}
					what := fmt.Sprintf("existing=%v %v after=%v stays=%v n=%d", existing, cause, after, f.stays, n)
					if total++; !oneFault(t, mem, f, cause, what, counts) {
						break
					}
				}
			}
		}
	}
	t.Logf("%d runs: %v", total, counts)
	if counts["reported"] == 0 || counts["reported, disk full"] == 0 {
		t.Error("no fault of a kind was met")
	}
}

// oneFault runs one life under f; false if it had no n-th operation.
func oneFault(t *testing.T, mem *vfs.Mem, f *failNth, cause error, what string, counts map[string]int) bool {
	t.Helper()
	r := faultRun{cause: cause}
	r.run(&hookFS{FS: mem, hook: f.hook})
	if f.op == "" {
		if len(r.errs) > 0 || !r.rotated {
			t.Fatalf("%s: without a fault: errors %v, rotated: %v", what, r.errs, r.rotated)
		}
		return false
	}
	what += " op=" + f.op
	joined := errors.Join(r.errs...)
	switch {
	case errors.Is(joined, errBroken):
		t.Errorf("%s: %v", what, joined)
	case f.op == "openrw" && len(r.errs) == 0:
		counts["harmless: a new file is not opened"]++ // the next edit begins another
	case errors.Is(joined, fault.ErrDiskFull):
		counts["reported, disk full"]++
		if cause != errNoRoom || errors.Is(joined, fault.ErrPoisoned) || f.op != "create" && f.op != "write" && f.op != "rename" {
			t.Errorf("%s: passes for a full disk: %v", what, joined)
		}
	case errors.Is(joined, cause):
		counts["reported"]++
		if made := f.op == "create" || f.op == "rename"; made && !f.after && (vfs.Refused(cause) || f.op == "create") && errors.Is(joined, fault.ErrPoisoned) {
			t.Errorf("%s: nothing was changed: %v", what, joined)
		}
	case f.op == "write" && cause == errNoRoom:
		counts["harmless: a mark without room"]++ // the next edit begins a new file
	case f.op == "remove" || f.op == "close":
		counts["harmless: "+f.op]++ // of a file that is superseded, or was only read
	case (f.op == "read" && !f.stays || f.op == "size") && cause == errFault:
		counts["harmless: a read that fails once"]++ // what was written is read back once more
	default:
		t.Errorf("%s: not reported: %v", what, joined)
	}
	st, _, err := Load(mem, testDir)
	switch {
	case errors.Is(err, ErrNoManifest) && !r.created:
	case err != nil:
		t.Errorf("%s: Load afterwards: %v", what, err)
	case !same(st, r.trying) && (!r.created || !same(st, r.acked)) && r.trying.StoreID != 0:
		t.Errorf("%s: the disk holds a state that was neither acknowledged nor being applied", what)
	}
	if err == nil {
		m, rep, err := Open(mem, testDir, seeded(3))
		if err != nil || len(rep.Leftover) > 0 || len(listNames(t, mem)) != 1 {
			t.Errorf("%s: Open afterwards: %v, %+v, %v", what, err, rep, listNames(t, mem))
			return true
		}
		if err := m.Close(); err != nil {
			t.Errorf("%s: Close afterwards: %v", what, err)
		}
	}
	return true
}

// TestManifestNotOpened: a new manifest that the device does not open once has the state all the same, and the next edit
// goes into another.
func TestManifestNotOpened(t *testing.T) {
	inj := faultfs.NewInjector()
	mem := newMem(t, vfs.MemOptions{})
	m := mustCreate(t, faultfs.New(mem, inj))
	st := applyScript(t, m, 0, 2)
	m.file.spoilt = true // so that the next edit begins a new one
	inj.Set(faultfs.Rule{Op: faultfs.OpOpenReadWrite, Err: syscall.EIO})
	for n := 2; n < 4; n++ {
		next, err := m.Apply(scriptEdit(n, &st))
		if err != nil {
			t.Fatalf("edit %d: %v", n, err)
		}
		st = next
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	if got, _, err := Load(mem, testDir); err != nil || !same(got, st) {
		t.Errorf("it has another state: %v", err)
	}
}
