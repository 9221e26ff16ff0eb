package wal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/race"
	"github.com/stele-go/stele/base/seal"
	"github.com/stele-go/stele/base/vfs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const testDir = "/log"

// world is a directory with a log in it, and the manifest a store would keep:
// the files that OnCreate reported.
type world struct {
	fs   vfs.FS
	dir  string
	keys *seal.Keyring // nil without encryption

	mu      sync.Mutex
	num     base.FileNum
	files   []base.FileNum
	rnd     *rand.Rand
	applied []base.LSN
	aborted int
}

func newWorld(fsys vfs.FS) *world {
	w := &world{fs: fsys, dir: testDir, rnd: rand.New(rand.NewPCG(1, 2))}
	if err := fsys.MkdirAll(w.dir); err != nil {
		panic(err)
	}
	return w
}

func (w *world) newNum() (base.FileNum, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.num++
	return w.num, nil
}

func (w *world) salt() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rnd.Uint64()
}

func (w *world) created(fi FileInfo) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.files = append(w.files, fi.Num)
	return nil
}

// manifest is the list of files as a store would have it; never nil.
func (w *world) manifest() []base.FileNum {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]base.FileNum{}, w.files...)
}

// options are those of a deterministic log: tests of the background
// goroutines clear Inline.
func (w *world) options() Options {
	return Options{
		FS: w.fs, Dir: w.dir, FileSize: MinFileSize, Inline: true, IdleMark: -1, Keys: w.keys,
		NewFileNum: w.newNum, Rand: w.salt, OnCreate: w.created,
		Apply: func(b []*Record) {
			w.mu.Lock()
			defer w.mu.Unlock()
			for _, r := range b {
				w.applied = append(w.applied, r.LSN)
			}
		},
		Abort: func(b []*Record) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.aborted += len(b)
		},
	}
}

func (w *world) open(t testing.TB, change ...func(*Options)) *Log {
	t.Helper()
	o := w.options()
	for _, c := range change {
		c(&o)
	}
	l, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func (w *world) recoverOptions() RecoverOptions {
	mark, err := ReadMark(w.fs, w.dir)
	if err != nil {
		panic(err)
	}
	return RecoverOptions{FS: w.fs, Dir: w.dir, Files: w.manifest(), Mark: mark, Keys: w.keys}
}

// copyEnd is CopyEnd and Publish in one.
func copyEnd(o CopyOptions, r Recovery) (Position, *FileInfo, error) {
	c, err := CopyEnd(o, r)
	if err != nil {
		return Position{}, nil, err
	}
	return c.Publish()
}

// reopen recovers, copies the end, sweeps, and opens the log for writing: what a
// store does at each start.
func (w *world) reopen(change ...func(*Options)) (*Log, Recovery, [][]byte, error) {
	mark, err := ReadMark(w.fs, w.dir)
	if err != nil {
		return nil, Recovery{}, nil, err
	}
	got, r, err := readLog(RecoverOptions{FS: w.fs, Dir: w.dir, Files: w.manifest(), Mark: mark, Keys: w.keys})
	if err != nil {
		return nil, r, got, err
	}
	start, fi, err := copyEnd(CopyOptions{FS: w.fs, Dir: w.dir, NewFileNum: w.newNum, Rand: w.salt, Keys: w.keys}, r)
	if err != nil {
		return nil, r, got, err
	}
	if fi != nil {
		if err := w.created(*fi); err != nil {
			return nil, r, got, err
		}
	}
	if err := removeStrays(w.fs, w.dir, r); err != nil {
		return nil, r, got, err
	}
	o := w.options()
	o.Start = start
	for _, c := range change {
		c(&o)
	}
	l, err := New(o)
	return l, r, got, err
}

// removeStrays removes the files that Recover found not to be part of the log, as the
// engine's sweep does.
func removeStrays(fsys vfs.FS, dir string, r Recovery) error {
	var errs []error
	for _, name := range r.Strays {
		errs = append(errs, fsys.Remove(filepath.Join(dir, name)))
	}
	return errors.Join(errs...)
}

// readLog recovers and returns the payloads; it checks that LSNs are dense.
func readLog(o RecoverOptions) ([][]byte, Recovery, error) {
	var got [][]byte
	next := base.LSN(0)
	r, err := Recover(o, func(e Entry) error {
		if next != 0 && e.LSN != next && !o.AllowDamage {
			return fmt.Errorf("visited LSN %d after %d", e.LSN, next-1)
		}
		next = e.LSN + 1
		got = append(got, bytes.Clone(e.Payload))
		return nil
	})
	return got, r, err
}

// record is a Record with fixed bytes.
func record(parts ...[]byte) *Record {
	var n int64
	for _, p := range parts {
		n += int64(len(p))
	}
	return &Record{
		Size:    n,
		Prepare: func(base.LSN) ([][]byte, error) { return parts, nil },
	}
}

// commit commits a record; every second one with a context that may be cancelled, so
// that callers both lead and queue.
func commit(l *Log, parts ...[]byte) error {
	ctx := context.Background()
	if l.LastLSN()%2 == 1 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
	}
	return l.Commit(ctx, record(parts...))
}

// payload i is n bytes that depend on i.
func payload(i, n int) []byte {
	b := make([]byte, n)
	rnd := rand.New(rand.NewPCG(uint64(i), 7))
	for j := range b {
		b[j] = byte(rnd.Uint32())
	}
	copy(b, strconv.Itoa(i)+":")
	return b
}

func mustCommit(t testing.TB, l *Log, i, n int) {
	t.Helper()
	if err := commit(l, payload(i, n)); err != nil {
		t.Fatalf("commit %d: %v", i, err)
	}
}

func mustClose(t testing.TB, l *Log) {
	t.Helper()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

// checkPayloads checks that got is payload 1..len(got) of n bytes each.
func checkPayloads(t testing.TB, got [][]byte, count, n int) {
	t.Helper()
	if len(got) != count {
		t.Fatalf("%d records, want %d", len(got), count)
	}
	for i, b := range got {
		if !bytes.Equal(b, payload(i+1, n)) {
			t.Fatalf("record %d has wrong bytes", i+1)
		}
	}
}

func readFile(t testing.TB, fsys vfs.FS, name string) []byte {
	t.Helper()
	f, err := fsys.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	n, err := f.Size()
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, n)
	if n > 0 {
		if _, err := f.ReadAt(b, 0); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

func writeFile(t testing.TB, fsys vfs.FS, name string, b []byte) {
	t.Helper()
	if err := fsys.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	f, err := fsys.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(b, 0); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// directory reads all files of the log's directory.
func directory(t testing.TB, fsys vfs.FS, dir string) map[string][]byte {
	t.Helper()
	names, err := fsys.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]byte{}
	for _, n := range names {
		all[n] = readFile(t, fsys, filepath.Join(dir, n))
	}
	return all
}

// halfClose ends a log as the death of the process would: goroutines stop, and
// nothing more is written.
func halfClose(l *Log) {
	l.setPoison("test", errors.New("process died"))
	_ = l.Close()
}

// envInt scales a test by the environment.
func envInt(name string, def int) int {
	if v, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return v
	}
	return def
}

// stride is that of tests that edit one byte after another in one goroutine: of them
// the race detector sees a share.
func stride() int {
	if race.Enabled {
		return 9
	}
	return 1
}
