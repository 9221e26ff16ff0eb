package store

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/saver"
)

// meta holds the times of an item, in unix µs. The index keeps it, next to the summary.
// docs/format/item.md has the bytes.
type meta struct {
	created, updated int64
	expires          int64 // 0: never
	ttl              int64 // µs; 0: for ever
}

const metaFormat = 1

// Flags of an encoded meta.
const metaExpires = 1

func encodeMeta(m meta) string {
	b := make([]byte, 0, 24)
	b = append(b, metaFormat)
	var flags byte
	if m.expires != 0 {
		flags = metaExpires
	}
	b = append(b, flags)
	b = binary.AppendVarint(b, m.created)
	b = binary.AppendVarint(b, m.updated-m.created)
	if m.expires != 0 {
		b = binary.AppendVarint(b, m.expires)
		b = binary.AppendVarint(b, m.ttl)
	}
	return string(b)
}

// decodeMeta reads what encodeMeta wrote. Anything else is ErrCorrupt, or a
// VersionError.
func decodeMeta(s string) (meta, error) {
	if len(s) < 2 {
		return meta{}, errMeta
	}
	if s[0] != metaFormat || s[1]&^metaExpires != 0 {
		return meta{}, &fault.VersionError{File: "store item", Have: max(uint32(s[0]), metaFormat+1), Supported: metaFormat}
	}
	flags, rest := s[1], s[2:]
	next := func() (v int64) {
		n, w := cutUvarint(rest)
		if w <= 0 {
			rest = "\xff" // stays malformed
			return 0
		}
		rest = rest[w:]
		return int64(n>>1) ^ -int64(n&1)
	}
	var m meta
	m.created = next()
	m.updated = m.created + next()
	if flags&metaExpires != 0 {
		m.expires, m.ttl = next(), next()
		if m.expires == 0 {
			return meta{}, errMeta
		}
	}
	if rest != "" {
		return meta{}, errMeta
	}
	return m, nil
}

var errMeta = fmt.Errorf("store item: %w", saver.ErrCorrupt)

// live reports whether the item has not expired at now.
func (m meta) live(now int64) bool { return m.expires == 0 || now < m.expires }

// refreshShare: a read renews an item only after 1/refreshShare of its life has passed,
// because a renewal is a write, and a thousand reads a second must not make a thousand
// writes. An item that is read lives for at least 15/16 of its TTL after that.
const refreshShare = 16

// renewed is m with its TTL counted from now. ok is false if it is too early to renew it.
func (m meta) renewed(now int64) (meta, bool) {
	expires := now + m.ttl
	if gained := expires - m.expires; m.expires == 0 || m.ttl <= 0 || gained <= m.ttl/refreshShare {
		return m, false
	}
	m.expires = expires
	return m, true
}

// Expiry is when an item that is put at now and lives for ttl expires; 0 for never. Times are in
// microseconds.
func Expiry(now, ttl int64) int64 {
	switch {
	case ttl <= 0:
		return 0
	case now > math.MaxInt64-ttl:
		return math.MaxInt64
	}
	return max(now+ttl, 1)
}

// Renewal returns the new expiry of an item that is read at now, if reads renew it. due is false if too
// little of the item's life has passed, or if the item has expired. Times are in microseconds.
func Renewal(now, expires, ttl int64) (next int64, due bool) {
	m := meta{expires: expires, ttl: ttl}
	if !m.live(now) {
		return expires, false
	}
	renewed, due := m.renewed(now)
	return renewed.expires, due
}

func timeOf(micros int64) time.Time {
	if micros == 0 {
		return time.Time{}
	}
	return time.UnixMicro(micros).UTC()
}
