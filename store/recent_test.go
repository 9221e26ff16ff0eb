package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/saver/serde"
	"github.com/stele-go/stele/store"
)

// TestReadAgain: an item that is read again is as it is stored, whatever readers did with what they got,
// and whoever has changed it: also by another store on the saver. Nobody shares a value with others.
func TestReadAgain(t *testing.T) {
	ctx := t.Context()
	d, err := disk.Open(t.TempDir(), disk.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}()
	var both [2]*store.Local
	for i := range both {
		if both[i], err = store.On(d, store.Options{}); err != nil {
			t.Fatal(err)
		}
	}
	a, b := both[0], both[1]
	ns := store.Namespace{"n"}
	check := func(want map[string]any) {
		t.Helper()
		for range 3 {
			for _, s := range both {
				it, err := s.Get(ctx, ns, "k")
				if want == nil && errors.Is(err, store.ErrNotFound) {
					continue
				}
				if err != nil || fmt.Sprint(it.Value) != fmt.Sprint(want) {
					t.Fatalf("%v, %v; want %v", it, err, want)
				}
				it.Value["x"] = "changed"
				if list, ok := it.Value["list"].([]any); ok {
					list[0] = "changed"
				}
				if b, ok := it.Value["bytes"].([]byte); ok {
					b[0]++
				}
			}
		}
	}
	put := func(s *store.Local, v map[string]any) {
		t.Helper()
		if err := s.Put(ctx, ns, "k", v); err != nil {
			t.Fatal(err)
		}
		check(v)
	}
	check(nil)
	put(a, map[string]any{"x": "1"})
	put(b, map[string]any{"x": "2", "y": ""})
	put(a, map[string]any{"x": "1", "list": []any{"a"}})
	put(b, map[string]any{})
	put(a, map[string]any{"x": "1", "bytes": []byte{1}})
	put(a, map[string]any{"long": string(bytes.Repeat([]byte{'x'}, 5000))})
	if err := b.Delete(ctx, ns, "k"); err != nil {
		t.Fatal(err)
	}
	check(nil)
	put(b, map[string]any{"x": "1"})
	for i := range 3000 { // more than are kept
		if err := a.Put(ctx, ns, fmt.Sprint(i), map[string]any{"i": fmt.Sprint(i)}); err != nil {
			t.Fatal(err)
		}
		if it, err := a.Get(ctx, ns, fmt.Sprint(i)); err != nil || it.Value["i"] != fmt.Sprint(i) {
			t.Fatal(it, err)
		}
	}
	check(map[string]any{"x": "1"})
}

// counting counts what it decodes.
type counting struct {
	serde.Serializer
	decoded int
}

func (c *counting) Decode(t serde.Typed) (any, error) {
	c.decoded++
	return c.Serializer.Decode(t)
}

// TestNothingSealedIsKept: a small item is decoded once, and an encrypted one whenever it is read.
func TestNothingSealedIsKept(t *testing.T) {
	ctx := t.Context()
	d, err := disk.Open(t.TempDir(), disk.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}()
	sealed, err := serde.NewEncrypted(nil, serde.EncryptedOptions{Key: make([]byte, 32)})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]*counting{"plain": {Serializer: serde.Default()}, "sealed": {Serializer: sealed}} {
		s, err := store.On(d, store.Options{Serializer: c})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Put(ctx, store.Namespace{name}, "k", map[string]any{"x": "1"}); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if it, err := s.Get(ctx, store.Namespace{name}, "k"); err != nil || it.Value["x"] != "1" {
				t.Fatal(it, err)
			}
		}
		if want := map[string]int{"plain": 1, "sealed": 3}[name]; c.decoded != want {
			t.Errorf("%s: decoded %d times, want %d", name, c.decoded, want)
		}
	}
}
