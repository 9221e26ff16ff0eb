package segment

import (
	"context"
	"fmt"

	"github.com/stele-go/stele/base/vfs"
)

// FrameInfo is one frame of a segment, or the damaged bytes between two.
type FrameInfo struct {
	Offset int64
	Size   int64  // header and padding included
	Kind   string // "head block", "history block", "directory", "tombstones", "meta", "family index", "seal"
	Codec  string // "raw", "zstd", "s2"
	Family uint64
	Stored uint32 // payload bytes in the file
	Raw    []byte // the decoded payload; the caller's

	// Directory and Values are the parts of a directory's payload.
	Directory []byte
	Values    []ValueLoc
	// Err says why the bytes are no frame, or why a directory could not be decoded.
	Err error
}

// kindName is what kinds are called in docs/format/segment.md.
func (k kind) kindName() string {
	names := [...]string{kindHead: "head block", kindHistory: "history block", kindDirectory: "directory",
		kindTombstones: "tombstones", kindMeta: "meta", kindFamilyIndex: "family index", kindSeal: "seal"}
	if int(k) < len(names) && k != 0 {
		return names[k]
	}
	return fmt.Sprintf("kind %d", k)
}

func (c codec) codecName() string {
	switch c {
	case codecRaw:
		return "raw"
	case codecZstd:
		return "zstd"
	case codecS2:
		return "s2"
	}
	return fmt.Sprintf("codec %d", c)
}

// Inspect calls visit for each frame of a segment, and for each run of damaged bytes, in the
// order of the file. For the salt it needs header or footer to be intact; it does not use
// the family index. damage is what is wrong with header or footer. An error of visit ends
// Inspect and is returned as it is; other errors are those of Salvage. It does not close f.
func Inspect(ctx context.Context, f vfs.File, name string, size int64, visit func(FrameInfo) error, opts ...OpenOption) (props Props,
	damage []error, err error) {
	r := &Reader{f: f, name: name, salvaged: true}
	for _, o := range opts {
		o(r)
	}
	if damage, err = r.identify(size); err != nil {
		return Props{}, damage, fmt.Errorf("inspect segment: %w", err)
	}
	s := &scanner{r: r, pos: r.start, end: r.end}
	prev := s.pos
	gap := func(to int64) error {
		from := prev
		if from >= to {
			return nil
		}
		fi := FrameInfo{Offset: from, Size: to - from, Err: r.at("segment frame", uint64(from), uint32(to-from)).corrupt(nil, "no valid frame")}
		if n := len(s.damage); n > 0 {
			fi.Err = s.damage[n-1]
		}
		return visit(fi)
	}
	for s.next(ctx) {
		if err := gap(s.at.off); err != nil {
			return r.props, damage, err
		}
		prev = s.at.off + s.at.n
		fi := FrameInfo{Offset: s.at.off, Size: s.at.n, Kind: s.header.kind.kindName(), Codec: s.header.codec.codecName(),
			Family: s.header.family, Stored: s.header.stored, Raw: s.raw}
		if s.header.kind == kindDirectory {
			fi.Directory, _, fi.Values, fi.Err = decodeDirectory(r.at(kindDirectory.String(), uint64(s.at.off), uint32(s.at.n)), s.raw)
		}
		if err := visit(fi); err != nil {
			return r.props, damage, err
		}
	}
	if s.err != nil {
		return r.props, damage, fmt.Errorf("inspect segment: %w", s.err)
	}
	return r.props, damage, gap(r.end)
}

// Identify returns file number, salt and size of a segment from its header or its footer,
// whichever is intact. damage is what is wrong with the other.
func Identify(f vfs.File, name string, size int64, opts ...OpenOption) (props Props, damage []error, err error) {
	r := &Reader{f: f, name: name, salvaged: true}
	for _, o := range opts {
		o(r)
	}
	damage, err = r.identify(size)
	return r.props, damage, err
}
