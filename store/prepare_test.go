package store_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/saver/memory"
	"github.com/stele-go/stele/store"
)

// putter is a saver that takes items along, with the store beside it.
type putter struct {
	saver.Saver
	items *store.Local
}

func (p putter) put(ctx context.Context, id string, expect *string, along ...saver.Change) error {
	cp := saver.Checkpoint{V: 4, ID: id, Versions: map[string]saver.Version{}}
	_, err := p.Saver.PutRequest(ctx, saver.PutRequest{Config: saver.Config{ThreadID: "t", ExpectHead: expect}, Checkpoint: cp, Changes: along})
	return err
}

func putters(t *testing.T) map[string]putter {
	t.Helper()
	m, err := store.NewMemory(store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	d, err := disk.Open("store", disk.Options{Simulation: disk.Simulation{FS: vfs.NewMem(vfs.MemOptions{})}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	on, err := store.On(d, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return map[string]putter{"memory": {memory.New(memory.Options{}), m}, "disk": {d, on}}
}

func TestItemsGoAlong(t *testing.T) {
	ctx, ns := context.Background(), store.Namespace{"facts"}
	all := putters(t)
	for name, p := range all {
		t.Run(name, func(t *testing.T) {
			if err := p.items.Put(ctx, ns, "old", map[string]any{}); err != nil {
				t.Fatal(err)
			}
			prepare := func() saver.Change {
				a, err := p.items.Prepare(ctx, store.PutOp{Namespace: ns, Key: "new", Value: map[string]any{"v": 1}}, store.PutOp{Namespace: ns, Key: "old"})
				if err != nil {
					t.Fatal(err)
				}
				return a
			}
			look := func(want bool) {
				t.Helper()
				_, fresh := p.items.Get(ctx, ns, "new")
				_, old := p.items.Get(ctx, ns, "old")
				_, cp := p.GetTuple(ctx, saver.Config{ThreadID: "t"})
				if (fresh == nil) != want || (old == nil) == want || (cp == nil) != want {
					t.Fatalf("item %v, old item %v, checkpoint %v; want them in: %v", fresh, old, cp, want)
				}
			}
			along := prepare()
			look(false)
			if err := p.put(ctx, "1", saver.Head("other"), along); !errors.Is(err, saver.ErrConflict) {
				t.Fatalf("put upon another head: %v", err)
			}
			look(false)
			for other, q := range all {
				if other == name {
					continue
				}
				if err := q.put(ctx, "1", nil, along); !errors.Is(err, saver.ErrInvalid) {
					t.Fatalf("taken along by %s: %v", other, err)
				}
			}
			if err := p.put(ctx, "1", nil, nil); !errors.Is(err, saver.ErrInvalid) {
				t.Fatalf("nothing taken along: %v", err)
			}
			look(false)
			if err := p.put(ctx, "1", nil, prepare()); err != nil {
				t.Fatal(err)
			}
			look(true)
			for _, bad := range []store.PutOp{{Namespace: store.Namespace{"a.b"}, Key: "k", Value: map[string]any{}}, {Namespace: ns, Key: "k", Value: map[string]any{"f": func() {}}}} {
				if _, err := p.items.Prepare(ctx, bad); err == nil {
					t.Errorf("%+v is prepared", bad)
				}
			}
		})
	}
}
