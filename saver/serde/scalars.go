package serde

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// UUID is Python's uuid.UUID: 16 bytes in the order of its text.
type UUID [16]byte

// ParseUUID reads 32 hexadecimal digits, with or without the dashes of the
// 8-4-4-4-12 form.
func ParseUUID(s string) (UUID, error) {
	var u UUID
	h := s
	if len(s) == 36 && s[8] == '-' && s[13] == '-' && s[18] == '-' && s[23] == '-' {
		h = s[:8] + s[9:13] + s[14:18] + s[19:23] + s[24:]
	}
	if len(h) != 32 {
		return u, fmt.Errorf("parse UUID %q: %w", s, errUUID)
	}
	if _, err := hex.Decode(u[:], []byte(h)); err != nil {
		return UUID{}, fmt.Errorf("parse UUID %q: %w", s, errUUID)
	}
	return u, nil
}

var errUUID = errors.New("not 32 hexadecimal digits")

// String is the dashed form in lower case.
func (u UUID) String() string {
	h := hexString(u[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// MarshalText is String, so that JSON shows a UUID as people know it.
func (u UUID) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// UnmarshalText reads what ParseUUID reads.
func (u *UUID) UnmarshalText(b []byte) error {
	parsed, err := ParseUUID(string(b))
	if err != nil {
		return err
	}
	*u = parsed
	return nil
}

func hexString(b []byte) string { return hex.EncodeToString(b) }

// Decimal is the unchanged text of Python's decimal.Decimal, such as "1.10", "1E+3" or "NaN".
// For arithmetic convert it with math/big or a decimal library.
type Decimal string

// Set is Python's set. Its elements have no order in Python. A Set keeps the order of the bytes
// that it was read from, and is written in the order that it has.
type Set []any

// FrozenSet is Python's frozenset; see Set.
type FrozenSet []any

// Deque is Python's collections.deque. LangGraph does not store its maxlen.
type Deque []any

// ByteArray is Python's bytearray at top level, where it has a kind of its own.
// Inside another value LangGraph writes it as bytes, and so does stele.
type ByteArray []byte

// ZoneInfo is Python's zoneinfo.ZoneInfo: the key of a time zone, such as
// "Europe/Berlin". time.LoadLocation takes it.
type ZoneInfo string

// Regexp is a compiled Python pattern. It is not a Go regexp: the syntaxes
// differ.
type Regexp struct {
	Pattern string
	Bytes   bool  // the pattern is for bytes, not text
	Flags   int64 // Python's flags; 32 (re.UNICODE) is set for every text pattern
}

// Path is a Python pathlib path. Its parts are as pathlib splits them: the root
// of an absolute path is a part.
type Path struct {
	Module string // "pathlib", or "pathlib._local" from Python 3.13; empty is "pathlib"
	Class  string // "PosixPath", "WindowsPath" or "Path"; empty is "PosixPath"
	Parts  []string
}

// NewPath splits a slash-separated path as pathlib does. It drops "." and empty parts, and
// keeps "..".
func NewPath(path string) Path {
	var p Path
	switch {
	case strings.HasPrefix(path, "//") && !strings.HasPrefix(path, "///"):
		p.Parts = append(p.Parts, "//") // POSIX leaves exactly two slashes to the system
	case strings.HasPrefix(path, "/"):
		p.Parts = append(p.Parts, "/")
	}
	for part := range strings.SplitSeq(path, "/") {
		if part != "" && part != "." {
			p.Parts = append(p.Parts, part)
		}
	}
	return p
}

// String joins the parts: with backslashes for a WindowsPath, with slashes for
// any other. The empty path is ".".
func (p Path) String() string {
	if len(p.Parts) == 0 {
		return "."
	}
	sep := "/"
	if p.Class == "WindowsPath" {
		sep = `\`
	}
	root := p.Parts[0]
	if strings.HasSuffix(root, sep) {
		return root + strings.Join(p.Parts[1:], sep)
	}
	return strings.Join(p.Parts, sep)
}

// NDArray is a numpy array: shape and raw elements, not interpreted.
type NDArray struct {
	DType string  // numpy's type string: "<f8", "|u1", …
	Shape []int64 // elements along each axis; empty for a scalar
	Order string  // "C" (rows together) or "F" (columns together)
	Data  []byte
}

// Key is a map key that Go cannot compare: a Python tuple or bytes. Two keys
// are equal if their values are.
type Key struct {
	enc string // msgpack
}

// NewKey returns the key for v: []byte for bytes, []any for a tuple, whose
// elements may again be tuples, bytes, or scalars that are map keys themselves.
func NewKey(v any) (Key, error) {
	switch v.(type) {
	case []any, []byte:
	default:
		return Key{}, fmt.Errorf("make map key of %T: %w", v, ErrUnsupported)
	}
	e := encoder{c: Default()}
	if err := e.value(v); err != nil {
		return Key{}, rooted(err)
	}
	if c := newCursor(e.buf); c.keyable() != nil {
		return Key{}, fmt.Errorf("make map key of %T: %w", v, ErrUnsupported)
	}
	return Key{enc: string(e.buf)}, nil
}

// Value is []byte or []any, fresh on each call. It is nil for the zero Key.
func (k Key) Value() any {
	if k.enc == "" {
		return nil
	}
	v, _, err := Default().decodeMsgpack([]byte(k.enc), nil, budget{limit: -1})
	if err != nil {
		return nil // not reached: only this package makes keys, from bytes it has read or written
	}
	return v
}

// String shows the value, for people.
func (k Key) String() string { return fmt.Sprint(k.Value()) }

// keyable checks that the value at the cursor may be a map key, and steps over it. Like
// LangGraph, it refuses maps and extensions.
func (c *cursor) keyable() error {
	for left := 1; left > 0; left-- {
		it, err := c.next()
		if err != nil {
			return err
		}
		switch it.class {
		case cMap, cExt:
			return errKey
		case cStr, cBin:
			c.off += it.n
		case cArray:
			left += it.n
		}
		if left > c.end-c.off+1 {
			return errCount
		}
	}
	return nil
}
