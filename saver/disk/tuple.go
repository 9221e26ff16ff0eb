package disk

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"weak"

	"github.com/stele-go/stele/engine"
	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/layout"
	"github.com/stele-go/stele/saver/rules"
	"github.com/stele-go/stele/saver/serde"
)

// packIndex writes the index of a write.
func packIndex(i int) string { return string(binary.AppendVarint(nil, int64(i))) }

func unpackIndex(s string) (int, error) {
	n, w := binary.Varint([]byte(s))
	if w != len(s) {
		return 0, layout.ErrRecord
	}
	return int(n), nil
}

// ErrLost is returned for a value that damage had destroyed when the store was
// salvaged. It comes with ErrCorrupt: a checkpoint that lost a channel must not pass
// for one that never had it.
var ErrLost = errors.New("the value was lost before the store was salvaged")

// storedRef is a value that is read when it is first used.
type storedRef struct {
	from *engine.Reader
	fam  *index.Family
	ref  index.Ref
}

// LoadValue implements Loader.
func (r *storedRef) LoadValue(ctx context.Context) (serde.Typed, error) {
	b, err := r.from.Read(ctx, r.fam, r.ref)
	if errors.Is(err, engine.ErrNoValue) {
		return serde.Typed{}, fmt.Errorf("%w: %w", saver.ErrNotFound, err)
	}
	if err != nil {
		return serde.Typed{}, err
	}
	return stored(b)
}

// stored is a value as a caller gets it.
func stored(b []byte) (serde.Typed, error) {
	t, err := layout.SplitTyped(b)
	if err == nil && t.Kind == layout.KindLost {
		return serde.Typed{}, fmt.Errorf("%w: %w: %s", ErrLost, saver.ErrCorrupt, t.Data)
	}
	return t, err
}

// onceRef is a storedRef whose bytes were read together with others. It hands them out once;
// later loads read the store again. Only a weak pointer leads to the bytes: they last until
// the garbage collector runs, so that a program that keeps tuples without reading their
// values does not keep the bytes.
type onceRef struct {
	storedRef
	all   weak.Pointer[readTogether]
	i     int32
	taken atomic.Bool
}

// readTogether has the values of one tuple that were read together.
type readTogether struct {
	bytes [][]byte // nil for one that was not
}

// take returns the bytes to the first who asks, whose they are then; nil to others, or
// if they are gone.
func (r *onceRef) take() []byte {
	if r.taken.Swap(true) {
		return nil
	}
	if all := r.all.Value(); all != nil {
		return all.bytes[r.i]
	}
	return nil
}

// LoadValue implements Loader.
func (r *onceRef) LoadValue(ctx context.Context) (serde.Typed, error) {
	if b := r.take(); b != nil {
		return stored(b)
	}
	return r.storedRef.LoadValue(ctx)
}

// tupleReader makes tuples out of the entries of one thread. Not safe for concurrent
// use; the values of its tuples are.
type tupleReader struct {
	s    *Saver
	t    *index.Partition
	from *engine.Reader // shared with the tuples, and with other threads of a listing
	alike
	refs    []storedRef // a batch of them, of which some are taken
	batch   int
	entries []*index.Entry // room for those of pending writes
	once    []onceRef      // values that were read together and are not in a tuple yet
}

// alike has the parts that the tuples of a listing share.
type alike struct {
	texts   *layout.VersionTexts
	decoder serde.SimilarDecoder // nil if the serializer has none
	similar *serde.Similar
}

func (s *Saver) alike() alike {
	a := alike{texts: layout.NewVersionTexts(), similar: new(serde.Similar)}
	a.decoder, _ = serde.SimilarDecoderOf(saver.MetadataCodec(s.codec))
	return a
}

// one is a tupleReader for a single tuple.
func (s *Saver) one(t *index.Partition) *tupleReader {
	return &tupleReader{s: s, t: t, from: s.e.LateReader(), alike: alike{texts: new(layout.VersionTexts)}}
}

