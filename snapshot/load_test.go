package snapshot

import (
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/vfs"
)

// Readers beside a writer that appends and rotates see acknowledged states only,
// and never damage or an older state than before.
func TestLoadBesideWriter(t *testing.T) {
	fsys := newMem(t, vfs.MemOptions{})
	m := mustCreate(t, fsys)
	var mu sync.Mutex // guards acked
	acked := map[string]int{}
	key := func(s State) string { return string(appendState(nil, &s)) }
	acked[key(m.State())] = 0

	stop := make(chan struct{})
	errs := make(chan error, 2)
	var loads atomic.Int64
	for range cap(errs) {
		go func() {
			last := 0
			for {
				select {
				case <-stop:
					errs <- nil
					return
				default:
				}
				st, rep, err := Load(fsys, testDir)
				if err != nil {
					errs <- fmt.Errorf("%w (%+v)", err, rep)
					return
				}
				loads.Add(1)
				mu.Lock()
				n, ok := acked[key(st)]
				mu.Unlock()
				if !ok || n < last {
					errs <- fmt.Errorf("state %d after state %d, known: %v", n, last, ok)
					return
				}
				last = n
			}
		}()
	}
	st := m.State()
	for i := 0; i < 400 || loads.Load() < 400 && len(errs) == 0; i++ {
		// NextFileNum tells the states apart.
		e := Edit{NextFileNum: st.NextFileNum + 1, SetFloor: ptr(st.FloorLSN + 1)}
		next := st.Clone()
		if err := next.apply(&e); err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		acked[key(next)] = i + 1 // being applied counts
		mu.Unlock()
		var err error
		if st, err = m.Apply(e); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	t.Logf("%d loads beside %d edits", loads.Load(), len(acked)-1)
	for range cap(errs) {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
}

// A reader that catches the first half of an edit before it is written and the
// mark after it sees what looks like damage. It must look again.
func TestLoadDistrustsTornReading(t *testing.T) {
	mem := newMem(t, vfs.MemOptions{})
	m := mustCreate(t, mem)
	st := applyScript(t, m, 0, 6)
	tail := m.file.tail
	torn := 0
	hooked := &hookFS{FS: mem}
	hooked.hook = func(op, name string, do func() error) error { return do() }
	reader := tearFS{hookFS: hooked, tear: func(b []byte) {
		if torn++; torn == 1 {
			clear(b[tail-20 : tail]) // the mark behind it is there
		}
	}}
	got, _, err := Load(reader, testDir)
	if err != nil || !same(got, st) || torn != 2 {
		t.Errorf("%v after %d readings", err, torn)
	}
	// Damage that holds still is damage.
	torn = -1000
	reader.tear = func(b []byte) { torn++; clear(b[tail-20 : tail]) }
	if _, _, err := Load(reader, testDir); !errors.Is(err, fault.ErrCorrupt) || torn != -998 {
		t.Errorf("%v after %d readings, want corruption after two", err, torn+1000)
	}
	// Bytes that never hold still are given up on.
	torn = 0
	reader.tear = func(b []byte) { torn++; b[headerSize+40] ^= byte(torn) }
	if _, _, err := Load(reader, testDir); !errors.Is(err, fault.ErrCorrupt) || torn != loadRetries+1 {
		t.Errorf("%v after %d readings", err, torn)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
}

// tearFS changes what is read.
type tearFS struct {
	*hookFS
	tear func(b []byte)
}

func (f tearFS) Open(name string) (vfs.File, error) {
	file, err := f.hookFS.Open(name)
	return &tearFile{file, f.tear}, err
}

type tearFile struct {
	vfs.File
	tear func(b []byte)
}

func (f *tearFile) ReadAt(b []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(b, off)
	f.tear(b)
	return n, err
}

// A manifest that is superseded between listing and opening, and a listing that
// shows neither the old file nor the new one.
func TestLoadListsAgain(t *testing.T) {
	mem := newMem(t, vfs.MemOptions{})
	m := mustCreate(t, mem)
	st := applyScript(t, m, 0, 40) // rotated meanwhile
	if names := listNames(t, mem); len(names) != 1 || names[0] == ManifestName(1) {
		t.Fatalf("files %v, want a later manifest", names)
	}
	lists := 0
	h := &staleFS{hookFS: &hookFS{FS: mem, hook: func(op, name string, do func() error) error { return do() }}}
	h.list = func(names []string) []string {
		switch lists++; lists {
		case 1:
			return nil
		case 2:
			return []string{ManifestName(1)}
		}
		return names
	}
	got, rep, err := Load(h, testDir)
	if err != nil || !same(got, st) || lists != 3 {
		t.Errorf("%v, %+v after %d listings", err, rep, lists)
	}
	h.list = func([]string) []string { return []string{ManifestName(1)} }
	if _, _, err := Load(h, testDir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a manifest that never opens: %v", err)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
}

type staleFS struct {
	*hookFS
	list func([]string) []string
}

func (f *staleFS) List(dir string) ([]string, error) {
	names, err := f.hookFS.List(dir)
	return f.list(names), err
}
