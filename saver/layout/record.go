package layout

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"strings"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/serde"
)

// The bytes the disk saver keeps for a checkpoint besides its values, and how it
// writes versions. docs/format/checkpoint.md has them byte by byte. Map keys are
// sorted, so that equal checkpoints are equal bytes.

// The formats of a checkpoint record: without a note, with one, and with one that has a version.
const (
	plainFormat     = 1
	notedFormat     = 2
	versionedFormat = 3
)

// format is the format in which r is written: the lowest that has room for it.
func (r *CheckpointRecord) format() byte {
	switch {
	case r.Note == nil:
		return plainFormat
	case r.Note.Version == "":
		return notedFormat
	}
	return versionedFormat
}

// CheckpointRecord is a checkpoint without channels: these, with their versions,
// are the slots of its entry.
type CheckpointRecord struct {
	V        int
	Ts       string
	Updated  []string
	Seen     map[string]map[string]saver.Version
	Note     *saver.Note // nil: none
	Metadata serde.Typed
}

// Encode gives equal bytes for equal records.
func (r *CheckpointRecord) Encode() []byte {
	b := append(make([]byte, 0, r.room()), r.format())
	b = binary.AppendVarint(b, int64(r.V))
	b = packStr(b, r.Ts)
	if r.Updated == nil {
		b = append(b, 0)
	} else {
		b = append(b, 1)
		b = binary.AppendUvarint(b, uint64(len(r.Updated)))
		for _, c := range r.Updated {
			b = packStr(b, c)
		}
	}
	if r.Seen == nil {
		b = append(b, 0)
	} else {
		b = append(b, 1)
		b = packSeen(b, r.Seen)
	}
	if r.Note != nil {
		b = appendNote(b, r.Note)
	}
	b = packStr(b, r.Metadata.Kind)
	return append(b, r.Metadata.Data...)
}

// room returns about how many bytes the record takes, rather more than fewer: growing would copy it,
// and the saver keeps the memory.
func (r *CheckpointRecord) room() int {
	const name, node, version, note = 16, 16, 28, 64
	n := 32 + len(r.Ts) + name*len(r.Updated) + len(r.Metadata.Data)
	for _, channels := range r.Seen {
		n += node + version*len(channels)
	}
	if r.Note != nil {
		n += note + len(r.Note.Version)
	}
	return n
}

// packSeen appends the versions that each node had seen.
func packSeen(b []byte, seen map[string]map[string]saver.Version) []byte {
	b = binary.AppendUvarint(b, uint64(len(seen)))
	for _, node := range SortedNames(seen) {
		b = appendVersions(packStr(b, node), seen[node])
	}
	return b
}

func appendVersions(b []byte, versions map[string]saver.Version) []byte {
	var channelRoom [8]seenChannel
	var room [packedMost]byte
	b = binary.AppendUvarint(b, uint64(len(versions)))
	sorted := channelRoom[:0]
	for channel, v := range versions {
		sorted = append(sorted, seenChannel{channel, v})
	}
	slices.SortFunc(sorted, func(x, y seenChannel) int { return strings.Compare(x.channel, y.channel) })
	for i := range sorted {
		b = packStr(b, sorted[i].channel)
		if p, ok := appendPacked(room[:0], sorted[i].version); ok {
			b = append(append(b, byte(len(p))), p...)
		} else {
			b = packStr(b, PackVersion(sorted[i].version))
		}
	}
	return b
}

// seenChannel is a channel and the version of it that a node saw.
type seenChannel struct {
	channel string
	version saver.Version
}

func packStr(b []byte, s string) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

