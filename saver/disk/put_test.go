package disk

import (
	"context"
	"testing"

	"github.com/stele-go/stele/saver"
)

// mustPut stores a checkpoint with one channel.
func mustPut(t *testing.T, s saver.Saver, thread, id, parent string, v any) saver.Config {
	t.Helper()
	ver := saver.StringVersion("v" + id)
	cfg, err := s.Put(context.Background(), saver.Config{ThreadID: thread, CheckpointID: parent},
		saver.Checkpoint{V: 4, ID: id, TS: "2026-01-01T00:00:00+00:00", Values: map[string]saver.Value{"c": saver.ValueOf(v)}, Versions: map[string]saver.Version{"c": ver}},
		saver.Metadata{"source": "loop", "step": 1}, map[string]saver.Version{"c": ver})
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}
