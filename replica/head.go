package replica

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
)

// HeadVersion is the format version of HEAD, points and pins that this build writes, and the
// newest that it reads.
const HeadVersion uint32 = 1

const (
	maxHead  = 4 << 20
	maxPoint = 64 << 20
	maxTTL   = 24 * 60 * 60 * 1000 // milliseconds
	sumLine  = 2*sumSize + 2       // line ends around the digits
)

// Mode says when a leader acknowledges. Followers obey the mode that HEAD has.
type Mode string

// The modes.
const (
	// Async acknowledges what the leader's disk has.
	Async Mode = "async"
	// Bounded is Async, but a commit waits while the bucket lags behind.
	Bounded Mode = "bounded"
	// Sync acknowledges what the lineage has.
	Sync Mode = "sync"
)

func (m Mode) check() error {
	if m != Async && m != Bounded && m != Sync {
		return fmt.Errorf("mode %q is none of %s, %s and %s", string(m), Async, Bounded, Sync)
	}
	return nil
}

// head is overwritten, always by compare-and-set, as are pins by their readers. No other object is.
//
// It is JSON with a checksum behind it, as points and pins are. It has some hundred bytes, is
// written a few times in a TTL, and is the first thing that somebody looks at who fears two
// leaders, with nothing but the bucket's own tool. Chunks are binary: they are many, and made
// of bytes that are no text.
type head struct {
	Format uint32 `json:"format"`
	Store  uint64 `json:"store"`
	// Epoch, Owner and Beat: who has the lease, and how often it has renewed it.
	Epoch    uint64 `json:"epoch"`
	Owner    string `json:"owner"`
	Beat     uint64 `json:"beat"`
	TTL      int64  `json:"ttl_ms"`
	Released bool   `json:"released,omitempty"`
	// Whole: the leader of the last epoch that has begun gave the lease back, so the lineage has all that it acknowledged.
	// Released does not say so any more once a take-over has begun that may not end.
	Whole bool `json:"whole,omitempty"`
	Mode  Mode `json:"mode"`
	// Epochs are those with records that a point may need, oldest first. The last is open,
	// unless a take-over has begun and not ended.
	Epochs []epoch `json:"epochs"`
	// End is where the lineage ended when HEAD was written, or before. It never lies behind
	// a fence that its epoch does not end with.
	End Position `json:"end"`
	// Points are those that can be restored, oldest first. A point counts because it is
	// here: one that a leader wrote too late does not, and may lack files. Without any, the
	// store is being seeded.
	Points []PointRef `json:"points,omitempty"`
	// Floor is the oldest point that is kept.
	Floor Position `json:"floor"`
}

// epoch is the reign of one leader.
type epoch struct {
	Epoch uint64 `json:"epoch"`
	// Dir is the directory of the leader.
	Dir string `json:"dir"`
	// Begin is the last record before it.
	Begin base.LSN `json:"begin"`
	Chain Chain    `json:"chain"`
	Stamp int64    `json:"stamp"`
	// Fence is its number of chunks; of the open epoch 0. It is a hint: the fence itself
	// counts.
	Fence uint64 `json:"fence"`
}

func (h *head) clone() head {
	c := *h
	c.Epochs, c.Points = slices.Clone(h.Epochs), slices.Clone(h.Points)
	return c
}

// last is the newest epoch that has begun.
func (h *head) last() *epoch { return &h.Epochs[len(h.Epochs)-1] }

func (h *head) check() error {
	switch {
	case h.Epoch == 0 || h.Epoch > maxEpoch || h.End.Epoch > h.Epoch || h.End.Seq > maxSeq || h.TTL <= 0 || h.TTL > maxTTL:
		return errors.New("its fields contradict one another")
	case h.Mode.check() != nil:
		return h.Mode.check()
	case len(h.Epochs) == 0 || h.last().Epoch != h.End.Epoch || h.Floor.LSN > h.End.LSN:
		return errors.New("its epochs contradict its end")
	}
	for i := range h.Epochs {
		if e := h.Epochs[i]; i > 0 && (e.Epoch <= h.Epochs[i-1].Epoch || e.Begin < h.Epochs[i-1].Begin) || e.Begin > h.End.LSN || e.Fence > maxSeq {
			return errors.New("its epochs are not in order")
		}
	}
	for i, p := range h.Points {
		if i > 0 && comparePoints(h.Points[i-1], p) >= 0 || p.LSN < h.Floor.LSN || p.LSN > h.End.LSN || p.Epoch > h.Epoch {
			return errors.New("its points are not in order")
		}
	}
	return nil
}

// encodeText encodes HEAD, a point or a pin: JSON in one line, and the XXH64 of that line.
func encodeText(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	sum := binary.BigEndian.AppendUint64(nil, base.Checksum(0, b))
	return append(hex.AppendEncode(append(b, '\n'), sum), '\n'), nil
}

// decodeText is the inverse of encodeText. name is the key of the object. Errors are
// *fault.CorruptionError and *fault.VersionError.
func decodeText(name, kind string, b []byte, into any) error {
	at := len(b) - sumLine
	if at < 0 || b[at] != '\n' || b[len(b)-1] != '\n' {
		return damaged(name, kind, "it does not end with a checksum")
	}
	text := b[:at]
	sum, err := hex.DecodeString(string(b[at+1 : len(b)-1]))
	if err != nil || binary.BigEndian.Uint64(sum) != base.Checksum(0, text) {
		return damaged(name, kind, "checksum mismatch")
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		var v struct {
			Format uint32 `json:"format"`
		}
		if json.Unmarshal(text, &v) == nil && v.Format > HeadVersion {
			return &fault.VersionError{File: name, Have: v.Format, Supported: HeadVersion}
		}
		return damaged(name, kind, "%v", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return damaged(name, kind, "more than one value")
	}
	return nil
}

func decodeHead(store uint64, b []byte) (*head, error) {
	h, err := decodeAnyHead(b)
	if err == nil && h.Store != store {
		return nil, otherStore(headKey, h.Store, store)
	}
	return h, err
}

// decodeAnyHead decodes the HEAD of whatever store.
func decodeAnyHead(b []byte) (*head, error) {
	h := new(head)
	if err := decodeText(headKey, "HEAD", b, h); err != nil {
		return nil, err
	}
	if err := h.check(); err != nil {
		return nil, damaged(headKey, "HEAD", "%v", err)
	}
	return h, nil
}
