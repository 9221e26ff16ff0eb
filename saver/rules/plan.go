package rules

import (
	"fmt"
	"maps"
	"slices"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/serde"
)

// PutPlan is a validated and serialized PutRequest. A saver makes it before it takes a lock,
// so that every saver refuses the same calls with the same errors before a byte is
// written.
type PutPlan struct {
	// Target is the fresh triple that names the new checkpoint.
	Target saver.Config
	// ExpectHead is the condition of the request, or nil.
	ExpectHead *string
	// Epoch is the fencing token of the request, or 0.
	Epoch int64
	// Run is the run id in the metadata that is stored, "" for none.
	Run string
	// Record is the checkpoint without the bytes of its values. It shares no
	// memory with the request, unless the checkpoint is Immutable.
	Record Record
	// Values are the bytes of the channels that Record.Stored names, in that order. Bytes
	// that the caller gave as ValueTyped are shared with it, and not to be changed.
	Values []serde.Typed
	// Writes are stored with the checkpoint, in order. Each names the checkpoint that
	// it belongs to.
	Writes []WritesPlan

	// Encoded is the number of values that were serialized, including metadata.
	Encoded int

	withRoom [][]byte // see WithRoom; nil if there are none
}

// WithRoom is the i-th of Values as a slice that has Encoding.Room free bytes before the data: a saver that
// puts a prefix there need not copy the data. The slice is the saver's. It is nil if the serializer left no
// room.
func (p *PutPlan) WithRoom(i int) []byte {
	if p.withRoom == nil {
		return nil
	}
	return p.withRoom[i]
}

// Encoding says how a plan is made.
type Encoding struct {
	// Codec serializes; nil is the default serializer.
	Codec serde.Serializer
	// Room is how many bytes to leave free before each channel's value, if Codec can do
	// that. A saver that stores the kind before the data then needs no copy.
	Room int
	// Borrow uses the maps of the request's checkpoint, and the note, in the record. The saver
	// must not use them after its Put returns.
	Borrow bool
}

// Record is a checkpoint as savers store it: everything that Put was given except the bytes
// of the values. It does not say which value an unchanged channel reads; that is resolved
// when the record is applied, in commit order.
type Record struct {
	// Checkpoint has no Values. Its other maps are not nil.
	Checkpoint saver.Checkpoint
	// Metadata is the merged metadata, serialized by saver.Metadata.Encode.
	Metadata serde.Typed
	// Parent is the id of the parent checkpoint; "" if there is none.
	Parent string
	// ValuesFrom is the id of the checkpoint from which unchanged channels take their
	// values; "" means the parent.
	ValuesFrom string
	// Stored names the channels that were given a value, ascending.
	Stored []string
	// Emptied names the channels that got a new version and no value, ascending.
	Emptied []string
	// Note is the note of the engine, or nil. It is not changed.
	Note *saver.Note
}

// Source is the id of the checkpoint from which unchanged channels take their values, if
// their versions agree; "" if there is none.
func (r *Record) Source() string {
	if r.ValuesFrom != "" {
		return r.ValuesFrom
	}
	return r.Parent
}

// strip returns cp in the form of a Record: without values, and without nil maps. The maps are copies,
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
	Encoded      int           // how many of them were serialized
}