// SortedNames are the keys of m, ascending.
func SortedNames[V any](m map[string]V) []string {
	names := make([]string, 0, len(m))
	for n := range m {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// ErrRecord is the error of bytes that are no checkpoint record.
var ErrRecord = errors.New("checkpoint record is malformed")

// DecodeCheckpointRecord reads what CheckpointRecord.Encode wrote. Any input gives
// a record or an error; memory is bounded by a small multiple of its length.
func DecodeCheckpointRecord(b []byte) (*CheckpointRecord, error) {
	r := new(CheckpointRecord)
	if err := r.Decode(b, nil); err != nil {
		return nil, err
	}
	return r, nil
}

// sharedText is the size of a record up to which its strings are cut from one copy
// of it: none keeps more than that in memory.
const sharedText = 2 << 10

// Decode is DecodeCheckpointRecord into r, with versions as seen knows them.
func (r *CheckpointRecord) Decode(b []byte, seen *VersionTexts) error {
	d := unpacker{b: b, versions: seen}
	if len(b) <= sharedText {
		d.text = string(b)
	}
	f := d.byte()
	if d.err == nil && (f < plainFormat || f > versionedFormat) {
		return &fault.VersionError{File: "checkpoint record", Have: uint32(f), Supported: versionedFormat}
	}
	r.V, r.Ts = int(d.varint()), d.str()
	if d.flag() {
		r.Updated = make([]string, 0, d.count(1))
		for range cap(r.Updated) {
			r.Updated = append(r.Updated, d.str())
		}
	}
	if d.flag() {
		r.Seen = d.seen()
	}
	if f != plainFormat {
		r.Note = d.note(b, f == versionedFormat)
	}
	r.Metadata = serde.Typed{Kind: d.str(), Data: d.b}
	return d.err
}

type unpacker struct {
	b        []byte
	text     string // all that b was, if strings are to be cut from it
	versions *VersionTexts
	err      error
}

func (d *unpacker) fail() {
	d.b = nil
	if d.err == nil {
		d.err = ErrRecord
	}
}

func (d *unpacker) byte() byte {
	if len(d.b) == 0 {
		d.fail()
		return 0
	}
	c := d.b[0]
	d.b = d.b[1:]
	return c
}

func (d *unpacker) flag() bool {
	c := d.byte()
	if c > 1 {
		d.fail()
	}
	return c == 1
}

func (d *unpacker) varint() int64 {
	n, w := binary.Varint(d.b)
	if w <= 0 {
		d.fail()
		return 0
	}
	d.b = d.b[w:]
	return n
}

func (d *unpacker) uvarint() uint64 {
	n, w := binary.Uvarint(d.b)
	if w <= 0 {
		d.fail()
		return 0
	}
	d.b = d.b[w:]
	return n
}

// count reads how many elements of at least size bytes follow.
func (d *unpacker) count(size int) int {
	n := d.uvarint()
	if n > uint64(len(d.b)/size) {
		d.fail()
		return 0
	}
	return int(n)
}

func (d *unpacker) str() string { return d.cut(d.uvarint()) }

// cut reads n bytes as a string.
func (d *unpacker) cut(n uint64) string {
	if n > uint64(len(d.b)) {
		d.fail()
		return ""
	}
	var s string
	if at := len(d.text) - len(d.b); d.text != "" {
		s = d.text[at : at+int(n)]
	} else {
		s = string(d.b[:n])
	}
	d.b = d.b[n:]
	return s
}

func (d *unpacker) seen() map[string]map[string]saver.Version {
	n := d.count(2)
	seen := make(map[string]map[string]saver.Version, min(n, 1024))
	for range n {
		node := d.str()
		m := d.count(2)
		versions := make(map[string]saver.Version, min(m, 1024))
		for range m {
			channel := d.str()
			v, err := d.versions.Unpack(d.str())
			if d.err == nil {
				d.err = err // a version of a newer build stays a VersionError
			}
			if d.err != nil {
				return nil
			}
			versions[channel] = v
		}
		seen[node] = versions
	}
	return seen
}

// Kinds of a packed version.
const (
	packNull   = 0
	packText   = 1
	packInt    = 2
	packFloat  = 3
	packMinted = 4 // a string as NextVersion mints it
)

const mintedDigits = 32

// packedMost is the length of the longest version that is not packed as text.
const packedMost = 2 + 2*binary.MaxVarintLen64

// PackVersion writes a version in few bytes, without loss. A version as LangGraph
// mints it, 32 digits, a dot and a fraction, takes about ten.
func PackVersion(v saver.Version) string {
	var room [packedMost]byte
	return string(AppendVersion(room[:0], v))
}

// AppendVersion appends v to b, packed as PackVersion packs it.
func AppendVersion(b []byte, v saver.Version) []byte {
	p, ok := appendPacked(b, v)
	if !ok {
		p = append(append(b, packText), v.String()...)
	}
	return p
}

// appendPacked appends a packed version; false if it is packed as text.
func appendPacked(b []byte, v saver.Version) ([]byte, bool) {
	switch v.Kind() {
	case saver.VersionInt:
		n, _ := v.Seq()
		return binary.AppendVarint(append(b, packInt), n), true
	case saver.VersionFloat:
		return binary.LittleEndian.AppendUint64(append(b, packFloat), math.Float64bits(v.Any().(float64))), true
	case saver.VersionString:
		return appendMintedPacked(b, v.String())
	}
	return append(b, packNull), true
}

// appendMintedPacked appends the packed form of a text that is as LangGraph mints
// them; false for any other. appendMinted gives the same text again: each part has
// digits alone, as many as its width says, and fits into 64 bits.
func appendMintedPacked(b []byte, s string) ([]byte, bool) {
	if len(s) <= mintedDigits+3 || len(s) > mintedMost-1 || s[mintedDigits:mintedDigits+3] != ".0." {
		return b, false
	}
	frac := s[mintedDigits+3:]
	seq, ok := parseDigits(s[:mintedDigits])
	digits, also := parseDigits(frac)
	if !ok || !also {
		return b, false
	}
	b = binary.AppendUvarint(append(b, packMinted), seq)
	b = append(b, byte(len(frac)))
	return binary.AppendUvarint(b, digits), true
}

// parseDigits is the number that s writes with the ten digits and nothing else; false
// if it does not, or if the number does not fit.
func parseDigits(s string) (n uint64, ok bool) {
	const safe = 19 // so many digits fit always
	for strings.HasPrefix(s, "00000000") {
		s = s[8:]
	}
	for i := range len(s) {
		d := uint64(s[i] - '0')
		if d > 9 || i >= safe && n > (math.MaxUint64-d)/10 {
			return 0, false
		}
		n = 10*n + d
	}
	return n, true
}

// mintedMost is the length of the longest text that is packed as minted.
const mintedMost = mintedDigits + len(".0.") + 20

// appendMinted appends the text of a packed minted version: its number in 32 digits,
// a dot, and a fraction, whose part behind "0." has a length of its own. An error
// means that no version is packed like that.
func appendMinted(dst []byte, p string) ([]byte, error) {
	d := unpacker{b: []byte(p[1:])}
	seq, width, digits := d.uvarint(), int(d.byte()), d.uvarint()
	if d.err != nil || len(d.b) != 0 || width == 0 || width > 19 {
		return nil, ErrRecord
	}
	var b [mintedMost]byte
	end := mintedDigits + 3 + width
	copy(b[mintedDigits:], ".0.")
	if putDigits(b[:mintedDigits], seq) != 0 || putDigits(b[mintedDigits+3:end], digits) != 0 {
		return nil, ErrRecord
	}
	return append(dst, b[:end]...), nil
}

// putDigits writes n in decimal, padded with zeros to all of b, and returns what
// did not fit.
func putDigits(b []byte, n uint64) (rest uint64) {
	i := len(b)
	for n > 9 && i > 1 {
		two := 2 * (n % 100)
		n /= 100
		i -= 2
		b[i], b[i+1] = pairs[two], pairs[two+1]
	}
	if n > 0 && i > 0 {
		i--
		b[i] = '0' + byte(n%10)
		n /= 10
	}
	for i > 0 {
		i -= copy(b[max(i-len(zeros), 0):i], zeros)
	}
	return n
}

// pairs are the numbers from 00 to 99.
const (
	pairs = "00010203040506070809101112131415161718192021222324252627282930313233343536373839404142434445464748495051525354555657585960616263646566676869707172737475767778798081828384858687888990919293949596979899"
	zeros = "00000000000000000000000000000000"
)

// VersionTexts unpacks versions of one tuple, or of a listing: the texts, fifty bytes
// each, share memory, and those of a listing that come again are kept. nil does
// neither. Not safe for concurrent use.
type VersionTexts struct {
	last []unpacked // none for a single tuple
	room strings.Builder
}

// unpacked is a version, packed and not.
type unpacked struct {
	packed string
	v      saver.Version
}

// NewVersionTexts returns VersionTexts for a listing.
func NewVersionTexts() *VersionTexts { return &VersionTexts{last: make([]unpacked, 16)} }

// roomSize is how much memory texts of a listing share, oneRoom those of one tuple.
const (
	roomSize = 1 << 10
	oneRoom  = 5 * 52
)

// Unpack is unpackVersion.
func (t *VersionTexts) Unpack(p string) (saver.Version, error) {
	if t == nil || p == "" || p[0] != packMinted {
		return unpackVersion(p)
	}
	var none unpacked
	at, room := &none, oneRoom
	if len(t.last) > 0 {
		at, room = &t.last[(uint(p[len(p)-1])+uint(p[len(p)/2])*7)%uint(len(t.last))], roomSize
	}
	if at.packed == p {
		return at.v, nil
	}
	var digits [mintedMost]byte
	text, err := appendMinted(digits[:0], p)
	if err != nil {
		return saver.Version{}, err
	}
	if t.room.Cap()-t.room.Len() < len(text) {
		t.room = strings.Builder{}
		t.room.Grow(room)
	}
	from := t.room.Len()
	t.room.Write(text) // within its capacity: strings cut from it before stay valid
	at.packed, at.v = p, saver.StringVersion(t.room.String()[from:])
	return at.v, nil
}

// unpackVersion reads what PackVersion wrote.
func unpackVersion(p string) (saver.Version, error) {
	if p == "" {
		return saver.Version{}, ErrRecord
	}
	d := unpacker{b: []byte(p[1:])}
	var v saver.Version
	switch p[0] {
	case packNull:
	case packText:
		return saver.StringVersion(p[1:]), nil
	case packInt:
		v = saver.IntVersion(d.varint())
	case packFloat:
		if len(d.b) != 8 {
			return saver.Version{}, ErrRecord
		}
		v = saver.FloatVersion(math.Float64frombits(binary.LittleEndian.Uint64(d.b)))
		d.b = nil
	case packMinted:
		var text [mintedMost]byte
		minted, err := appendMinted(text[:0], p)
		if err != nil {
			return saver.Version{}, err
		}
		return saver.StringVersion(string(minted)), nil
	default:
		return saver.Version{}, &fault.VersionError{File: "channel version", Have: uint32(p[0]), Supported: packMinted}
	}
	if d.err != nil || len(d.b) != 0 {
		return saver.Version{}, ErrRecord
	}
	return v, nil
}
