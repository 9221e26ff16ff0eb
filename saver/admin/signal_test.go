package admin

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
)

// firstLog ends a context when a log is first opened, and counts what is opened of the
// store after.
type firstLog struct {
	vfs.FS
	ctx   context.Context
	end   context.CancelFunc
	after atomic.Int64
}

func (f *firstLog) Open(name string) (vfs.File, error) {
	ext := filepath.Ext(name)
	if f.ctx.Err() != nil && (ext == ".log" || ext == ".img" || strings.HasPrefix(filepath.Base(name), "MANIFEST")) {
		f.after.Add(1)
	}
	if ext == ".log" {
		f.end()
	}
	return f.FS.Open(name)
}

// TestOpeningIsCalledOff: what opens a store in order to write ends while it is still
// opening it.
func TestOpeningIsCalledOff(t *testing.T) {
	for name, do := range map[string]func(ctx context.Context, dir string, a Access) error{
		"compact": func(ctx context.Context, dir string, a Access) error {
			_, err := Compact(ctx, dir, a, nil)
			return err
		},
		"erase": func(ctx context.Context, dir string, a Access) error {
			_, err := Erase(ctx, dir, EraseOptions{Access: a, Threads: []string{"a1"}})
			return err
		},
		"a dry run": func(ctx context.Context, dir string, a Access) error {
			_, err := Erase(ctx, dir, EraseOptions{Access: a, Threads: []string{"a1"}, DryRun: true})
			return err
		},
		"salvage": func(ctx context.Context, dir string, a Access) error {
			_, err := Salvage(ctx, dir, dir+"-new", SalvageOptions{Access: a})
			return err
		},
	} {
		dir := eraseStore(t)
		ctx, end := context.WithCancel(t.Context())
		fsys := &firstLog{FS: vfs.OS{}, ctx: ctx, end: end}
		err := do(ctx, dir, Access{Options: disk.Options{Simulation: disk.Simulation{FS: fsys, Inline: true}}})
		if n := fsys.after.Load(); !errors.Is(err, context.Canceled) || errors.Is(err, saver.ErrEraseUnfinished) || n > 0 {
			t.Errorf("%s: %v, after which %d files were opened", name, err, n)
		}
		if ids := threadsOf(t, dir); ids != "a1 a2 b1 b2" {
			t.Errorf("%s: threads are %s", name, ids)
		}
	}
}
