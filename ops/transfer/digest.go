package transfer

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"maps"
	"math"
	"slices"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/serde"
)

// sum is a SHA-256.
type sum [sha256.Size]byte

// channelState is the state of a channel in a checkpoint: its version, and the sum of its value.
type channelState struct {
	version saver.Version
	value   sum
	full    bool // there is a value
}

// channels are the channels of one checkpoint.
type channels map[string]channelState

// hasher sums parts so that no two lists of parts have the same bytes: each part has its
// length or its type before it.
type hasher struct {
	h   hash.Hash
	buf [9]byte
	err error
}

func newHasher() *hasher { return &hasher{h: sha256.New()} }

func (h *hasher) num(tag byte, n uint64) {
	h.buf[0] = tag
	binary.BigEndian.PutUint64(h.buf[1:], n)
	h.h.Write(h.buf[:])
}

func (h *hasher) bytes(b []byte) {
	h.num('b', uint64(len(b)))
	h.h.Write(b)
}

func (h *hasher) text(s string) { h.bytes([]byte(s)) }

func (h *hasher) typed(t serde.Typed) {
	h.text(t.Kind)
	h.bytes(t.Data)
}

func (h *hasher) version(v saver.Version) {
	h.num('k', uint64(v.Kind()))
	h.text(v.String())
}

func (h *hasher) versions(m map[string]saver.Version) {
	h.num('m', uint64(len(m)))
	for _, name := range slices.Sorted(maps.Keys(m)) {
		h.text(name)
		h.version(m[name])
	}
}

func (h *hasher) texts(list []string) {
	h.num('l', uint64(len(list)))
	for _, s := range list {
		h.text(s)
	}
}

// data sums plain data. Integers are equal by value, whatever their type; an integer and a
// float are not.
func (h *hasher) data(v any) {
	switch x := v.(type) {
	case nil:
		h.num('0', 0)
	case bool:
		h.num('t', map[bool]uint64{true: 1}[x])
	case int:
		h.num('i', uint64(x))
	case int64:
		h.num('i', uint64(x))
	case uint64:
		if x > math.MaxInt64 {
			h.num('u', x)
		} else {
			h.num('i', x)
		}
	case float64:
		h.num('f', math.Float64bits(x))
	case string:
		h.num('s', 0)
		h.text(x)
	case []any:
		h.num('a', uint64(len(x)))
		for _, item := range x {
			h.data(item)
		}
	case map[string]any:
		h.num('o', uint64(len(x)))
		for _, key := range slices.Sorted(maps.Keys(x)) {
			h.text(key)
			h.data(x[key])
		}
	default:
		t, err := serde.Default().Encode(v)
		if err != nil && h.err == nil {
			h.err = err
		}
		h.num('x', 0)
		h.typed(t)
	}
}

func (h *hasher) sum() (s sum) {
	h.h.Sum(s[:0])
	return s
}

func sumOf(t serde.Typed) sum {
	h := newHasher()
	h.typed(t)
	return h.sum()
}

// digest returns the sum of all of tup. have are the states of its channels.
func (tup *Tuple) digest(have channels) (sum, error) {
	h := newHasher()
	for _, s := range []string{tup.Config.ThreadID, tup.Config.Namespace, tup.Config.CheckpointID, tup.Parent, tup.TS} {
		h.text(s)
	}
	h.num('v', uint64(tup.V))
	h.num('c', uint64(len(have)))
	for _, name := range slices.Sorted(maps.Keys(have)) {
		c := have[name]
		h.text(name)
		h.version(c.version)
		if c.full {
			h.bytes(c.value[:])
		} else {
			h.num('0', 0)
		}
	}
	h.num('m', uint64(len(tup.Seen)))
	for _, node := range slices.Sorted(maps.Keys(tup.Seen)) {
		h.text(node)
		h.versions(tup.Seen[node])
	}
	if tup.Updated == nil {
		h.num('0', 0)
	} else {
		h.texts(tup.Updated)
	}
	h.data(map[string]any(tup.Metadata))
	h.num('w', uint64(len(tup.Writes)))
	for _, w := range tup.Writes {
		h.text(w.TaskID)
		h.text(w.TaskPath)
		h.text(w.Channel)
		h.num('i', uint64(w.Index))
		h.typed(w.Value)
	}
	if tup.Note == nil {
		h.num('0', 0)
	} else {
		h.text(tup.Note.Graph)
		h.texts(tup.Note.Next)
		h.text(string(tup.Note.Stop))
		h.texts(tup.Note.Deltas)
		h.text(tup.Note.Version)
	}
	if h.err != nil {
		return sum{}, fmt.Errorf("metadata: %w", h.err)
	}
	return h.sum(), nil
}
