package saver

import (
	"context"
	"errors"
	"fmt"
	"testing"
)

func mustPut(t *testing.T, s Saver, thread, id, parent string, v any) Config {
	t.Helper()
	ver := StringVersion("v" + id)
	cfg, err := s.Put(context.Background(), Config{ThreadID: thread, CheckpointID: parent},
		Checkpoint{V: 4, ID: id, TS: "2026-01-01T00:00:00+00:00", Values: map[string]Value{"c": ValueOf(v)}, Versions: map[string]Version{"c": ver}},
		Metadata{"source": "loop", "step": 1}, map[string]Version{"c": ver})
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func TestDiskSmoke(t *testing.T) {
	dir := t.TempDir()
	ctx := context.Background()
	for life := range 5 {
		s, err := Open(dir, Options{ManualWork: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("life %d: %+v %+v", life, s.OpenReport(), s.Stats())
		for i := range 50 {
			parent := ""
			if tup, err := s.GetTuple(ctx, Config{ThreadID: "t"}); err == nil {
				parent = tup.Config.CheckpointID
			} else if !errors.Is(err, ErrNotFound) {
				t.Fatal(err)
			}
			cfg := mustPut(t, s, "t", fmt.Sprintf("%d-%04d", life, i), parent, fmt.Sprint("value ", life, " ", i))
			if err := s.PutWrites(ctx, cfg, []Write{{"c", ValueOf(i)}}, "task", ""); err != nil {
				t.Fatal(err)
			}
			if i == 20 && life > 1 {
				if err := s.Flush(ctx); err != nil {
					t.Fatal(err)
				}
			}
			if i == 40 && life > 2 {
				if err := s.Compact(ctx); err != nil {
					t.Fatal(err)
				}
			}
		}
		n := 0
		for tup, err := range s.List(ctx, Query{ThreadID: "t"}) {
			if err != nil {
				t.Fatal(err)
			}
			var v string
			if err := tup.Checkpoint.Values["c"].Decode(&v); err != nil {
				t.Fatal(err)
			}
			n++
		}
		if n != 50*(life+1) {
			t.Fatalf("life %d: %d checkpoints", life, n)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
