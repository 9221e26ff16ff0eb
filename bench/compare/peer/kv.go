package peer

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/stele-go/stele/bench"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/serde"
	"github.com/vmihailenco/msgpack/v5"
)

// row is a key and its value.
type row struct{ key, value []byte }

// keyed is a store of keys and values.
type keyed interface {
	// update stores rows together.
	update(rows []row) error
	// view runs fn on the store as it is at one moment.
	view(fn func(reader) error) error
	flush() error
	compact() error
	syncs() (int64, bool)
	close() error
}

// reader reads a keyed store.
type reader interface {
	// get returns a copy of a value; nil if there is none.
	get(key []byte) ([]byte, error)
	// scan calls each with the rows whose key has a prefix, from the last to the
	// first if reverse is set, until it returns false. Key and value are valid
	// during the call.
	scan(prefix []byte, reverse bool, each func(key, value []byte) (bool, error)) error
}

// kvStore keeps checkpoints in a keyed store.
type kvStore struct{ kv keyed }

// head is the value of a checkpoint's row.
type head struct {
	Parent   string `msgpack:"p"`
	Record   []byte `msgpack:"r"`
	Metadata []byte `msgpack:"m"`
}

// Put stores a step's checkpoint with its values, a row for each channel version, in one transaction.
func (s *kvStore) Put(thread, parent string, st *bench.Step) error {
	enc, err := encode(st, false)
	if err != nil {
		return err
	}
	h, err := msgpack.Marshal(&head{parent, enc.record, enc.metadata})
	if err != nil {
		return err
	}
	batch := make([]row, 0, 1+len(enc.blobs))
	batch = append(batch, row{recordKey(thread, st.Checkpoint.ID), h})
	for _, b := range enc.blobs {
		batch = append(batch, row{blobKey(thread, b.channel, b.version), packTyped(b.typed)})
	}
	return s.kv.update(batch)
}

// PutWrites stores what a task wrote against a checkpoint.
func (s *kvStore) PutWrites(thread, id, task string, writes []saver.Write) error {
	batch := make([]row, len(writes))
	for i, w := range writes {
		t, err := w.Value.Encode(codec)
		if err != nil {
			return err
		}
		value := append(append(make([]byte, 0, 2+len(w.Channel)+len(t.Kind)+len(t.Data)), byte(len(w.Channel))), w.Channel...)
		batch[i] = row{writeKey(thread, id, task, i), append(value, packTyped(t)...)}
	}
	return s.kv.update(batch)
}

// Get reads a checkpoint, or the newest of the thread if id is empty, with its values.
func (s *kvStore) Get(thread, id string) (*Tuple, error) {
	var out *Tuple
	err := s.kv.view(func(r reader) error {
		if id == "" {
			return s.list(r, thread, 1, true, func(t *Tuple) error { out = t; return nil })
		}
		b, err := r.get(recordKey(thread, id))
		if err != nil || b == nil {
			return err
		}
		out, err = s.tuple(r, thread, id, b, true)
		return err
	})
	if err == nil && out == nil {
		err = ErrNotFound
	}
	return out, err
}

// List calls each for the newest checkpoints of a thread.
func (s *kvStore) List(thread string, limit int, values bool, each func(*Tuple) error) error {
	return s.kv.view(func(r reader) error { return s.list(r, thread, limit, values, each) })
}

func (s *kvStore) list(r reader, thread string, limit int, values bool, each func(*Tuple) error) error {
	prefix, n := recordKey(thread, ""), 0
	return r.scan(prefix, true, func(key, value []byte) (bool, error) {
		t, err := s.tuple(r, thread, string(key[len(prefix):]), value, values)
		if err != nil {
			return false, err
		}
		n++
		return n != limit, each(t)
	})
}

func (s *kvStore) tuple(r reader, thread, id string, value []byte, values bool) (*Tuple, error) {
	var h head
	if err := msgpack.Unmarshal(value, &h); err != nil {
		return nil, fmt.Errorf("row of %s: %w", id, err)
	}
	t, err := decode(id, h.Parent, h.Record, h.Metadata)
	if err != nil || !values {
		return t, err
	}
	for channel, version := range t.Record().Versions {
		b, err := r.get(blobKey(thread, channel, version))
		if err != nil {
			return nil, err
		}
		if b == nil {
			continue
		}
		typed, err := unpackTyped(b)
		if err != nil {
			return nil, err
		}
		t.Values[channel] = valueOf(typed)
	}
	prefix := writesPrefix(thread, id)
	return t, r.scan(prefix, false, func(key, value []byte) (bool, error) {
		w, err := readWrite(key[len(prefix):], bytes.Clone(value))
		t.Writes = append(t.Writes, w)
		return true, err
	})
}

func readWrite(key, value []byte) (Write, error) {
	if len(key) < 5 || len(value) == 0 || len(value) < 1+int(value[0]) {
		return Write{}, fmt.Errorf("write of %d bytes is cut short", len(value))
	}
	n := 1 + int(value[0])
	typed, err := unpackTyped(value[n:])
	return Write{Task: string(key[:len(key)-5]), Index: int(binary.BigEndian.Uint32(key[len(key)-4:])),
		Channel: string(value[1:n]), Value: valueOf(typed)}, err
}

// PutItems stores items in one transaction.
func (s *kvStore) PutItems(ns string, items []Item) error {
	batch := make([]row, len(items))
	for i, it := range items {
		t, err := codec.Encode(it.Value)
		if err != nil {
			return err
		}
		batch[i] = row{itemKey(ns, it.Key), t.Data}
	}
	return s.kv.update(batch)
}

// GetItem reads an item.
func (s *kvStore) GetItem(ns, key string) (map[string]any, error) {
	var b []byte
	err := s.kv.view(func(r reader) (err error) {
		b, err = r.get(itemKey(ns, key))
		return err
	})
	if err != nil {
		return nil, err
	}
	if b == nil {
		return nil, ErrNotFound
	}
	v, err := codec.Decode(serde.Typed{Kind: "msgpack", Data: b})
	if err != nil {
		return nil, err
	}
	m, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("item %s is a %T", key, v)
	}
	return m, nil
}

// Flush writes what is only in the log to where it stays.
func (s *kvStore) Flush() error { return s.kv.flush() }

// Compact does what the store has for giving space back.
func (s *kvStore) Compact() error { return s.kv.compact() }

// Syncs counts syncs, where the store tells.
func (s *kvStore) Syncs() (int64, bool) { return s.kv.syncs() }

// Close closes the store.
func (s *kvStore) Close() error { return s.kv.close() }

// after is the smallest key behind all keys with a prefix that does not end in
// 0xff.
func after(prefix []byte) []byte {
	end := bytes.Clone(prefix)
	end[len(end)-1]++
	return end
}
