package crash

import (
	"context"
	"fmt"
	"strings"

	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/store"
)

// eraser is a saver that erases threads and items in one call.
type eraser interface {
	eraseAll(ctx context.Context, threads []string, prefixes [][]string) error
}

func (d *opened) eraseAll(ctx context.Context, threads []string, prefixes [][]string) error {
	return d.EraseRequest(ctx, disk.EraseRequest{Threads: threads, Items: prefixes})
}

// eraseAll deletes the items one by one: all that erasing them means to a reader.
func (m *model) eraseAll(ctx context.Context, threads []string, prefixes [][]string) error {
	if err := m.Erase(ctx, threads...); err != nil {
		return err
	}
	for _, prefix := range prefixes {
		found, err := m.items.Search(ctx, store.Query{Prefix: prefix, Limit: store.NoLimit})
		if err != nil {
			return err
		}
		for _, f := range found {
			if err := m.items.Delete(ctx, f.Namespace, f.Key); err != nil {
				return err
			}
		}
	}
	return nil
}

var (
	_ eraser = (*opened)(nil)
	_ eraser = (*model)(nil)
)

// erasures checks what a store that was opened after a crash says of unfinished
// erasures: there are some only if a call of Erase had begun and not returned. In
// the relaxed modes the note that it is finished may be lost as well. Some are
// finished then, which changes nothing that can be read.
func (c *check) erasures(d *opened, lo, hi int, shown string) error {
	n, err := d.PendingErasures()
	if err != nil || n == 0 {
		return err
	}
	if c.tr.mode == disk.SyncAlways && !c.erasing(lo, hi) {
		return fmt.Errorf("%d erasures are pending, and all calls of Erase had returned", n)
	}
	if c.rng.IntN(2) == 0 {
		return nil
	}
	if err := d.FinishErasures(c.h.ctx); err != nil {
		return fmt.Errorf("finish erasures: %w", err)
	}
	if n, err = d.PendingErasures(); err != nil || n > 0 {
		return fmt.Errorf("%d erasures are pending when they are finished, %w", n, err)
	}
	got, err := dump(c.h.ctx, d)
	if err == nil && got != shown {
		err = fmt.Errorf("after erasures were finished: %s", difference(got, shown))
	}
	c.h.mu.Lock()
	defer c.h.mu.Unlock()
	c.h.finished++
	return err
}

// erasing reports whether one of the calls after the first lo, of hi in all, erases.
func (c *check) erasing(lo, hi int) bool {
	for _, call := range c.tr.calls[lo:hi] {
		if strings.HasPrefix(call.what, "erase ") {
			return true
		}
	}
	return false
}
