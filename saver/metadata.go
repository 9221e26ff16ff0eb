package saver

import (
	"maps"
	"strings"
)

// excludedMetadataKeys never become metadata of a checkpoint: they are where it
// is stored, or bookkeeping of the engine.
var excludedMetadataKeys = map[string]bool{
	"thread_id": true, "checkpoint_id": true, "checkpoint_ns": true, "checkpoint_map": true,
	"langgraph_step": true, "langgraph_node": true, "langgraph_triggers": true,
	"langgraph_path": true, "langgraph_checkpoint_ns": true,
}

// ExcludedMetadata reports whether key never becomes metadata of a checkpoint and
// is not shown as metadata of a task: thread_id, checkpoint_ns, langgraph_step and
// their like.
func ExcludedMetadata(key string) bool { return excludedMetadataKeys[key] }

// MergeMetadata is the metadata every saver stores: md, with U+0000 removed from
// its top-level strings, then each scalar (string, integer, float, bool) of
// cfg.Metadata and then cfg.Configurable whose key is not taken, not a storage
// key, and does not begin with two underscores. That is how a run's user_id
// becomes filterable. md is not changed.
func MergeMetadata(cfg Config, md Metadata) Metadata {
	if alone(cfg, md) {
		return maps.Clone(md)
	}
	return mergeMetadata(cfg, md)
}

// alone reports whether merging would leave md as it is.
func alone(cfg Config, md Metadata) bool {
	for _, v := range md {
		if s, ok := v.(string); ok && strings.IndexByte(s, 0) >= 0 {
			return false
		}
	}
	return len(cfg.Metadata) == 0 && len(cfg.Configurable) == 0 && md != nil
}

// mergeMetadata is MergeMetadata, which may return md itself.
func mergeMetadata(cfg Config, md Metadata) Metadata {
	if alone(cfg, md) {
		return md
	}
	out := make(Metadata, len(md)+len(cfg.Metadata)+len(cfg.Configurable))
	for k, v := range md {
		if s, ok := v.(string); ok {
			v = stripNUL(s)
		}
		out[k] = v
	}
	for _, from := range []map[string]any{cfg.Metadata, cfg.Configurable} {
		for k, v := range from {
			if _, taken := out[k]; taken || excludedMetadataKeys[k] || strings.HasPrefix(k, "__") {
				continue
			}
			switch x := v.(type) {
			case string:
				out[k] = stripNUL(x)
			case bool, int, int8, int16, int32, int64, uint, uint8, uint16, uint32, uint64, float32, float64:
				out[k] = x
			}
		}
	}
	return out
}

func stripNUL(s string) string {
	if strings.IndexByte(s, 0) < 0 {
		return s
	}
	return strings.ReplaceAll(s, "\x00", "")
}

// Source is the metadata's source: "input", "loop", "update" or "fork"; "" if
// absent.
func (md Metadata) Source() string {
	s, _ := md["source"].(string)
	return s
}

// Step is the metadata's step: −1 for the first input, 0 for the first
// superstep. ok is false if it is absent or not an integer.
func (md Metadata) Step() (step int, ok bool) {
	n, ok := asInt(md["step"])
	return int(n), ok
}

// RunID is the id of the run that stored the checkpoint; "" if unknown.
func (md Metadata) RunID() string {
	s, _ := md["run_id"].(string)
	return s
}

func asInt(v any) (int64, bool) {
	switch x := v.(type) {
	case int:
		return int64(x), true
	case int64:
		return x, true
	case int32:
		return int64(x), true
	}
	return 0, false
}
