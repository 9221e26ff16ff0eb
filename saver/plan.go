package saver

import (
	"fmt"

	"github.com/stele-go/stele/internal/base"
	"github.com/stele-go/stele/serde"
)

// PutPlan is a PutRequest that was validated and serialized: what a saver does
// before it takes a lock, so that every saver refuses the same calls with the
// same errors before a byte is written. It is for implementations of Saver.
type PutPlan struct {
	// Target is the fresh triple that names the new checkpoint.
	Target Config
	// ExpectHead is the condition of the request, or nil.
	ExpectHead *string
	// Record is the checkpoint without the bytes of its values. It shares no
	// memory with the request, unless the checkpoint is Immutable.
	Record Record
	// Values are the bytes of the channels Record.Stored names, in that order.
	// Bytes given as ValueTyped are the caller's.
	Values []serde.Typed
	// Writes are stored with the checkpoint, in order; each names the checkpoint
	// it hangs on.
	Writes []WritesPlan

	// wholes are Values as the disk saver stores them, where the serializer left room
	// for their kind; nil where it did not.
	wholes [][]byte
}

// WritesPlan is a PutWrites that was validated and serialized.
type WritesPlan struct {
	CheckpointID string
	TaskID       string
	TaskPath     string
	Channels     []string      // what each write is for, in the order of the task
	Values       []serde.Typed // one for each channel
}

// NewPutPlan validates and serializes req with codec (nil: the default
// serializer). Its errors are those of Put: InvalidError, ErrTooLarge, and the
// serializer's *EncodeError, wrapped with the channel or metadata it is about.
func NewPutPlan(req PutRequest, codec serde.Serializer) (PutPlan, error) {
	return newPutPlan(req, codec, Checkpoint.stripped)
}

// newPutPlan is NewPutPlan with the checkpoint of its record as given by strip.
func newPutPlan(req PutRequest, codec serde.Serializer, strip func(Checkpoint) Checkpoint) (PutPlan, error) {
	cfg, cp := req.Config, req.Checkpoint
	if err := ValidateRequest(req); err != nil {
		return PutPlan{}, err
	}
	plan := PutPlan{
		Target:     cfg.At(cp.ID),
		ExpectHead: cfg.ExpectHead,
		Record:     Record{Checkpoint: strip(cp), Parent: cfg.CheckpointID, Note: req.Note.Clone()},
	}
	if req.ValuesFrom != nil {
		plan.Record.ValuesFrom = req.ValuesFrom.CheckpointID
	}
	md, err := EncodeMetadata(mergeMetadata(cfg, req.Metadata), codec)
	if err != nil {
		return PutPlan{}, err
	}
	plan.Record.Metadata = md
	size := len(md.Data)
	names := sortedNames(req.NewVersions)
	plan.Record.Stored = names[:0] // never beyond what was read
	plan.Values = make([]serde.Typed, 0, len(names))
	plan.wholes = make([][]byte, 0, len(names))
	for _, channel := range names {
		v, ok := cp.Values[channel]
		if !ok || v.IsZero() {
			plan.Record.Emptied = append(plan.Record.Emptied, channel)
			continue
		}
		typed, whole, err := encodeWhole(v, codec, &size)
		if err != nil {
			return PutPlan{}, fmt.Errorf("channel %q: %w", channel, err)
		}
		plan.Record.Stored = append(plan.Record.Stored, channel)
		plan.Values = append(plan.Values, typed)
		plan.wholes = append(plan.wholes, whole)
	}
	for i, tw := range req.Writes {
		wp := WritesPlan{CheckpointID: tw.CheckpointID, TaskID: tw.TaskID, TaskPath: tw.TaskPath}
		if wp.CheckpointID == "" {
			wp.CheckpointID = cp.ID
		}
		if err := wp.encode(tw.Writes, codec, &size); err != nil {
			return PutPlan{}, fmt.Errorf("writes of task %d: %w", i, err)
		}
		plan.Writes = append(plan.Writes, wp)
	}
	return plan, nil
}

// NewWritesPlan validates and serializes the arguments of PutWrites.
func NewWritesPlan(cfg Config, writes []Write, taskID, taskPath string, codec serde.Serializer) (WritesPlan, error) {
	if err := ValidateWrites(cfg, writes, taskID, taskPath); err != nil {
		return WritesPlan{}, err
	}
	plan := WritesPlan{CheckpointID: cfg.CheckpointID, TaskID: taskID, TaskPath: taskPath}
	size := 0
	return plan, plan.encode(writes, codec, &size)
}

