package replica

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"

	"github.com/stele-go/stele/base"
)

// Chain is a value over all records of a lineage up to one of them. Two lineages with the same
// Chain at one LSN have the same bytes up to there. Before the first record it is zero.
//
// It knows records by LSN and bytes alone. So it stays what it is when the store copies records
// into another file, and whatever chunks they travel in.
type Chain [16]byte

// Next returns the chain behind one more record. key is nil for a store without encryption.
// With one, who reads the bucket cannot guess a record and compare.
func (c Chain) Next(key []byte, lsn base.LSN, record []byte) Chain {
	h := sha256.New()
	if key != nil {
		h = hmac.New(sha256.New, key)
	}
	_, _ = h.Write(binary.LittleEndian.AppendUint64(c[:], uint64(lsn))) // a hash returns no error
	_, _ = h.Write(record)
	return Chain(h.Sum(nil)[:len(c)])
}

// MarshalText writes the chain as 32 hexadecimal digits.
func (c Chain) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, c[:]), nil }

// UnmarshalText is the inverse of MarshalText.
func (c *Chain) UnmarshalText(text []byte) error {
	b, err := hex.DecodeString(string(text))
	if err != nil || len(b) != len(c) {
		return fmt.Errorf("chain %q is not %d hexadecimal digits", text, 2*len(c))
	}
	copy(c[:], b)
	return nil
}

// Batch is a group of records that became durable together. A chunk never cuts one.
type Batch struct {
	// First is the LSN of the first record. The others follow without a gap.
	First base.LSN
	// Stamp is the leader's commit time, in microseconds since 1970.
	Stamp int64
	// Records are opaque. Nobody changes them after they have been handed over.
	Records [][]byte
	// Cut: what the records from here on say rests on no bytes of values before First but whole ones, so that who follows may
	// move those elsewhere. A leader may leave it out. It begins a chunk.
	Cut bool
}

// Last is the LSN of the last record.
func (b *Batch) Last() base.LSN { return b.First + base.LSN(len(b.Records)) - 1 }

// behind returns the part of a batch with records greater than lsn.
func (b Batch) behind(lsn base.LSN) (Batch, bool) {
	switch {
	case b.Last() <= lsn:
		return Batch{}, false
	case b.First <= lsn:
		b.Records = b.Records[lsn+1-b.First:]
		b.First, b.Cut = lsn+1, false
	}
	return b, true
}

// Position is a place between two records of a lineage, and what lies before it.
type Position struct {
	// LSN is the last record before the place.
	LSN base.LSN `json:"lsn"`
	// Chain and Stamp are those of that record.
	Chain Chain `json:"chain"`
	Stamp int64 `json:"stamp"`
	// Epoch and Seq name the chunk that has the next record, once somebody writes it.
	Epoch uint64 `json:"epoch"`
	Seq   uint64 `json:"seq"`
}

// before reports whether the chunk of p comes before that of q.
func (p Position) before(q Position) bool {
	return p.Epoch < q.Epoch || p.Epoch == q.Epoch && p.Seq < q.Seq
}
