package saver

import "github.com/stele-go/stele/serde"

// PackKind is what stands before the data of a typed value that is stored. It is
// for other parts of the same store; docs/format/checkpoint.md has the bytes.
func PackKind(kind string) []byte { return kindPrefix(kind) }

// UnpackTyped reads a value that was stored behind PackKind. The data is not
// copied. Bytes that no build writes are ErrCorrupt, those of a newer one a
// VersionError.
func UnpackTyped(b []byte) (serde.Typed, error) {
	t, err := splitTyped(b)
	if err != nil {
		return serde.Typed{}, asCorrupt(err)
	}
	return t, nil
}
