package model

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/base/vfs/crashfs"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
)

// A program must give the same answers whatever the options of the store, on
// whatever file system, and whatever happens to the store between the calls. The
// model is saver/memory: what equals it in every run is equal in all.
//
// rapid makes a failing program and its options as simple as it can, and keeps it
// under testdata/rapid, from where every later run repeats it.

// drawOptions are options no answer may depend on.
func drawOptions(t *rapid.T, env Env) disk.Options {
	size := func(name string, from ...int64) int64 { return rapid.SampledFrom(from).Draw(t, name) }
	o := disk.Options{
		Clock: env.Clock, Random: env.Random, DeletedMemory: env.DeletedMemory,
		ManualWork:    rapid.SampledFrom([]bool{true, true, false}).Draw(t, "manual work"),
		Sync:          rapid.SampledFrom([]disk.SyncMode{disk.SyncAlways, disk.SyncNever, disk.SyncInterval}).Draw(t, "sync mode"),
		SyncInterval:  time.Duration(size("interval", int64(time.Second), int64(time.Millisecond))),
		LogFileSize:   size("log file size", 64<<10, 1<<20),
		CacheBytes:    size("cache", -1, 0, 1<<10),
		MemoryBudget:  size("memory", -1, 0, 64<<10),
		FlushBytes:    size("flush bytes", 0, 1, 2000),
		ImageBytes:    size("image bytes", 0, 1, 500),
		CompactFanout: int(size("fanout", 0, 2, 3)),
		CompactRate:   -1,
	}
	if o.MemoryBudget < 0 { // nothing else is kept
		o.VersionBytes = size("versions", 1<<20, -1)
	}
	return o
}

// chaos is a disk saver to which things happen.
type chaos struct {
	env  Env
	fs   *watched
	dir  string
	rng  *rand.Rand
	s    *disk.Saver
	real bool // on the operating system's files
	met  *met
}

// met counts what programs met, so that a run says what it is worth.
type met struct {
	mu                      sync.Mutex
	programs                int
	upsets                  map[string]int
	patches, segmentPatches int64
}

// left counts what a store did until it is left.
func (m *met) left(s *disk.Saver) {
	e := s.Inside().Engine.Metrics()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.patches, m.segmentPatches = m.patches+e.Patches, m.segmentPatches+e.SegmentPatches
}

func (m *met) upset(what string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.upsets[what]++
}

// print prints the counts, and demands that there are patches where there are many
// programs.
func (m *met) print(t *testing.T) {
	t.Helper()
	line := fmt.Sprintf("metamorphic: %d programs, %v, %d values logged as patches, %d written to segments as patches", m.programs, m.upsets, m.patches, m.segmentPatches)
	fmt.Println(line)
	if m.programs >= 50 && (m.patches == 0 || m.segmentPatches == 0) {
		t.Error(line)
	}
}

// watched tells of writes to the log.
type watched struct {
	vfs.FS
	mu      sync.Mutex
	atWrite func()
}

func (w *watched) set(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.atWrite = f
}

func (w *watched) wrote() {
	w.mu.Lock()
	f := w.atWrite
	w.atWrite = nil
	w.mu.Unlock()
	if f != nil {
		f()
	}
}

func (w *watched) Create(name string) (vfs.File, error) { return w.watch(w.FS.Create(name)) }

func (w *watched) OpenReadWrite(name string) (vfs.File, error) {
	return w.watch(w.FS.OpenReadWrite(name))
}

func (w *watched) watch(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return &watchedFile{f, w}, nil
}

type watchedFile struct {
	vfs.File
	fs *watched
}

func (f *watchedFile) WriteAt(p []byte, off int64) (int, error) {
	f.fs.wrote()
	return f.File.WriteAt(p, off)
}

