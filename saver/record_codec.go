package saver

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
)

// maxPrealloc bounds what a length in damaged bytes can ask for in advance.
const maxPrealloc = 256

// recordFormat is the format version of the bytes Record.Append writes.
const recordFormat = 1

// Append appends the record's bytes to dst. Equal records give equal bytes:
// names are sorted. The layout is
//
//	format version   1 byte
//	V                signed varint
//	id, ts, parent, values-from, metadata kind, metadata bytes   strings
//	versions         count, then channel and version, channels ascending
//	seen             count, then node and versions, nodes ascending
//	updated          0 for none, else count+1, then channels as given
//	stored, emptied  count, then channels ascending
//
// where a string is its length and its bytes, a count or length an unsigned
// varint, and a version its kind (1 byte) and a string, a signed varint, or 8
// bytes of a float, little-endian. Varints are the shortest possible.
func (r *Record) Append(dst []byte) []byte {
	cp := &r.Checkpoint
	dst = append(dst, recordFormat)
	dst = binary.AppendVarint(dst, int64(cp.V))
	for _, s := range []string{cp.ID, cp.TS, r.Parent, r.ValuesFrom, r.Metadata.Kind} {
		dst = appendString(dst, s)
	}
	dst = binary.AppendUvarint(dst, uint64(len(r.Metadata.Data)))
	dst = append(dst, r.Metadata.Data...)
	dst = appendVersions(dst, cp.Versions)
	dst = binary.AppendUvarint(dst, uint64(len(cp.Seen)))
	for _, node := range slices.Sorted(maps.Keys(cp.Seen)) {
		dst = appendString(dst, node)
		dst = appendVersions(dst, cp.Seen[node])
	}
	if cp.Updated == nil {
		dst = append(dst, 0)
	} else {
		dst = binary.AppendUvarint(dst, uint64(len(cp.Updated))+1)
		for _, s := range cp.Updated {
			dst = appendString(dst, s)
		}
	}
	for _, names := range [][]string{r.Stored, r.Emptied} {
		dst = binary.AppendUvarint(dst, uint64(len(names)))
		for _, s := range names {
			dst = appendString(dst, s)
		}
	}
	return dst
}

func appendString(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

func appendVersions(dst []byte, versions map[string]Version) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(versions)))
	for _, channel := range slices.Sorted(maps.Keys(versions)) {
		v := versions[channel]
		dst = append(appendString(dst, channel), byte(v.kind))
		switch v.kind {
		case VersionString:
			dst = appendString(dst, v.str)
		case VersionInt:
			dst = binary.AppendVarint(dst, int64(v.num))
		case VersionFloat:
			dst = binary.LittleEndian.AppendUint64(dst, v.num)
		}
	}
	return dst
}

// DecodeRecord is the inverse of Record.Append. The result shares no memory with
// b; absent maps come back empty. Bytes that Append cannot have written are
// ErrCorrupt, those of a newer format version a VersionError. It never panics,
// and allocates no more than a multiple of len(b).
func DecodeRecord(b []byte) (*Record, error) {
	d := recordDecoder{rest: b, size: len(b)}
	if format := d.byte(); d.err == nil && format > recordFormat {
		return nil, &VersionError{File: "checkpoint record", Have: uint32(format), Supported: recordFormat}
	} else if d.err == nil && format != recordFormat {
		d.fail("format version %d", format)
	}
	var r Record
	cp := &r.Checkpoint
	cp.V = int(d.varint())
	for _, s := range []*string{&cp.ID, &cp.TS, &r.Parent, &r.ValuesFrom, &r.Metadata.Kind} {
		*s = d.string()
	}
	r.Metadata.Data = []byte(d.string())
	cp.Versions = d.versions()
	cp.Seen = map[string]map[string]Version{}
	last := ""
	for i := range d.count() {
		node := d.name(i, &last)
		cp.Seen[node] = d.versions()
	}
	if n := d.count(); n > 0 {
		cp.Updated = make([]string, n-1)
		for i := range cp.Updated {
			cp.Updated[i] = d.string()
		}
	}
	for _, names := range []*[]string{&r.Stored, &r.Emptied} {
		last := ""
		for i := range d.count() {
			*names = append(*names, d.name(i, &last))
		}
	}
	if d.err == nil && len(d.rest) > 0 {
		d.fail("%d bytes too many", len(d.rest))
	}
	if d.err != nil {
		return nil, d.err
	}
	return &r, nil
}

// recordDecoder reads from rest; after the first error everything it returns is
// zero.
type recordDecoder struct {
	rest []byte
	size int
	err  error
}

func (d *recordDecoder) fail(format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf("checkpoint record at byte %d of %d: %s: %w", d.size-len(d.rest), d.size, fmt.Sprintf(format, args...), ErrCorrupt)
	}
	d.rest = nil
}

func (d *recordDecoder) byte() byte {
	if len(d.rest) == 0 {
		d.fail("cut short")
		return 0
	}
	b := d.rest[0]
	d.rest = d.rest[1:]
	return b
}

func (d *recordDecoder) uvarint() uint64 {
	n, size := binary.Uvarint(d.rest)
	if size <= 0 || size > 1 && d.rest[size-1] == 0 {
		d.fail("bad varint")
		return 0
	}
	d.rest = d.rest[size:]
	return n
}

func (d *recordDecoder) varint() int64 {
	u := d.uvarint()
	return int64(u>>1) ^ -int64(u&1)
}

// count is a number of items, each at least one byte long, or that plus one.
func (d *recordDecoder) count() int {
	n := d.uvarint()
	if n > uint64(len(d.rest))+1 {
		d.fail("%d items in %d bytes", n, len(d.rest))
		return 0
	}
	return int(n)
}

func (d *recordDecoder) string() string {
	n := d.uvarint()
	if n > uint64(len(d.rest)) {
		d.fail("%d bytes of text in %d", n, len(d.rest))
		return ""
	}
	s := string(d.rest[:n])
	d.rest = d.rest[n:]
	return s
}

// name is the i-th of a list of ascending names; last is the one before.
func (d *recordDecoder) name(i int, last *string) string {
	s := d.string()
	if i > 0 && s <= *last {
		d.fail("name %q after %q", s, *last)
	}
	*last = s
	return s
}

func (d *recordDecoder) versions() map[string]Version {
	n := d.count()
	versions := make(map[string]Version, min(n, maxPrealloc))
	last := ""
	for i := range n {
		channel := d.name(i, &last)
		v := Version{kind: VersionKind(d.byte())}
		switch v.kind {
		case VersionNull:
		case VersionString:
			v.str = d.string()
		case VersionInt:
			v.num = uint64(d.varint())
		case VersionFloat:
			if len(d.rest) < 8 {
				d.fail("cut short")
				break
			}
			v.num = binary.LittleEndian.Uint64(d.rest)
			d.rest = d.rest[8:]
			if math.IsNaN(math.Float64frombits(v.num)) {
				d.fail("version is not a number")
			}
		default:
			d.fail("version kind %d", v.kind)
		}
		if d.err != nil {
			return nil
		}
		versions[channel] = v
	}
	return versions
}
