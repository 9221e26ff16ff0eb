package pregel

import (
	"crypto/rand"
	"crypto/sha1" //nolint:gosec // the ids of LangGraph's oldest format are SHA-1; nothing is secured by it
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"sync"
	"time"
)

// uuidEpoch is the number of 100 ns ticks between the epoch of UUIDs
// (1582-10-15) and Unix time.
const uuidEpoch = 0x01B21DD213814000

// IDSource makes checkpoint ids: UUIDv6 with the superstep as clock sequence, which sort in
// the order in which they were made. Every id is above all that the source made or observed
// before. It is safe for concurrent use.
type IDSource struct {
	now  func() time.Time
	node func() uint64

	// mu guards last, the tick of the newest id minted or observed.
	mu   sync.Mutex
	last uint64
}

// NewIDSource makes a source with a clock and a source of 48 random bits; nil
// means the system's.
func NewIDSource(now func() time.Time, node func() uint64) *IDSource {
	if now == nil {
		now = time.Now
	}
	if node == nil {
		node = randomNode
	}
	return &IDSource{now: now, node: node}
}

func randomNode() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // crypto/rand never returns an error
	return binary.BigEndian.Uint64(b[:]) >> 16
}

// Next mints an id for a checkpoint of superstep step.
func (s *IDSource) Next(step int) string {
	tick := uint64(s.now().UnixNano()/100 + uuidEpoch)
	s.mu.Lock()
	if tick <= s.last {
		tick = s.last + 1
	}
	s.last = tick
	s.mu.Unlock()
	return formatUUID6(tick, uint16(step)&0x3FFF, s.node())
}

// Observe makes sure that later ids sort after id, even if id comes from a machine with a
// faster clock. Ids that are not UUIDv6 are ignored.
func (s *IDSource) Observe(id string) {
	tick, ok := uuid6Tick(id)
	if !ok {
		return
	}
	s.mu.Lock()
	s.last = max(s.last, tick)
	s.mu.Unlock()
}

func formatUUID6(tick uint64, clockSeq uint16, node uint64) string {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], tick>>12<<16|0x6000|tick&0x0FFF)
	binary.BigEndian.PutUint16(b[8:], 0x8000|clockSeq)
	for i := range 6 {
		b[10+i] = byte(node >> (40 - 8*i))
	}
	return formatUUID(b)
}

func uuid6Tick(id string) (uint64, bool) {
	b, ok := parseUUID(id)
	if !ok || b[6]>>4 != 6 {
		return 0, false
	}
	hi := binary.BigEndian.Uint64(b[:8])
	return hi>>16<<12 | hi&0x0FFF, true
}

func formatUUID(b [16]byte) string {
	var out [36]byte
	at := 0
	for i, n := range [5]int{4, 2, 2, 2, 6} {
		if i > 0 {
			out[at] = '-'
			at++
		}
		start := [5]int{0, 4, 6, 8, 10}[i]
		hex.Encode(out[at:], b[start:start+n])
		at += 2 * n
	}
	return string(out[:])
}

func parseUUID(id string) (b [16]byte, ok bool) {
	n := 0 // digits so far
	for i := range len(id) {
		if id[i] == '-' {
			continue
		}
		digit, isHex := hexDigit(id[i])
		if !isHex || n == 2*len(b) {
			return b, false
		}
		b[n/2] = b[n/2]<<4 | digit
		n++
	}
	return b, n == 2*len(b)
}

func hexDigit(c byte) (byte, bool) {
	switch {
	case c >= '0' && c <= '9':
		return c - '0', true
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10, true
	case c >= 'A' && c <= 'F':
		return c - 'A' + 10, true
	}
	return 0, false
}

// uuid5 is the name-based UUID of RFC 4122 in the namespace of another UUID.
func uuid5(namespace, name string) (string, error) {
	ns, ok := parseUUID(namespace)
	if !ok {
		return "", &CheckpointIDError{ID: namespace}
	}
	sum := sha1.Sum(append(ns[:], name...)) //nolint:gosec // see the import
	var b [16]byte
	copy(b[:], sum[:])
	b[6], b[8] = b[6]&0x0f|0x50, b[8]&0x3f|0x80
	return formatUUID(b), nil
}

// CheckpointIDError: a checkpoint id is not a UUID, so that no task ids can be
// derived from it.
type CheckpointIDError struct{ ID string }

// Error names the id.
func (e *CheckpointIDError) Error() string {
	return fmt.Sprintf("checkpoint id %q is not a UUID", e.ID)
}
