package model

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
)

// lives opens one store again and again. Between lives it is closed, or left as
// it is, with its log flushed, merged or neither, and now and then without its
// image of the index.
type lives struct {
	env  Env
	fs   vfs.FS
	dir  string
	opts disk.Options
	rng  *rand.Rand
	s    *disk.Saver
}

func (l *lives) open() (saver.Saver, error) {
	var err error
	l.s, err = disk.Open(l.dir, l.opts.In(disk.Simulation{FS: l.fs, Rand: l.rng.Uint64, Inline: true}))
	return l.s, err
}

func (l *lives) reopen() (saver.Saver, error) {
	ctx := context.Background()
	switch l.rng.IntN(6) {
	case 0:
		return l.s, l.s.Flush(ctx)
	case 1:
		return l.s, l.s.Compact(ctx)
	}
	if err := l.s.Close(); err != nil {
		return nil, err
	}
	if l.rng.IntN(4) == 0 {
		if err := loseImages(l.fs, l.dir); err != nil {
			return nil, err
		}
	}
	return l.open()
}

func loseImages(fsys vfs.FS, dir string) error {
	names, err := fsys.List(dir)
	if err != nil {
		return err
	}
	for _, n := range names {
		if strings.HasSuffix(n, ".img") {
			if err := fsys.Remove(filepath.Join(dir, n)); err != nil {
				return err
			}
		}
	}
	return nil
}

func diskFactory(fsys func() vfs.FS, dir func() string) func(Env) (Subject, error) {
	return func(env Env) (Subject, error) {
		l := &lives{env: env, fs: fsys(), dir: dir(), rng: rand.New(rand.NewPCG(1, 3))}
		l.opts = disk.Options{Clock: env.Clock, Random: env.Random, DeletedMemory: env.DeletedMemory, ManualWork: true, LogFileSize: 64 << 10}
		s, err := l.open()
		env.Cleanup(func() { _ = l.s.Close() })
		return Subject{Saver: s, Reopen: l.reopen}, err
	}
}

func TestSimulatedDisk(t *testing.T) {
	Run(t, "simulated disk", diskFactory(func() vfs.FS { return vfs.NewMem(vfs.MemOptions{WindowsRules: true}) }, func() string { return "store" }))
}

func TestDisk(t *testing.T) {
	setFlags(t, map[string]string{"rapid.checks": "15"}) // each program costs real syncs
	Run(t, "disk", diskFactory(func() vfs.FS { return vfs.OS{} }, t.TempDir))
}