func (c *chaos) open(t *rapid.T) error {
	opts := drawOptions(t, c.env)
	// The order of operations is the program's alone where a crash is drawn from
	// it; background work shows its own orders.
	sim := disk.Simulation{FS: c.fs, Rand: c.random(), Inline: opts.ManualWork,
		PatchMin: rapid.SampledFrom([]int{48, 48, 0}).Draw(t, "patch min"), PatchRun: rapid.SampledFrom([]int{0, 1, 3}).Draw(t, "patch run"),
		SegmentSize: rapid.SampledFrom([]int64{0, 0, 1, 4 << 10}).Draw(t, "segment size")}
	var err error
	c.s, err = disk.Open(c.dir, opts.In(sim))
	return err
}

func (c *chaos) random() func() uint64 {
	rng := rand.New(rand.NewPCG(c.rng.Uint64(), 5))
	var mu sync.Mutex
	return func() uint64 {
		mu.Lock()
		defer mu.Unlock()
		return rng.Uint64()
	}
}

// upsets are what may happen between calls.
var upsets = []string{"flush", "compact", "part", "image", "close", "kill", "power failure", "lose the saved index", "reader beside"}

func (c *chaos) upset(t *rapid.T) (saver.Saver, string, error) {
	ctx, what := context.Background(), rapid.SampledFrom(upsets).Draw(t, "upset")
	c.met.upset(what)
	var err error
	switch what {
	case "flush":
		err = c.s.Flush(ctx)
	case "compact":
		err = c.s.Compact(ctx)
	case "part":
		_, err = c.s.Inside().Engine.CompactStep(ctx)
	case "image":
		err = c.s.Inside().Engine.WriteImage(ctx)
	case "reader beside":
		err = c.readerBeside(ctx)
	case "kill", "power failure":
		err = c.crash(t, what == "power failure")
	default:
		c.met.left(c.s)
		if err = c.s.Close(); err == nil && what == "lose the saved index" {
			err = loseImages(c.fs, c.dir)
		}
		if err == nil {
			err = c.open(t)
		}
	}
	return c.s, what, err
}

// crash ends the process without a word, or the power. What was asked to be
// durable is: everything in mode SyncAlways, and everything before a Sync.
func (c *chaos) crash(t *rapid.T, power bool) error {
	if err := c.s.Sync(context.Background()); err != nil {
		return err
	}
	c.met.left(c.s)
	if c.real {
		return c.copyAside(t)
	}
	sv := c.fs.FS.(*crashfs.FS)
	dead := c.s
	next := crashfs.NewFrom(sv.Mem())
	if power {
		o := crashfs.Options{Seed: c.rng.Uint64(), Random: 3, MaxTorn: 2, MaxSingle: 3, Adversarial: true}
		var states []crashfs.State
		for s := range sv.States(sv.Len(), o) {
			states = append(states, s)
		}
		next = states[rapid.IntRange(0, len(states)-1).Draw(t, "state")].FS()
	}
	sv.Kill()
	_ = dead.Close() // frees its goroutines; every operation fails
	c.fs = &watched{FS: next}
	return c.open(t)
}

// copyAside takes the files as another process would find them, had this one died
// now, and goes on with the copy.
func (c *chaos) copyAside(t *rapid.T) error {
	to := fmt.Sprintf("%s-%d", strings.TrimRight(c.dir, "-0123456789"), c.rng.Uint32())
	if err := copyStill(c.fs, c.dir, to); err != nil {
		return err
	}
	if err := c.s.Close(); err != nil {
		return err
	}
	c.dir = to
	return c.open(t)
}

// copyStill copies a store whose own work may go on beside, until it did not: the files
// of two moments are not what a process leaves behind.
func copyStill(fsys vfs.FS, from, to string) error {
	for {
		before, err := sizesOf(fsys, from)
		if err != nil {
			return err
		}
		err = copyStore(fsys, from, to)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		after, serr := sizesOf(fsys, from)
		if serr != nil || err == nil && maps.Equal(before, after) {
			return serr
		}
		names, err := fsys.List(to)
		if err != nil {
			return err
		}
		for _, n := range names {
			if err := fsys.Remove(filepath.Join(to, n)); err != nil {
				return err
			}
		}
	}
}

