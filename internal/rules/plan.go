package rules

import (
	"fmt"
	"maps"
	"slices"

	"github.com/stele-go/stele/internal/base"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/serde"
)

// PutPlan is a PutRequest that was validated and serialized: what a saver does
// before it takes a lock, so that every saver refuses the same calls with the
// same errors before a byte is written. It is for implementations of Saver.
type PutPlan struct {
	// Target is the fresh triple that names the new checkpoint.
	Target saver.Config
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

	// Encoded is how many values the serializer was given, metadata included.
	Encoded int

	// Roomy are the Values with Encoding.Room bytes in front of their data that are the
	// saver's; nil where the serializer left no room. Empty without Room.
	Roomy [][]byte
}

// Encoding is how a plan is made.
type Encoding struct {
	// Codec serializes; nil is the default serializer.
	Codec serde.Serializer
	// Room is how many bytes to leave in front of each channel's value, where Codec can:
	// a saver that stores a kind before the data needs no copy then.
	Room int
	// Borrow leaves the maps of the request's checkpoint in the record. The saver must be
	// done with them when its Put returns.
	Borrow bool
}

// Record is a checkpoint as savers store it: everything Put was asked for but
// the bytes of the values. Which value an unchanged channel reads is not part of
// it; that is resolved when the record is applied, in commit order.
type Record struct {
	// Checkpoint has no Values. Its other maps are not nil.
	Checkpoint saver.Checkpoint
	// Metadata is the merged metadata, serialized by EncodeMetadata.
	Metadata serde.Typed
	// Parent is the id of the checkpoint this one was put upon; "" if none.
	Parent string
	// ValuesFrom is the id of the checkpoint unchanged channels take their
	// values from; "" means the parent.
	ValuesFrom string
	// Stored names the channels a value was given for, ascending.
	Stored []string
	// Emptied names the channels that got a new version and no value, ascending.
	Emptied []string
	// Note is the engine's, or nil. Nobody changes it.
	Note *saver.Note
}

// Source is the id of the checkpoint unchanged channels take their values from,
// if their versions agree; "" if there is none.
func (r *Record) Source() string {
	if r.ValuesFrom != "" {
		return r.ValuesFrom
	}
	return r.Parent
}

// strip makes of cp what a Record holds: no values, and no nil maps. The maps are copies,
// unless they are borrowed or immutable.
func (e Encoding) strip(cp saver.Checkpoint) saver.Checkpoint {
	shared := cp.Immutable
	cp.Values, cp.Immutable = nil, false
	if e.Borrow {
		if cp.Seen == nil {
			cp.Seen = map[string]map[string]saver.Version{}
		}
		return cp
	}
	for _, versions := range cp.Seen {
		shared = shared && versions != nil
	}
	if shared && cp.Versions != nil && cp.Seen != nil {
		return cp
	}
	cp = cp.Clone()
	if cp.Versions == nil {
		cp.Versions = map[string]saver.Version{}
	}
	if cp.Seen == nil {
		cp.Seen = map[string]map[string]saver.Version{}
	}
	for node, versions := range cp.Seen {
		if versions == nil {
			cp.Seen[node] = map[string]saver.Version{}
		}
	}
	return cp
}

// WritesPlan is a PutWrites that was validated and serialized.
type WritesPlan struct {
	CheckpointID string
	TaskID       string
	TaskPath     string
	Channels     []string      // what each write is for, in the order of the task
	Values       []serde.Typed // one for each channel
	Encoded      int           // how many of them the serializer was given
}

