package admin

import (
	"context"
	"crypto/rand"
	"errors"
	"path/filepath"
	"testing"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/saver/serde"
	"github.com/stele-go/stele/store"
)

// noise is a value that neither a patch nor compression makes smaller.
func noise(n int) saver.Value {
	b := make([]byte, n)
	_, _ = rand.Read(b) // does not fail
	return saver.ValueTyped(serde.Typed{Kind: serde.KindBytes, Data: b})
}

// TestRoom: each value counts once, where it belongs, before and after a flush, and for a
// thread that was copied.
func TestRoom(t *testing.T) {
	ctx := context.Background()
	d, err := disk.Open(filepath.Join(t.TempDir(), "store"), disk.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	items, err := store.On(d, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer items.Close()

	if r, err := UsageOf(ctx, d); err != nil || r.Bytes != 0 || len(r.Channels) != 0 {
		t.Errorf("an empty store: %+v, %v", r, err)
	}
	cfg := saver.Config{ThreadID: "t"}
	one, two := saver.IntVersion(1), saver.IntVersion(2)
	for i, values := range []map[string]saver.Value{{"large": noise(100_000), "small": noise(100)}, {"small": noise(100)}} {
		version := map[string]saver.Version{"large": one, "small": one}
		fresh := version
		if i == 1 {
			version, fresh = map[string]saver.Version{"large": one, "small": two}, map[string]saver.Version{"small": two}
		}
		cp := saver.Checkpoint{V: 4, ID: id(int64(i)), Values: values, Versions: version}
		if cfg, err = d.Put(ctx, cfg, cp, nil, fresh); err != nil {
			t.Fatal(err)
		}
	}
	err = errors.Join(
		d.PutWrites(ctx, cfg, []saver.Write{{Channel: "small", Value: noise(1000)}}, "task", ""),
		items.Put(ctx, store.Namespace{"n"}, "k", map[string]any{"v": string(make([]byte, 3000))}),
		d.CopyThread(ctx, "t", "copy"),
	)
	if err != nil {
		t.Fatal(err)
	}
	check := func(when string) {
		t.Helper()
		r, err := UsageOf(ctx, d)
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Channels) != 2 || r.Channels[0].Channel != "large" || r.Channels[0].Values != 1 || r.Channels[1].Values != 2 {
			t.Fatalf("%s: channels %+v", when, r.Channels)
		}
		sum := r.Records.Bytes + r.Writes.Bytes + r.Items.Bytes + r.Other.Bytes
		for _, c := range r.Channels {
			sum += c.Bytes
		}
		if sum != r.Bytes {
			t.Errorf("%s: %d bytes in all, the parts are %d", when, r.Bytes, sum)
		}
		for _, c := range []struct {
			what  string
			room  ValueUsage
			least int64
		}{{"large", r.Channels[0].ValueUsage, 100_000}, {"small", r.Channels[1].ValueUsage, 200}, {"writes", r.Writes, 1000}, {"items", r.Items, 3000}, {"records", r.Records, 20}} {
			if c.room.Bytes < c.least || c.room.Bytes > c.least+c.least/10+500 {
				t.Errorf("%s: %s take %+v, want about %d bytes", when, c.what, c.room, c.least)
			}
		}
		if r.Records.Values != 2 || r.Writes.Values != 1 {
			t.Errorf("%s: records %+v, writes %+v", when, r.Records, r.Writes)
		}
	}
	check("in the log")
	if err := errors.Join(d.Flush(ctx), d.Compact(ctx)); err != nil {
		t.Fatal(err)
	}
	check("in segments")
	if err := d.DeleteThread(ctx, "t"); err != nil {
		t.Fatal(err)
	}
	check("in the copy alone")

	rep, err := VerifyOpen(ctx, d, VerifyOptions{})
	if err != nil || !rep.Clean() || rep.Checkpoints != 2 {
		t.Errorf("%+v, %v", rep, err)
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := UsageOf(cancelled, d); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
