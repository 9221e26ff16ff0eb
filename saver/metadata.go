package saver

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/saver/serde"
)

// excludedMetadataKeys never become metadata of a checkpoint. They say where it is stored,
// or are bookkeeping of the engine.
var excludedMetadataKeys = map[string]bool{
	"thread_id": true, "checkpoint_id": true, "checkpoint_ns": true, "checkpoint_map": true,
	"langgraph_step": true, "langgraph_node": true, "langgraph_triggers": true,
	"langgraph_path": true, "langgraph_checkpoint_ns": true,
}

// ExcludedMetadata reports whether key never becomes metadata of a checkpoint and
// is not shown as metadata of a task: thread_id, checkpoint_ns, langgraph_step and
// their like.
func ExcludedMetadata(key string) bool { return excludedMetadataKeys[key] }

// needsNoMerge reports whether Metadata.Merge would change nothing in md.
func needsNoMerge(cfg Config, md Metadata) bool {
	for _, v := range md {
		if s, ok := v.(string); ok && strings.IndexByte(s, 0) >= 0 {
			return false
		}
	}
	return len(cfg.Metadata) == 0 && len(cfg.Configurable) == 0 && md != nil
}

// Merge is the metadata that every saver stores: md with U+0000 removed from its
// top-level strings, and the scalars (string, integer, float, bool) of cfg.Metadata and
// then of cfg.Configurable. It leaves out keys that are taken, that are excluded (see
// ExcludedMetadata), or that begin with two underscores. So a filter can find a run's
// user_id. md is not changed. If there is nothing to merge, md itself is returned.
func (md Metadata) Merge(cfg Config) Metadata {
	if needsNoMerge(cfg, md) {
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

// MetadataCodec is codec (nil: the default serializer) with the default decode limit. Every
// listing decodes metadata, so metadata that was stored must be readable whatever the limit
// for values is.
func MetadataCodec(codec serde.Serializer) serde.Serializer {
	if codec == nil {
		return serde.Default()
	}
	if limited, ok := serde.WithDecodeLimit(codec, serde.DefaultDecodeLimit); ok {
		return limited
	}
	return codec
}

// Encode serializes merged metadata. If DecodeMetadata would need more memory than
// serde.DefaultDecodeLimit, it returns serde.ErrDecodeLimit.
func (md Metadata) Encode(codec serde.Serializer) (serde.Typed, error) {
	typed, err := MetadataCodec(codec).Encode(map[string]any(md))
	if err != nil {
		return serde.Typed{}, fmt.Errorf("metadata: %w", err)
	}
	if len(typed.Data) > base.MaxValue {
		return serde.Typed{}, fmt.Errorf("metadata has %d bytes, the limit is %d: %w", len(typed.Data), base.MaxValue, ErrTooLarge)
	}
	return typed, nil
}

// Check returns the error that Encode would return. It does not serialize values that a Codec surely
// stores.
func (md Metadata) Check(codec serde.Serializer) error {
	if isCodec(codec) && isSmall(md) {
		return nil
	}
	_, err := md.Encode(codec)
	return err
}

// isCodec reports whether codec (nil: the default serializer) serializes as a Codec does.
func isCodec(codec serde.Serializer) bool {
	if codec == nil {
		return true
	}
	_, ok := serde.GrowerOf(codec)
	return ok
}

// smallMetadata is the size up to which isSmall says yes, far below every limit.
const smallMetadata = 16 << 10

// isSmall reports whether md is but scalars, which every Codec serializes, of few bytes.
func isSmall(md Metadata) bool {
	size := 16 * len(md)
	for k, v := range md {
		if size += len(k); !utf8.ValidString(k) {
			return false
		}
		switch v := v.(type) {
		case string:
			size += len(v)
		case bool, int, int8, int16, int32, int64, uint, uint8, uint16, uint32, uint64, float32, float64:
		default:
			return false
		}
	}
	return size <= smallMetadata
}

// DecodeMetadata is the inverse of Metadata.Encode. The caller owns the result. Bytes that
// are not metadata are ErrCorrupt.
func DecodeMetadata(typed serde.Typed, codec serde.Serializer) (Metadata, error) {
	return AsMetadata(MetadataCodec(codec).Decode(typed))
}

// MetadataError says that a serializer cannot read metadata that is stored. It is about a checkpoint,
// not about the store.
type MetadataError struct{ Err error }

// Error is "metadata: " and the error of the serializer.
func (e *MetadataError) Error() string { return fmt.Sprint("metadata: ", e.Err) }

// Unwrap is the error of the serializer.
func (e *MetadataError) Unwrap() error { return e.Err }

// AsMetadata is DecodeMetadata after a decoder returned v and err.
func AsMetadata(v any, err error) (Metadata, error) {
	if err != nil {
		return nil, &MetadataError{err}
	}
	md, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("metadata: want a map of strings, got %T: %w", v, ErrCorrupt)
	}
	return md, nil
}
