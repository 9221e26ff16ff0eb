package transfer_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stele-go/stele/ops/transfer"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/saver/serde"
	"github.com/stele-go/stele/store"
)

func newItems(t *testing.T) *store.Local {
	t.Helper()
	s, err := store.NewMemory(store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// awkwardItems is a store with one of everything.
func awkwardItems(t *testing.T) *store.Local {
	t.Helper()
	s := newItems(t)
	day := time.Date(2022, 3, 4, 5, 6, 7, 8000, time.UTC)
	var items []store.Item
	for i, v := range []map[string]any{
		{}, {"n": int64(math.MinInt64), "f": 1.0, "nan": math.NaN(), "inf": math.Inf(-1), "zero": math.Copysign(0, -1)},
		{"bytes": []byte{0, 255}, "text": "\xff\x00", "list": []any{nil, true, "<a>\u2028"}}, {"at": day},
		{"deep": map[string]any{"er": map[string]any{}}},
	} {
		it := store.Item{Namespace: store.Namespace{"users", fmt.Sprint("u", i%2)}, Key: fmt.Sprint("k", i), Value: v, CreatedAt: day, UpdatedAt: day.AddDate(0, i, 0)}
		if i%2 == 1 {
			it.TTL, it.ExpiresAt = time.Duration(i)*90*time.Second, day.AddDate(70, 0, 0)
		}
		items = append(items, it)
	}
	items = append(items, store.Item{Namespace: store.Namespace{"\xfe", ""}, Key: "", Value: map[string]any{"odd": "names"}, CreatedAt: day, UpdatedAt: day},
		store.Item{Namespace: store.Namespace{"users"}, Key: "gone", Value: map[string]any{}, CreatedAt: day, UpdatedAt: day, ExpiresAt: day.AddDate(0, 0, 1), TTL: time.Hour})
	for i := range 450 { // more than a batch
		items = append(items, store.Item{Namespace: store.Namespace{"many"}, Key: fmt.Sprint(i), Value: map[string]any{"i": int64(i)}, CreatedAt: day, UpdatedAt: day})
	}
	if err := s.Restore(t.Context(), items...); err != nil {
		t.Fatal(err)
	}
	return s
}

const awkwardCount = 456 // without the one that has expired

func below(labels ...string) store.Namespace { return labels }

// TestItemsRoundTrip: items come through a saver's directory and a file and are then what they
// were. A second copy leaves them alone.
func TestItemsRoundTrip(t *testing.T) {
	src := awkwardItems(t)
	d, err := disk.Open(t.TempDir(), disk.Options{Sync: disk.SyncNever})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	there, err := store.On(d, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer there.Close()
	all := transfer.ItemReport{Items: awkwardCount, Copied: awkwardCount, Verified: awkwardCount}
	if rep, err := transfer.CopyItems(t.Context(), transfer.FromStore(src), there, nil, transfer.Options{}); err != nil || rep != all {
		t.Fatalf("%+v, %v", rep, err)
	}
	path := tempFile(t)
	rep, err := transfer.WriteFile(t.Context(), transfer.FromSaver(newMemory()), path, transfer.Options{Items: transfer.FromStore(there)})
	if err != nil || rep.Items != awkwardCount || rep.Checkpoints != 0 {
		t.Fatalf("%+v, %v", rep, err)
	}
	back := newItems(t)
	file := transfer.FromNDJSON(func() (io.ReadCloser, error) { return os.Open(path) })
	if rep, err := transfer.CopyItems(t.Context(), file, back, nil, transfer.Options{}); err != nil || rep != all {
		t.Fatalf("%+v, %v", rep, err)
	}
	if rep, err := transfer.CopyItems(t.Context(), transfer.FromStore(src), back, nil, transfer.Options{}); err != nil || rep != (transfer.ItemReport{Items: awkwardCount, Verified: awkwardCount}) {
		t.Errorf("a second copy: %+v, %v", rep, err)
	}
	if rep, err := transfer.CopyItems(t.Context(), file, newItems(t), below("users", "u0"), transfer.Options{}); err != nil || rep.Items != 3 {
		t.Errorf("below a namespace: %+v, %v", rep, err)
	}
}

// TestItemsDiffer: what is there with other content ends the copy, or is replaced if asked.
func TestItemsDiffer(t *testing.T) {
	src, dst := awkwardItems(t), newItems(t)
	if err := dst.Put(t.Context(), below("users", "u0"), "k0", map[string]any{"mine": true}); err != nil {
		t.Fatal(err)
	}
	if _, err := transfer.CopyItems(t.Context(), transfer.FromStore(src), dst, nil, transfer.Options{}); !errors.Is(err, transfer.ErrItemDiffers) {
		t.Errorf("%v, want ErrItemDiffers", err)
	}
	if it, err := dst.Get(t.Context(), below("users", "u0"), "k0"); err != nil || it.Value["mine"] != true {
		t.Errorf("%v, %v: it was overwritten", it, err)
	}
	rep, err := transfer.CopyItems(t.Context(), transfer.FromStore(src), dst, nil, transfer.Options{Replace: true})
	if err != nil || rep.Replaced != 1 || rep.Verified != awkwardCount {
		t.Errorf("%+v, %v", rep, err)
	}
}

// narrow refuses keys with an odd number, as a store with less room would, and forgets some.
type narrow struct {
	*store.Local
	forgets string
}

func (n *narrow) Restore(ctx context.Context, items ...store.Item) error {
	var kept []store.Item
	for _, it := range items {
		if strings.HasSuffix(it.Key, "7") {
			return &store.InvalidError{Field: "key", Reason: "has a 7"}
		}
		if it.Key != n.forgets {
			kept = append(kept, it)
		}
	}
	return n.Local.Restore(ctx, kept...)
}

// TestItemsRefused: what the target refuses is kept apart, one by one; what it loses is noticed.
func TestItemsRefused(t *testing.T) {
	src := awkwardItems(t)
	var rejected []*transfer.Rejected
	o := transfer.Options{Reject: func(r *transfer.Rejected) error { rejected = append(rejected, r); return nil }}
	rep, err := transfer.CopyItems(t.Context(), transfer.FromStore(src), &narrow{newItems(t), "none"}, nil, o)
	if err != nil || rep.Rejected != 45 || len(rejected) != 45 || rep.Items != awkwardCount-45 || rep.Verified != rep.Items {
		t.Errorf("%+v, %d rejected, %v", rep, len(rejected), err)
	}
	for _, r := range rejected {
		if r.What != "item" || r.Raw == nil || !strings.Contains(r.Name, `["many"]`) {
			t.Errorf("%+v", r)
		}
	}
	if _, err := transfer.CopyItems(t.Context(), transfer.FromStore(src), &narrow{newItems(t), "8"}, nil, o); !errors.Is(err, transfer.ErrNotEqual) {
		t.Errorf("a store that loses an item: %v", err)
	}
}

// weighed notes how many bytes of values it is given and asked for in one call.
type weighed struct {
	*store.Local
	given, asked []int
	size         int // of a value
}

func (w *weighed) Restore(ctx context.Context, items ...store.Item) error {
	w.given = append(w.given, len(items)*w.size)
	return w.Local.Restore(ctx, items...)
}

func (w *weighed) Batch(ctx context.Context, ops ...store.Op) ([]store.Result, error) {
	w.asked = append(w.asked, len(ops)*w.size)
	return w.Local.Batch(ctx, ops...)
}

// TestItemsBounded: no batch holds many more bytes than 8 MiB, however large items are.
func TestItemsBounded(t *testing.T) {
	src, dst := newItems(t), &weighed{Local: newItems(t), size: 1 << 20}
	big := strings.Repeat("x", dst.size)
	const count = 30
	for i := range count {
		if err := src.Put(t.Context(), below("big"), fmt.Sprint("k", i), map[string]any{"text": big}); err != nil {
			t.Fatal(err)
		}
	}
	rep, err := transfer.CopyItems(t.Context(), transfer.FromStore(src), dst, nil, transfer.Options{})
	if err != nil || rep.Items != count || rep.Verified != count {
		t.Fatalf("%+v, %v", rep, err)
	}
	if most := slices.Max(slices.Concat(dst.given, dst.asked)); most > 9<<20 {
		t.Errorf("%d bytes at once; given %d, asked for %d", most, dst.given, dst.asked)
	}
}

// TestItemLines: lines of items that are wrong are rejected with the others of a file.
func TestItemLines(t *testing.T) {
	const times = `"created":"2026-01-02T03:04:05.000006Z","updated":"2026-01-02T03:04:05.000006Z"`
	for line, good := range map[string]bool{
		`{"kind":"item","namespace":["a"],"key":"k","value":{"n":1},` + times + `}`:                                           true,
		`{"kind":"item","namespace":["a"],"key":"k","typed_value":{"type":"msgpack","data":"gA=="},` + times + `}`:            true,
		`{"kind":"item","namespace":["a"],"key":"k","value":{},` + times + `,"expires":"2099-01-01T00:00:00Z","ttl_us":90}`:   true,
		`{"kind":"item","namespace":[{"base64":"/g=="}],"key":{"base64":"/w=="},"value":{},` + times + `}`:                    true,
		`{"kind":"item","key":"k","value":{},` + times + `}`:                                                                  false,
		`{"kind":"item","namespace":["a"],"key":"k","value":{}}`:                                                              false,
		`{"kind":"item","namespace":["a"],"key":"k",` + times + `}`:                                                           false,
		`{"kind":"item","namespace":["a"],"key":"k","value":[],` + times + `}`:                                                false,
		`{"kind":"item","namespace":["a"],"key":"k","value":{},"typed_value":{"type":"msgpack","data":"gA=="},` + times + `}`: false,
		`{"kind":"item","namespace":["a"],"key":"k","typed_value":{"type":"msgpack","data":"/w=="},` + times + `}`:            false,
		`{"kind":"item","namespace":["a"],"key":"k","value":{},` + times + `,"ttl_us":-1}`:                                    false,
		`{"kind":"item","namespace":["a"],"key":"k","value":{},` + times + `,"ttl_us":9223372036854775807}`:                   false,
		`{"kind":"item","namespace":["a"],"key":"k","value":{},"created":"today","updated":"2026-01-02T03:04:05Z"}`:           false,
		`{"kind":"item","namespace":["a"],"key":"k","value":{},` + times + `,"more":1}`:                                       false,
	} {
		text := `{"kind":"stele","format":1}` + "\n" + line + "\n" + `{"kind":"end","checkpoints":0,"items":1}` + "\n"
		file := transfer.FromNDJSON(func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil })
		items, rejected := 0, 0
		for _, err := range file.Items(t.Context(), nil) {
			if items++; err != nil {
				t.Errorf("%s: %v", line, err)
			}
		}
		for _, err := range file.Tuples(t.Context(), transfer.Selection{}) {
			if rejected++; !errors.Is(err, transfer.ErrLine) {
				t.Errorf("%s: %v", line, err)
			}
		}
		if items+rejected != 1 || (items == 1) != good {
			t.Errorf("%s: %d items, %d rejected", line, items, rejected)
		}
	}
}

// TestEncryptedItems: items whose values are encrypted are copied without the key, through a file
// too, and are read with it afterwards.
func TestEncryptedItems(t *testing.T) {
	locked, err := serde.NewEncrypted(serde.Default(), serde.EncryptedOptions{Key: make([]byte, 32)})
	if err != nil {
		t.Fatal(err)
	}
	open := func(dir string, codec serde.Serializer) *store.Local {
		d, err := disk.Open(dir, disk.Options{Sync: disk.SyncNever})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { d.Close() })
		s, err := store.On(d, store.Options{Serializer: codec})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	from, to := t.TempDir(), t.TempDir()
	d, err := disk.Open(from, disk.Options{Sync: disk.SyncNever})
	if err != nil {
		t.Fatal(err)
	}
	src, err := store.On(d, store.Options{Serializer: locked})
	if err != nil {
		t.Fatal(err)
	}
	if err := src.Put(t.Context(), below("users"), "ada", map[string]any{"likes": "soup"}); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	path := tempFile(t)
	pass := transfer.PassEncrypted(serde.Default())
	if rep, err := transfer.WriteFile(t.Context(), transfer.FromSaver(newMemory()), path, transfer.Options{Items: transfer.FromStore(open(from, pass))}); err != nil || rep.Items != 1 {
		t.Fatalf("%+v, %v", rep, err)
	}
	if text, err := os.ReadFile(path); err != nil || strings.Contains(string(text), "soup") {
		t.Errorf("%s, %v", text, err)
	}
	file := transfer.FromNDJSON(func() (io.ReadCloser, error) { return os.Open(path) })
	dst, err := disk.Open(to, disk.Options{Sync: disk.SyncNever})
	if err != nil {
		t.Fatal(err)
	}
	defer dst.Close()
	blind, err := store.On(dst, store.Options{Serializer: pass})
	if err != nil {
		t.Fatal(err)
	}
	if rep, err := transfer.CopyItems(t.Context(), file, blind, nil, transfer.Options{}); err != nil || rep.Verified != 1 {
		t.Fatalf("%+v, %v", rep, err)
	}
	reader, err := store.On(dst, store.Options{Serializer: locked})
	if err != nil {
		t.Fatal(err)
	}
	if it, err := reader.Get(t.Context(), below("users"), "ada"); err != nil || it.Value["likes"] != "soup" {
		t.Errorf("%v, %v", it, err)
	}
}
