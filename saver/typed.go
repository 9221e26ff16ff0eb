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

// kindLost is the kind of what stands for a lost value; its data says why.
const kindLost = "stele.lost"

// LostValue returns what a store keeps in place of a value that could not be
// salvaged, for package saver/admin. Reading it gives ErrLost with the reason.
func LostValue(reason string) []byte { return append(kindPrefix(kindLost), reason...) }
