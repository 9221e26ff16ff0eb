package ops

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
)

var ctx = context.Background()

// gate is a file system whose syncs wait while it is shut, and fail while err is
// set; and some of whose files cannot be created.
type gate struct {
	vfs.FS
	mu   sync.Mutex
	shut chan struct{} // nil: open
	err  error
	no   string // names that end so cannot be created; "": all can
}

func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = make(chan struct{})
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.shut)
	g.shut = nil
}

func (g *gate) fail(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.err = err
}

// refuse makes the creation of names that end so fail; "" of none.
func (g *gate) refuse(suffix string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.no = suffix
}

func (g *gate) pass() error {
	g.mu.Lock()
	shut := g.shut
	g.mu.Unlock()
	if shut != nil {
		<-shut
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.err
}

type gated struct {
	vfs.File
	g *gate
}

func (f gated) Sync() error { return errors.Join(f.g.pass(), f.File.Sync()) }

func (f gated) SyncData() error { return errors.Join(f.g.pass(), f.File.SyncData()) }

func (g *gate) file(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return gated{f, g}, nil
}

func (g *gate) Create(name string) (vfs.File, error) {
	g.mu.Lock()
	no := g.no
	g.mu.Unlock()
	if no != "" && strings.HasSuffix(name, no) {
		return nil, &fs.PathError{Op: "create", Path: name, Err: syscall.EACCES}
	}
	return g.file(g.FS.Create(name))
}

func (g *gate) OpenReadWrite(name string) (vfs.File, error) { return g.file(g.FS.OpenReadWrite(name)) }

// open opens a store in memory; capacity 0 is without bounds.
func open(t *testing.T, opts disk.Options, capacity int64) (*disk.Saver, *gate, *vfs.Mem) {
	t.Helper()
	mem := vfs.NewMem(vfs.MemOptions{Capacity: capacity})
	g := &gate{FS: mem}
	d, err := disk.Open("store", opts.In(disk.Simulation{FS: g}))
	if err != nil {
		t.Fatal(err)
	}
	return d, g, mem
}

// put stores the n-th checkpoint of a thread with one channel.
func put(d *disk.Saver, thread string, n int, v saver.Value) error {
	ver := saver.IntVersion(int64(n))
	cfg := saver.Config{ThreadID: thread}
	if n > 1 {
		cfg.CheckpointID = fmt.Sprintf("c%06d", n-1)
	}
	_, err := d.Put(ctx, cfg, saver.Checkpoint{V: 4, ID: fmt.Sprintf("c%06d", n),
		Versions: map[string]saver.Version{"m": ver}, Values: map[string]saver.Value{"m": v}}, nil, map[string]saver.Version{"m": ver})
	return err
}

func mustPut(t *testing.T, d *disk.Saver, thread string, n int, v saver.Value) {
	t.Helper()
	if err := put(d, thread, n, v); err != nil {
		t.Fatal(err)
	}
}

func mustClose(t *testing.T, d *disk.Saver) {
	t.Helper()
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}