// Make validates and serializes req. Its errors are those of Put: InvalidError,
// ErrTooLarge, and the serializer's *EncodeError, wrapped with the channel or metadata
// it is about. p must be zero, and is of no use after an error.
func (p *PutPlan) Make(req *saver.PutRequest, enc Encoding) error {
	if err := req.Validate(); err != nil {
		return err
	}
	cfg, cp, codec := &req.Config, &req.Checkpoint, enc.Codec
	p.Target, p.Epoch = cfg.At(cp.ID), cfg.Epoch
	if cfg.ExpectHead != nil { // the caller's variable, and the plan may outlive the call
		expected := *cfg.ExpectHead
		p.ExpectHead = &expected
	}
	p.Record.Checkpoint, p.Record.Parent, p.Record.Note = enc.strip(*cp), cfg.CheckpointID, req.Note
	if !enc.Borrow {
		p.Record.Note = req.Note.Clone()
	}
	if req.ValuesFrom != nil {
		p.Record.ValuesFrom = req.ValuesFrom.CheckpointID
	}
	merged := req.Metadata.Merge(*cfg)
	md, err := merged.Encode(codec)
	if err != nil {
		return err
	}
	p.Record.Metadata, p.Run, p.Encoded = md, merged.RunID(), 1
	size := len(md.Data)
	names := slices.AppendSeq(make([]string, 0, len(req.NewVersions)), maps.Keys(req.NewVersions))
	slices.Sort(names)
	p.Record.Stored = names[:0] // in place: it never gets longer than the part that was read
	p.Values = make([]serde.Typed, 0, len(names))
	for _, channel := range names {
		v, ok := cp.Values[channel]
		if !ok || v.IsZero() {
			p.Record.Emptied = append(p.Record.Emptied, channel)
			continue
		}
		typed, whole, err := enc.value(v, &size)
		if err != nil {
			return fmt.Errorf("channel %q: %w", channel, err)
		}
		if v.IsNative() {
			p.Encoded++
		}
		p.Record.Stored = append(p.Record.Stored, channel)
		p.Values = append(p.Values, typed)
		if whole != nil && p.withRoom == nil {
			p.withRoom = make([][]byte, len(names))
		}
		if whole != nil {
			p.withRoom[len(p.Values)-1] = whole
		}
	}
	for i, tw := range req.Writes {
		wp := WritesPlan{CheckpointID: tw.CheckpointID, TaskID: tw.TaskID, TaskPath: tw.TaskPath}
		if wp.CheckpointID == "" {
			wp.CheckpointID = cp.ID
		}
		if err := wp.encode(tw.Writes, codec, &size); err != nil {
			return fmt.Errorf("writes of task %d: %w", i, err)
		}
		p.Encoded += wp.Encoded
		p.Writes = append(p.Writes, wp)
	}
	return nil
}

// NewWritesPlan validates and serializes the arguments of PutWrites.
func NewWritesPlan(cfg saver.Config, writes []saver.Write, taskID, taskPath string, codec serde.Serializer) (WritesPlan, error) {
	if err := (saver.TaskWrites{TaskID: taskID, TaskPath: taskPath, Writes: writes}).Validate(cfg); err != nil {
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
func (p *WritesPlan) Index(i int) int { return saver.WriteIndex(p.Channels[i], i) }

// encodeValue serializes v and adds its length to size, the number of bytes that one call
// stores.
func encodeValue(v saver.Value, codec serde.Serializer, size *int) (serde.Typed, error) {
	typed, err := v.Encode(codec)
	if err != nil {
		return serde.Typed{}, err
	}
	return typed, checkTyped(typed, size)
}

// value is encodeValue for a channel. It leaves room before the data if it can.
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
		return saver.Invalidf("value", "typed bytes without a kind")
	}
	if len(typed.Kind) > saver.MaxName {
		return fmt.Errorf("kind has %d bytes, the limit is %d: %w", len(typed.Kind), saver.MaxName, saver.ErrTooLarge)
	}
	if len(typed.Data) > base.MaxValue {
		return fmt.Errorf("value has %d bytes, the limit is %d: %w", len(typed.Data), base.MaxValue, saver.ErrTooLarge)
	}
	if *size += len(typed.Data); *size > base.MaxCall {
		return fmt.Errorf("the call has more than %d bytes of values: %w", base.MaxCall, saver.ErrTooLarge)
	}
	return nil
}

// PendingWrites are the writes of one checkpoint as a Tuple has them, never nil. calls are those
// that wrote against it, in commit order. The values share the bytes of calls, and codec decodes
// them.
func PendingWrites(calls []WritesPlan, codec serde.Serializer) []saver.PendingWrite {
	writes := []saver.PendingWrite{}
	for i := range calls {
		c := &calls[i]
		for j, channel := range c.Channels {
			writes = append(writes, saver.PendingWrite{
				TaskID: c.TaskID, TaskPath: c.TaskPath, Channel: channel, Index: c.Index(j),
				Value: saver.ValueShared(c.Values[j], codec),
			})
		}
	}
	return saver.ResolveWrites(writes)
}

// OnChannel reports whether one of the writes of a checkpoint, given in commit order, is on
// the channel when repeated ones are dropped. It may reuse the memory of writes.
func OnChannel(writes []saver.PendingWrite, channel string) bool {
	on := func(w saver.PendingWrite) bool { return w.Channel == channel }
	return slices.ContainsFunc(writes, on) && slices.ContainsFunc(saver.ResolveWrites(writes), on)
}
