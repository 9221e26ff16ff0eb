package layout

import (
	"errors"
	"fmt"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/serde"
)

// Codes of the kinds of typed values, the first byte of every stored value.
const (
	kindOther     = 0
	kindNull      = 1
	kindBytes     = 2
	kindByteArray = 3
	kindMsgpack   = 4
	kindJSON      = 5
)

var kindNames = [...]string{kindNull: serde.KindNull, kindBytes: serde.KindBytes, kindByteArray: serde.KindByteArray,
	kindMsgpack: serde.KindMsgpack, kindJSON: serde.KindJSON}

// KindRoom is the length of the prefix of a kind that has a code.
const KindRoom = 1

// KindPrefix returns the bytes stored before the data of a typed value; docs/format/checkpoint.md has
// them.
func KindPrefix(kind string) []byte {
	for code, name := range kindNames {
		if code != kindOther && name == kind {
			return []byte{byte(code)}
		}
	}
	return packStr([]byte{kindOther}, kind)
}

// SplitTyped is UnpackTyped with the errors of a decoder, for callers that add what was read.
func SplitTyped(b []byte) (serde.Typed, error) {
	if len(b) == 0 {
		return serde.Typed{}, ErrRecord
	}
	if code := b[0]; code != kindOther {
		if int(code) >= len(kindNames) {
			return serde.Typed{}, &fault.VersionError{File: "value kind", Have: uint32(code), Supported: uint32(len(kindNames) - 1)}
		}
		return serde.Typed{Kind: kindNames[code], Data: b[1:]}, nil
	}
	d := unpacker{b: b[1:]}
	kind := d.str()
	if d.err != nil || kind == "" {
		return serde.Typed{}, ErrRecord
	}
	return serde.Typed{Kind: kind, Data: d.b}, nil
}

// UnpackTyped reads a value that was stored behind KindPrefix. The data is not
// copied. Bytes that no build writes are ErrCorrupt, those of a newer one a
// VersionError.
func UnpackTyped(b []byte) (serde.Typed, error) {
	t, err := SplitTyped(b)
	if err != nil {
		return serde.Typed{}, AsCorrupt(err)
	}
	return t, nil
}

// KindLost is the kind of the value that replaces a lost one; its data is the reason.
const KindLost = "stele.lost"

// LostValue returns what a store keeps in place of a value that could not be
// salvaged, for package saver/admin. Reading it gives ErrLost with the reason.
func LostValue(reason string) []byte { return append(KindPrefix(KindLost), reason...) }

// AsCorrupt makes malformed content match ErrCorrupt; a newer format stays one.
func AsCorrupt(err error) error {
	if errors.Is(err, fault.ErrVersion) || errors.Is(err, saver.ErrCorrupt) {
		return err
	}
	return fmt.Errorf("%w: %w", saver.ErrCorrupt, err)
}
