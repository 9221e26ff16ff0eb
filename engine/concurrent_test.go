package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/index"
)

// TestConcurrentUse runs writers, readers, views, flushes and compactions beside
// each other. Every entry holds its own key and number, so that a reader knows a
// wrong value when it sees one; a view must see the same twice.
func TestConcurrentUse(t *testing.T) {
	e, err := Open("store", Options{FS: vfs.NewMem(vfs.MemOptions{}), LogFileSize: 64 << 10, FlushBytes: 96 << 10, ImageBytes: 16 << 10, CompactFanout: 2})
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	const writers, commits = 8, 150
	var wg sync.WaitGroup
	var stop atomic.Bool
	for w := range writers {
		wg.Add(1)
		go func() {
			defer wg.Done()
			rng := rand.New(rand.NewPCG(uint64(w), 7))
			id := fmt.Sprintf("t%d", w)
			text := strings.Repeat(id+" was here. ", 80)
			for n := range commits {
				key := fmt.Sprintf("k%03d", rng.IntN(60))
				text = text[:min(len(text), 900)] + fmt.Sprintf(" and then %d", n)
				v, err := e.NewRevision(nil, Series{Partition: id, Name: "v"}, fmt.Appendf(nil, "%s/%s/%d", id, key, n), []byte(text))
				if err != nil {
					t.Error(err)
					return
				}
				err = e.Commit(ctx, []string{id}, func(tx *Tx) error {
					if n%50 == 49 {
						return tx.Drop(id, []byte("gone"))
					}
					return tx.Put(id, key, index.FlagHead, []SlotIn{{Name: "v", Value: &v}})
				})
				if err != nil {
					t.Errorf("commit: %v", err)
				}
			}
		}()
	}
	var readers sync.WaitGroup
	for r := range 3 {
		readers.Add(1)
		go func() {
			defer readers.Done()
			for !stop.Load() {
				v, err := e.View()
				if err != nil {
					t.Error(err)
					return
				}
				a, err1 := readAll(ctx, e, v)
				b, err2 := readAll(ctx, e, v)
				v.Release()
				if err := errors.Join(err1, err2); err != nil {
					t.Errorf("reader %d: %v", r, err)
				}
				if a != b {
					t.Errorf("reader %d: a view changed", r)
				}
			}
		}()
	}
	for _, work := range []func() error{
		func() error { return errors.Join(e.Flush(ctx), e.WriteImage(ctx)) },
		func() error { return e.Compact(ctx) },
	} {
		readers.Go(func() {
			for !stop.Load() {
				if err := work(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	stop.Store(true)
	readers.Wait()
	if e.Metrics().Patches == 0 {
		t.Error("no value was logged as a patch")
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
}

// readAll reads every value of a view and checks that it is the entry's own.
func readAll(ctx context.Context, e *Engine, v *View) (string, error) {
	var all string
	var err error
	aerr := v.Ascend("", func(t *index.Partition) bool {
		if t, err = v.Load(t); err != nil {
			return false
		}
		t.Ascend("", func(it *index.Entry) bool {
			var b []byte
			if b, err = e.ReadValue(ctx, t.Family, it.Slots.At(0).Ref); err != nil {
				err = fmt.Errorf("thread %s entry %s record %d: %w", t.ID, it.Key, it.LSN, err)
				return false
			}
			want := fmt.Sprintf("%s/%s/", t.ID, it.Key)
			if len(b) < len(want) || string(b[:len(want)]) != want {
				err = fmt.Errorf("entry %s of thread %s reads %q", it.Key, t.ID, b)
				return false
			}
			all += string(b) + "\n"
			return true
		})
		return err == nil
	})
	return all, cmp.Or(err, aerr)
}
