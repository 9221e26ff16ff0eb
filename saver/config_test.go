package saver

import (
	"errors"
	"reflect"
	"slices"
	"testing"
)

func TestConfigFromMap(t *testing.T) {
	cfg, err := ConfigFromMap(map[string]any{"thread_id": uint64(7), "checkpoint_ns": "n", "checkpoint_id": nil, "user": "u"})
	if err != nil || cfg.ThreadID != "7" || cfg.Namespace != "n" || cfg.CheckpointID != "" || cfg.Configurable["user"] != "u" {
		t.Errorf("got %+v, %v", cfg, err)
	}
	if got, want := cfg.At("c1").ToMap(), (map[string]any{"thread_id": "7", "checkpoint_ns": "n", "checkpoint_id": "c1"}); !reflect.DeepEqual(got, want) {
		t.Errorf("to map: %v", got)
	}
	type userID string
	for _, id := range []any{int8(7), uint(7), int64(7), "7", userID("7")} {
		if cfg, err := ConfigFromMap(map[string]any{"thread_id": id}); err != nil || cfg.ThreadID != "7" {
			t.Errorf("thread id %T: %+v, %v", id, cfg, err)
		}
	}
	for _, bad := range []map[string]any{{}, {"thread_id": ""}, {"thread_id": nil}, {"thread_id": 1.5}, {"thread_id": "t", "checkpoint_ns": 1}, {"thread_id": "t", "checkpoint_id": []any{}}} {
		if _, err := ConfigFromMap(bad); !errors.Is(err, ErrInvalid) {
			t.Errorf("%v: %v", bad, err)
		}
	}
}

func TestCompareListing(t *testing.T) {
	want := []Config{
		{ThreadID: "b", CheckpointID: "c3"}, {ThreadID: "a", CheckpointID: "c2"}, {ThreadID: "a", Namespace: "n", CheckpointID: "c2"},
		{ThreadID: "b", CheckpointID: "c2"}, {ThreadID: "a", CheckpointID: "c1"},
	}
	got := []Config{want[3], want[1], want[4], want[0], want[2]}
	slices.SortFunc(got, Config.CompareListing)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v", got)
	}
}