func (p *WritesPlan) encode(writes []Write, codec serde.Serializer, size *int) error {
	p.Channels = make([]string, len(writes))
	p.Values = make([]serde.Typed, len(writes))
	for i, w := range writes {
		typed, err := encodeValue(w.Value, codec, size)
		if err != nil {
			return fmt.Errorf("write %d on channel %q: %w", i, w.Channel, err)
		}
		p.Channels[i], p.Values[i] = w.Channel, typed
	}
	return nil
}

// Index is the index under which the i-th write of the plan is stored.
func (p *WritesPlan) Index(i int) int { return WriteIndex(p.Channels[i], i) }

// encodeValue serializes v and adds its bytes to size, which is what one call
// asks the saver to store.
func encodeValue(v Value, codec serde.Serializer, size *int) (serde.Typed, error) {
	typed, err := v.Encode(codec)
	if err != nil {
		return serde.Typed{}, err
	}
	return typed, checkTyped(typed, size)
}

// encodeWhole is encodeValue, with room for the kind in front of the bytes of a Go
// value if the codec leaves it.
func encodeWhole(v Value, codec serde.Serializer, size *int) (serde.Typed, []byte, error) {
	roomy, ok := codec.(*laps)
	if !ok || !v.IsNative() {
		typed, err := encodeValue(v, codec, size)
		return typed, nil, err
	}
	typed, whole, err := roomy.encodeAfter(kindRoom, v.content)
	if err != nil {
		return serde.Typed{}, nil, err
	}
	if prefix := kindPrefix(typed.Kind); whole != nil && len(prefix) == kindRoom {
		copy(whole, prefix)
	} else {
		whole = nil
	}
	return typed, whole, checkTyped(typed, size)
}

func checkTyped(typed serde.Typed, size *int) error {
	if typed.Kind == "" {
		return invalidf("value", "typed bytes without a kind")
	}
	if err := checkKeyLen("kind", typed.Kind); err != nil {
		return err
	}
	if len(typed.Data) > base.MaxValue {
		return fmt.Errorf("value has %d bytes, the limit is %d: %w", len(typed.Data), base.MaxValue, ErrTooLarge)
	}
	if *size += len(typed.Data); *size > base.MaxCall {
		return fmt.Errorf("the call has more than %d bytes of values: %w", base.MaxCall, ErrTooLarge)
	}
	return nil
}

// metadataCodec is codec (nil: the default serializer) with the default limit for
// decoding: every listing decodes metadata, so what was once stored is read whatever
// the limit for values is.
func metadataCodec(codec serde.Serializer) serde.Serializer {
	if codec == nil {
		return serde.Default()
	}
	if limited, ok := serde.WithDecodeLimit(codec, serde.DefaultDecodeLimit); ok {
		return limited
	}
	return codec
}

// EncodeMetadata serializes merged metadata. What DecodeMetadata would not read for the
// memory it takes, of which the limit is always serde.DefaultDecodeLimit, is
// serde.ErrDecodeLimit.
func EncodeMetadata(md Metadata, codec serde.Serializer) (serde.Typed, error) {
	typed, err := metadataCodec(codec).Encode(map[string]any(md))
	if err != nil {
		return serde.Typed{}, fmt.Errorf("metadata: %w", err)
	}
	if len(typed.Data) > base.MaxValue {
		return serde.Typed{}, fmt.Errorf("metadata has %d bytes, the limit is %d: %w", len(typed.Data), base.MaxValue, ErrTooLarge)
	}
	return typed, nil
}

// DecodeMetadata is the inverse of EncodeMetadata. The result belongs to the
// caller. Bytes that are no metadata are ErrCorrupt.
func DecodeMetadata(typed serde.Typed, codec serde.Serializer) (Metadata, error) {
	return asMetadata(metadataCodec(codec).Decode(typed))
}

// asMetadata is what was decoded, as metadata.
func asMetadata(v any, err error) (Metadata, error) {
	if err != nil {
		return nil, fmt.Errorf("metadata: %w", err)
	}
	md, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("metadata is a %T, not a map of strings: %w", v, ErrCorrupt)
	}
	return md, nil
}