// readTogether reads the values of a checkpoint and its pending writes with one read if they lie
// together and are not in memory; see engine.Store.ReadTogether. The tuple then has them, and reads
// nothing when they are used.
func (r *tupleReader) readTogether(ctx context.Context, it *index.Entry, keep bool) {
	ns, id, ok := layout.ParseCheckpointKey(it.Key)
	if !ok || it.Slots.Len() == 0 || !r.s.e.Together(r.t.Family, it.Slots.At(0).Ref) {
		return
	}
	refs := appendRefs(make([]index.Ref, 0, it.Slots.Len()), it, 0)
	for _, w := range r.writeEntries(ns, id) {
		refs = appendRefs(refs, w, 1)
	}
	read := &readTogether{r.s.e.ReadTogether(ctx, r.t.Family, refs, keep)}
	all := weak.Make(read)
	r.once = make([]onceRef, len(read.bytes))
	for i := range r.once {
		o := &r.once[i]
		o.storedRef, o.all, o.i = storedRef{r.from, r.t.Family, refs[i]}, all, int32(i)
	}
}

// appendRefs appends the refs of the slots of an entry, from the first-th on.
func appendRefs(refs []index.Ref, it *index.Entry, first int) []index.Ref {
	for i, r := range it.Slots.Refs() {
		if i >= first && !r.Empty() {
			refs = append(refs, r)
		}
	}
	return refs
}

// nextOnce returns the next of the values read together, if it is that of ref: they are used in the
// order in which they were read.
func (r *tupleReader) nextOnce(ref index.Ref) *onceRef {
	if len(r.once) == 0 || r.once[0].ref != ref {
		return nil
	}
	o := &r.once[0]
	r.once = r.once[1:]
	return o
}

// threadID is the id of the thread as the caller knows it.
func (r *tupleReader) threadID() string { return strings.TrimPrefix(r.t.ID, layout.SpaceThread) }

// lazy returns a value of the thread that is read when it is first used; zero if there is none.
func (r *tupleReader) lazy(ref index.Ref) saver.Value {
	if ref.Empty() {
		return saver.Value{}
	}
	if o := r.nextOnce(ref); o != nil {
		return saver.ValueLazy(o, r.s.codec)
	}
	if len(r.refs) == cap(r.refs) {
		r.refs = make([]storedRef, 0, max(r.batch, 1))
	}
	r.refs = append(r.refs, storedRef{r.from, r.t.Family, ref})
	return saver.ValueLazy(&r.refs[len(r.refs)-1], r.s.codec)
}

// record is the record of a checkpoint. Its bytes may be shared.
func (r *tupleReader) record(ctx context.Context, it *index.Entry) ([]byte, error) {
	if o := r.nextOnce(it.Slots.At(0).Ref); o != nil {
		if b := o.take(); b != nil {
			return b, nil
		}
	}
	return r.from.ReadShared(ctx, r.t.Family, it.Slots.At(0).Ref)
}

// expect makes room for n more values, so that they share memory.
func (r *tupleReader) expect(n int) {
	n -= len(r.once)
	if cap(r.refs)-len(r.refs) < n && r.batch < n {
		r.refs = make([]storedRef, 0, n)
	}
}

// header is a checkpoint without its values and writes.
type header struct {
	cfg    saver.Config
	rec    layout.CheckpointRecord
	md     saver.Metadata
	parent string
}

// header reads the record of a checkpoint, and none of its values.
func (r *tupleReader) header(ctx context.Context, it *index.Entry) (h header, err error) {
	ns, id, ok := layout.ParseCheckpointKey(it.Key)
	if !ok || it.Slots.Len() == 0 {
		return h, fmt.Errorf("checkpoint entry %q: %w", it.Key, saver.ErrCorrupt)
	}
	h = header{cfg: saver.Config{ThreadID: r.threadID(), Namespace: ns, CheckpointID: id}, parent: it.Slots.At(0).Name}
	b, err := r.record(ctx, it)
	if err != nil {
		return h, fmt.Errorf("thread %q checkpoint %q: %w", h.cfg.ThreadID, id, err)
	}
	if err := h.rec.Decode(b, r.texts); err != nil {
		return h, fmt.Errorf("thread %q checkpoint %q: %w", h.cfg.ThreadID, id, layout.AsCorrupt(err))
	}
	if h.md, err = r.metadata(h.rec.Metadata); err != nil {
		return h, fmt.Errorf("thread %q checkpoint %q: %w", h.cfg.ThreadID, id, err)
	}
	h.rec.Metadata = serde.Typed{} // whose bytes are shared
	return h, nil
}

func (r *tupleReader) metadata(t serde.Typed) (saver.Metadata, error) {
	if r.decoder == nil {
		return saver.DecodeMetadata(t, r.s.codec)
	}
	return saver.AsMetadata(r.decoder.DecodeSimilar(t, r.similar))
}

