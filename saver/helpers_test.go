package saver

import (
	"context"
	"testing"
)

// mustPut stores a checkpoint with one channel.
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
