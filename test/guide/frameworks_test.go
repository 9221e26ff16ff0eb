package guide

import (
	"context"
	"errors"
	"testing"

	"github.com/stele-go/stele/store"
)

type CheckPoints struct{ Items store.Store }

func (c CheckPoints) Get(ctx context.Context, id string) ([]byte, bool, error) {
	item, err := c.Items.Get(ctx, store.Namespace{"eino"}, id)
	if errors.Is(err, store.ErrNotFound) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	data, ok := item.Value["data"].([]byte)
	return data, ok, nil
}

func (c CheckPoints) Set(ctx context.Context, id string, data []byte) error {
	return c.Items.Put(ctx, store.Namespace{"eino"}, id, map[string]any{"data": data})
}

// TestCheckPoints: the store of the page does what eino asks of one. TestEino, in test/modules, runs it under eino.
func TestCheckPoints(t *testing.T) {
	items, err := store.NewMemory(store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer items.Close()
	c := CheckPoints{items}
	if data, ok, err := c.Get(t.Context(), "1"); data != nil || ok || err != nil {
		t.Error(data, ok, err)
	}
	for _, text := range []string{"a", "b\x00\xff", ""} {
		if err := c.Set(t.Context(), "1", []byte(text)); err != nil {
			t.Fatal(err)
		}
		if data, ok, err := c.Get(t.Context(), "1"); string(data) != text || !ok || err != nil {
			t.Error(data, ok, err)
		}
	}
}