// read is the tuple of a checkpoint.
func (r *tupleReader) read(ctx context.Context, it *index.Entry) (*saver.Tuple, error) {
	h, err := r.header(ctx, it)
	if err != nil {
		return nil, err
	}
	return r.tuple(&h, it)
}

// tuple is the tuple of the checkpoint that h was read of. It reads no value.
func (r *tupleReader) tuple(h *header, it *index.Entry) (*saver.Tuple, error) {
	first := firstChannel(it.Flags)
	n := max(it.Slots.Len()-first, 0)
	made := &struct {
		saver.Tuple
		parent saver.Config
	}{}
	tup := &made.Tuple
	*tup = saver.Tuple{Config: h.cfg, Metadata: h.md, Note: h.rec.Note, Checkpoint: saver.Checkpoint{V: h.rec.V, ID: h.cfg.CheckpointID, TS: h.rec.Ts,
		Seen: h.rec.Seen, Updated: h.rec.Updated,
		Values: make(map[string]saver.Value, n), Versions: make(map[string]saver.Version, n)}}
	r.expect(n)
	for _, s := range it.Slots.From(first) {
		if v := r.lazy(s.Ref); !v.IsZero() {
			tup.Checkpoint.Values[s.Name] = v
		}
		version, err := r.texts.Unpack(s.Tag)
		if err != nil {
			return nil, threadError(h.cfg.ThreadID, "version of channel "+s.Name, layout.AsCorrupt(err))
		}
		tup.Checkpoint.Versions[s.Name] = version
	}
	var err error
	if tup.PendingWrites, err = r.pendingWrites(h.cfg.Namespace, h.cfg.CheckpointID); err != nil || h.parent == "" {
		return tup, err
	}
	made.parent = h.cfg.At(h.parent)
	tup.Parent = &made.parent
	if h.rec.V < rules.FirstVersionWithTasks {
		sends, err := r.pendingWrites(h.cfg.Namespace, h.parent)
		if err != nil {
			return nil, err
		}
		next := func() (saver.Version, error) { return r.s.NextVersion(saver.Version{}, saver.ChannelTasks) }
		if _, err := rules.MigratePendingSends(&tup.Checkpoint, sends, next); err != nil {
			return nil, err
		}
	}
	return tup, nil
}

// pendingWrites are the writes against a checkpoint, resolved and in order; never
// nil.
func (r *tupleReader) pendingWrites(ns, id string) ([]saver.PendingWrite, error) {
	entries, n := r.writeEntries(ns, id), 0
	for _, it := range entries {
		n += it.Slots.Len()
	}
	writes := make([]saver.PendingWrite, 0, n-min(n, len(entries)))
	r.expect(cap(writes))
	for _, it := range entries {
		var err error
		if writes, err = r.appendWrites(writes, it); err != nil {
			return nil, threadError(r.threadID(), "writes of checkpoint "+id, layout.AsCorrupt(err))
		}
	}
	return saver.ResolveWrites(writes), nil
}

// writeEntries are the entries of the writes against a checkpoint, until it is called again.
func (r *tupleReader) writeEntries(ns, id string) []*index.Entry {
	r.entries = r.entries[:0]
	r.t.Ascend(layout.WritesPrefix(ns, id), func(it *index.Entry) bool {
		r.entries = append(r.entries, it)
		return true
	})
	return r.entries
}

// appendWrites appends the writes of an entry.
func (r *tupleReader) appendWrites(writes []saver.PendingWrite, it *index.Entry) ([]saver.PendingWrite, error) {
	if it.Slots.Len() == 0 {
		return nil, layout.ErrRecord
	}
	task := it.Slots.At(0)
	for _, s := range it.Slots.From(1) {
		n, err := unpackIndex(s.Tag)
		if err != nil {
			return nil, err
		}
		writes = append(writes, saver.PendingWrite{TaskID: task.Name, TaskPath: task.Tag, Channel: s.Name, Index: n, Value: r.lazy(s.Ref)})
	}
	return writes, nil
}

// storedValues are the values a checkpoint has of some channels.
func (r *tupleReader) storedValues(it *index.Entry, channels []string) map[string]saver.Value {
	slots := channelSlots(it, nil)
	out := map[string]saver.Value{}
	for _, c := range channels {
		if slot := findSlot(slots, c); slot != nil && !slot.Ref.Empty() {
			out[c] = r.lazy(slot.Ref)
		}
	}
	return out
}