// sizesOf are the files of a directory; one that just goes away has none.
func sizesOf(fsys vfs.FS, dir string) (map[string]int64, error) {
	names, err := fsys.List(dir)
	if err != nil {
		return nil, err
	}
	out := map[string]int64{}
	for _, n := range names {
		f, err := fsys.Open(filepath.Join(dir, n))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if out[n], err = f.Size(); err == nil {
			err = f.Close()
		}
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

func copyStore(fsys vfs.FS, from, to string) error {
	names, err := fsys.List(from)
	if err != nil {
		return err
	}
	if err := fsys.MkdirAll(to); err != nil {
		return err
	}
	for _, n := range names {
		if n == "LOCK" {
			continue
		}
		if err := copyFile(fsys, filepath.Join(from, n), filepath.Join(to, n)); err != nil {
			return err
		}
	}
	return nil
}

func copyFile(fsys vfs.FS, from, to string) error {
	src, err := fsys.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = src.Close() }()
	size, err := src.Size()
	if err != nil {
		return err
	}
	b := make([]byte, size)
	if n, err := src.ReadAt(b, 0); n < len(b) {
		return err
	}
	dst, err := fsys.Create(to)
	if err != nil {
		return err
	}
	if _, err := dst.WriteAt(b, 0); err != nil {
		return err
	}
	return dst.Close()
}

// readerBeside reads all by a second, read-only store of the same files, as
// another process would.
func (c *chaos) readerBeside(ctx context.Context) error {
	if err := c.s.Sync(ctx); err != nil {
		return err
	}
	r, err := disk.Open(c.dir, disk.Options{ReadOnly: true, Clock: c.env.Clock, Random: c.env.Random, DeletedMemory: c.env.DeletedMemory, Simulation: disk.Simulation{FS: c.fs}})
	if err != nil {
		return err
	}
	got, want := everything(ctx, r), everything(ctx, c.s)
	if err := r.Close(); err != nil {
		return err
	}
	if got != want {
		return fmt.Errorf("a reader sees\n%s\nthe writer\n%s", got, want)
	}
	return nil
}

func chaosFactory(m *met, start func(t *rapid.T) (fsys vfs.FS, dir string)) func(Env) (Subject, error) {
	return func(env Env) (Subject, error) {
		fsys, dir := start(env.T)
		_, onDisk := fsys.(vfs.OS)
		m.programs++
		c := &chaos{env: env, met: m, fs: &watched{FS: fsys}, dir: dir, real: onDisk,
			rng: rand.New(rand.NewPCG(rapid.Uint64().Draw(env.T, "salt"), 7))}
		err := c.open(env.T)
		env.Cleanup(func() {
			if c.s != nil {
				m.left(c.s)
				_ = c.s.Close()
			}
		})
		return Subject{
			Saver: c.s, Upset: c.upset,
			AtWrite: func(f func()) { c.fs.set(f) },
			Settle:  func() error { return c.s.Flush(context.Background()) },
		}, err
	}
}

// TestMetamorphic runs programs under random options on a file system in memory,
// with crashes.
func TestMetamorphic(t *testing.T) {
	setFlags(t, map[string]string{"rapid.checks": fmt.Sprint(defaultChecks() / 4)})
	m := &met{upsets: map[string]int{}}
	defer m.print(t)
	Run(t, "chaos", chaosFactory(m, func(*rapid.T) (vfs.FS, string) { return crashfs.New(), "store" }))
}

// TestMetamorphicDisk is TestMetamorphic on real files. A power failure there is
// the death of the process.
func TestMetamorphicDisk(t *testing.T) {
	setFlags(t, map[string]string{"rapid.checks": "8"}) // each program costs real syncs
	root, n := t.TempDir(), 0
	m := &met{upsets: map[string]int{}}
	defer m.print(t)
	Run(t, "chaos on disk", chaosFactory(m, func(*rapid.T) (vfs.FS, string) {
		n++
		return vfs.OS{}, filepath.Join(root, fmt.Sprintf("store%dx", n))
	}))
}
