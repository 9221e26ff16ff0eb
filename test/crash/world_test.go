package crash

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/saver/memory"
	"github.com/stele-go/stele/store"
	"github.com/stele-go/stele/store/cache"
	"github.com/stele-go/stele/wal"
)

// dir is where every store of these tests lies. It has a parent to lose its name
// in.
var dir = filepath.Join("home", "store")

// clock stands still but for the test: the n-th call of a program has its own
// time, whichever saver it runs on.
type clock struct {
	mu sync.Mutex
	n  int
}

func (c *clock) set(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n = n
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Unix(1_700_000_000+int64(c.n), 0).UTC()
}

// source is a seeded source of salts for a store, whose goroutines take turns.
func source(seed uint64) func() uint64 {
	var mu sync.Mutex
	rng := rand.New(rand.NewPCG(seed, 0x5a17))
	return func() uint64 {
		mu.Lock()
		defer mu.Unlock()
		return rng.Uint64()
	}
}

// config is how the stores of one trace are opened.
type config struct {
	seed uint64
	mode disk.SyncMode
	ring *ring // keys; nil: not encrypted
}

func (c config) open(fsys vfs.FS, clk *clock) (*opened, error) {
	opts := disk.Options{Sync: c.mode, ManualWork: true, LogFileSize: 64 << 10, CompactFanout: 2, CompactRate: -1,
		CacheBytes: -1, Clock: clk.now, Keys: c.ring.provider()}
	if c.seed%2 == 1 { // every thread is evicted as soon as it may be
		opts.MemoryBudget, opts.VersionBytes = -1, 1<<20
	}
	d, err := disk.Open(dir, opts.In(disk.Simulation{FS: fsys, Rand: source(c.seed ^ 0xd15c), Inline: true, Entropy: c.ring.entropy(c.seed), PatchMin: 48, PatchRun: 3, SegmentSize: c.segmentSize()}))
	if err != nil {
		return nil, err
	}
	return withItems(d, clk)
}

// withItems is an open saver with items and cache.
func withItems(d *disk.Saver, clk *clock) (*opened, error) {
	items, err := store.On(d, itemOptions(clk))
	if err != nil {
		return nil, err
	}
	entries, err := cache.On(d, cache.Options{})
	return &opened{d, items, entries}, err
}

// segmentSize makes the compactions of some programs write several segments, each of
// which becomes part of the store by itself.
func (c config) segmentSize() int64 { return []int64{0, 1, 0, 2 << 10, 0}[c.seed%5] }

// opened is a saver with the items and the cache of the same directory.
type opened struct {
	*disk.Saver
	items *store.Local
	cache *cache.Disk
}

func (d *opened) local() *store.Local { return d.items }

// model is what a disk must be like.
type model struct {
	*memory.Saver
	items *store.Local
	cache *cache.Memory
}

func (m *model) local() *store.Local { return m.items }

func newModel(clk *clock) *model {
	items, err := store.NewMemory(itemOptions(clk))
	if err != nil {
		panic(err)
	}
	entries, err := cache.NewMemory(cache.Options{Clock: clk.now})
	if err != nil {
		panic(err)
	}
	return &model{memory.New(memory.Options{Clock: clk.now}), items, entries}
}

// gate refuses everything once the process it belongs to is dead; handles are
// closed by crashfs.Kill.
type gate struct {
	vfs.FS
	dead bool
	// beside is called once, before the next segment or image is created.
	beside func()
}

func (g *gate) check() error {
	if g.dead {
		return fmt.Errorf("the process is dead")
	}
	return nil
}

func (g *gate) Create(name string) (vfs.File, error) {
	if err := g.check(); err != nil {
		return nil, err
	}
	if do := g.beside; do != nil && (strings.HasSuffix(name, ".seg") || strings.HasSuffix(name, ".img")) {
		g.beside = nil
		do()
	}
	return g.FS.Create(name)
}

func (g *gate) OpenReadWrite(name string) (vfs.File, error) {
	if err := g.check(); err != nil {
		return nil, err
	}
	return g.FS.OpenReadWrite(name)
}

func (g *gate) Rename(from, to string) error {
	if err := g.check(); err != nil {
		return err
	}
	return g.FS.Rename(from, to)
}

func (g *gate) Remove(name string) error {
	if err := g.check(); err != nil {
		return err
	}
	return g.FS.Remove(name)
}

func (g *gate) SyncDir(name string) error {
	if err := g.check(); err != nil {
		return err
	}
	return g.FS.SyncDir(name)
}

// orphans are files in the store that its manifest does not name.
func orphans(fsys vfs.FS, keys *ring) ([]string, error) {
	st, rep, err := keys.load(fsys)
	if err != nil {
		return nil, err
	}
	named := map[string]bool{"LOCK": true, wal.MarkName: true, rep.File: true}
	for _, l := range st.Logs {
		named[base.LogFile.Name(l.Num)] = true
	}
	for _, s := range st.Segments {
		named[base.SegmentFile.Name(s.Num)] = true
	}
	for _, im := range st.Images {
		named[base.ImageFile.Name(im.Num)] = true
	}
	names, err := fsys.List(dir)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, n := range names {
		if !named[n] {
			out = append(out, n)
		}
	}
	return out, nil
}

// replayed is a model after the first k calls.
func replayed(ctx context.Context, calls []call, k int) (*model, *clock) {
	clk := &clock{}
	m := newModel(clk)
	for i := range k {
		clk.set(calls[i].at)
		_ = calls[i].do(ctx, m) // its answer was compared when it was recorded
	}
	return m, clk
}
