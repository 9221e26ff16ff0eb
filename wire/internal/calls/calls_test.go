package calls

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
)

func open(t *testing.T, clock func() time.Time) *disk.Saver {
	t.Helper()
	d, err := disk.Open("store", disk.Options{Clock: clock, Simulation: disk.Simulation{FS: vfs.NewMem(vfs.MemOptions{})}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func nothing(any) []byte { return nil }

// TestOrder: of the calls of a slot none is done twice, and none behind a later one; other
// slots and clients have nothing to do with it.
func TestOrder(t *testing.T) {
	d, ctx := open(t, nil), context.Background()
	ask := func(id ID) error {
		return d.DeleteThread(With(ctx, id, func(any) []byte { return []byte{byte(id.Number)} }), "t")
	}
	for _, id := range []ID{{Number: 3}, {Number: 5}, {Slot: 1, Number: 1}, {Client: [16]byte{1}, Number: 1}} {
		if err := ask(id); err != nil {
			t.Errorf("%+v: %v", id, err)
		}
		var done *DoneError
		if err := ask(id); !errors.As(err, &done) || len(done.Answer) != 1 || done.Answer[0] != byte(id.Number) {
			t.Errorf("%+v again: %v", id, err)
		}
		if err := Done(d, id); !errors.As(err, &done) {
			t.Errorf("%+v is not done: %v", id, err)
		}
	}
	if err := ask(ID{Number: 4}); !errors.Is(err, ErrStale) {
		t.Errorf("a call behind a later one: %v", err)
	}
	if err := Store(ctx, d, ID{Number: 4}, nil); !errors.Is(err, ErrStale) {
		t.Errorf("store a call behind a later one: %v", err)
	}
	if err := Done(d, ID{Number: 6}); err != nil {
		t.Errorf("a call to come: %v", err)
	}
}

// TestOneTransaction: a call that is refused is not remembered, and one whose answer is too
// long has no effect.
func TestOneTransaction(t *testing.T) {
	d, ctx := open(t, nil), context.Background()
	for _, id := range []string{"a", "b"} {
		if _, err := d.Put(ctx, saver.Config{ThreadID: id}, saver.Checkpoint{V: 4, ID: "1"}, nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.CopyThread(With(ctx, ID{Number: 1}, nothing), "a", "b"); !errors.Is(err, saver.ErrThreadExists) {
		t.Fatal(err)
	}
	if err := Done(d, ID{Number: 1}); err != nil {
		t.Errorf("a refused call is remembered: %v", err)
	}
	long := func(any) []byte { return make([]byte, maxAnswer+1) }
	if err := d.CopyThread(With(ctx, ID{Number: 1}, long), "a", "c"); err == nil {
		t.Error("a long answer was taken")
	}
	if _, err := d.GetTuple(ctx, saver.Config{ThreadID: "c"}); !errors.Is(err, saver.ErrNotFound) {
		t.Errorf("half a call: %v", err)
	}
}

// TestExpire: clients are forgotten an hour after their last call, and no sooner.
func TestExpire(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	d, ctx := open(t, func() time.Time { return now }), context.Background()
	const clients = 2*expireBatch + 7
	id := func(i int) ID { return ID{Client: [16]byte{byte(i), byte(i >> 8)}, Number: 1} }
	for i := range clients {
		if err := Store(ctx, d, id(i), nil); err != nil {
			t.Fatal(err)
		}
	}
	now = now.Add(Keep)
	late := id(3)
	late.Slot = 9
	if err := Store(ctx, d, late, nil); err != nil {
		t.Fatal(err)
	}
	if n, err := Expire(ctx, d); n != 0 || err != nil {
		t.Errorf("%d forgotten within the hour, %v", n, err)
	}
	now = now.Add(time.Second)
	if n, err := Expire(ctx, d); n != clients-1 || err != nil {
		t.Errorf("%d of %d forgotten, %v", n, clients, err)
	}
	if Done(d, id(3)) == nil || Done(d, id(4)) != nil {
		t.Error("the wrong ones were forgotten")
	}
}