// NewPutPlan validates and serializes req. Its errors are those of Put: InvalidError,
// ErrTooLarge, and the serializer's *EncodeError, wrapped with the channel or metadata
// it is about.
func NewPutPlan(req saver.PutRequest, enc Encoding) (PutPlan, error) {
	cfg, cp, codec := req.Config, req.Checkpoint, enc.Codec
	if err := ValidateRequest(req); err != nil {
		return PutPlan{}, err
	}
	plan := PutPlan{
		Target:     cfg.At(cp.ID),
		ExpectHead: cfg.ExpectHead,
		Record:     Record{Checkpoint: enc.strip(cp), Parent: cfg.CheckpointID, Note: req.Note.Clone()},
	}
	if req.ValuesFrom != nil {
		plan.Record.ValuesFrom = req.ValuesFrom.CheckpointID
	}
	md, err := EncodeMetadata(MergeMetadata(cfg, req.Metadata), codec)
	if err != nil {
		return PutPlan{}, err
	}
	plan.Record.Metadata, plan.Encoded = md, 1
	size := len(md.Data)
	names := slices.AppendSeq(make([]string, 0, len(req.NewVersions)), maps.Keys(req.NewVersions))
	slices.Sort(names)
	plan.Record.Stored = names[:0] // never beyond what was read
	plan.Values = make([]serde.Typed, 0, len(names))
	if enc.Room > 0 {
		plan.Roomy = make([][]byte, 0, len(names))
	}
	for _, channel := range names {
		v, ok := cp.Values[channel]
		if !ok || v.IsZero() {
			plan.Record.Emptied = append(plan.Record.Emptied, channel)
			continue
		}
		typed, whole, err := enc.value(v, &size)
		if err != nil {
			return PutPlan{}, fmt.Errorf("channel %q: %w", channel, err)
		}
		if v.IsNative() {
			plan.Encoded++
		}
		plan.Record.Stored = append(plan.Record.Stored, channel)
		plan.Values = append(plan.Values, typed)
		if enc.Room > 0 {
			plan.Roomy = append(plan.Roomy, whole)
		}
	}
	for i, tw := range req.Writes {
		wp := WritesPlan{CheckpointID: tw.CheckpointID, TaskID: tw.TaskID, TaskPath: tw.TaskPath}
		if wp.CheckpointID == "" {
			wp.CheckpointID = cp.ID
		}
		if err := wp.encode(tw.Writes, codec, &size); err != nil {
			return PutPlan{}, fmt.Errorf("writes of task %d: %w", i, err)
		}
		plan.Encoded += wp.Encoded
		plan.Writes = append(plan.Writes, wp)
	}
	return plan, nil
}

// NewWritesPlan validates and serializes the arguments of PutWrites.
func NewWritesPlan(cfg saver.Config, writes []saver.Write, taskID, taskPath string, codec serde.Serializer) (WritesPlan, error) {
	if err := ValidateWrites(cfg, writes, taskID, taskPath); err != nil {
		return WritesPlan{}, err
	}
	plan := WritesPlan{CheckpointID: cfg.CheckpointID, TaskID: taskID, TaskPath: taskPath}
	size := 0
	err := plan.encode(writes, codec, &size)
	return plan, err
}

func (p *WritesPlan) encode(writes []saver.Write, codec serde.Serializer, size *int) error {
	p.Channels = make([]string, len(writes))
	p.Values = make([]serde.Typed, len(writes))
	for i, w := range writes {
		typed, err := encodeValue(w.Value, codec, size)
		if err != nil {
			return fmt.Errorf("write %d on channel %q: %w", i, w.Channel, err)
		}
		if w.Value.IsNative() {
			p.Encoded++
		}
		p.Channels[i], p.Values[i] = w.Channel, typed
	}
	return nil
}

// Index is the index under which the i-th write of the plan is stored.
func (p *WritesPlan) Index(i int) int { return WriteIndex(p.Channels[i], i) }

// encodeValue serializes v and adds its bytes to size, which is what one call
// asks the saver to store.
func encodeValue(v saver.Value, codec serde.Serializer, size *int) (serde.Typed, error) {
	typed, err := v.Encode(codec)
	if err != nil {
		return serde.Typed{}, err
	}
	return typed, checkTyped(typed, size)
}

// value is encodeValue for a channel, with room in front if that is wanted and can be had.
func (e Encoding) value(v saver.Value, size *int) (serde.Typed, []byte, error) {
	codec, ok := e.Codec.(*serde.Codec)
	if !ok || e.Room == 0 || !v.IsNative() {
		typed, err := encodeValue(v, e.Codec, size)
		return typed, nil, err
	}
	native, err := v.Any()
	if err != nil {
		return serde.Typed{}, nil, err
	}
	typed, whole, err := codec.EncodeAfter(e.Room, native)
	if err != nil {
		return serde.Typed{}, nil, err
	}
	return typed, whole, checkTyped(typed, size)
}

func checkTyped(typed serde.Typed, size *int) error {
	if typed.Kind == "" {
		return Invalidf("value", "typed bytes without a kind")
	}
	if err := checkKeyLen("kind", typed.Kind); err != nil {
		return err
	}
	if len(typed.Data) > base.MaxValue {
		return fmt.Errorf("value has %d bytes, the limit is %d: %w", len(typed.Data), base.MaxValue, saver.ErrTooLarge)
	}
	if *size += len(typed.Data); *size > base.MaxCall {
		return fmt.Errorf("the call has more than %d bytes of values: %w", base.MaxCall, saver.ErrTooLarge)
	}
	return nil
}
