package layout

import (
	"errors"
	"fmt"

	"github.com/stele-go/stele/fault"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/serde"
)

// PackKind is what stands before the data of a typed value that is stored. It is
// for other parts of the same store; docs/format/checkpoint.md has the bytes.
func PackKind(kind string) []byte { return KindPrefix(kind) }

// UnpackTyped reads a value that was stored behind PackKind. The data is not
// copied. Bytes that no build writes are ErrCorrupt, those of a newer one a
// VersionError.
func UnpackTyped(b []byte) (serde.Typed, error) {
	t, err := SplitTyped(b)
	if err != nil {
		return serde.Typed{}, AsCorrupt(err)
	}
	return t, nil
}

// KindLost is the kind of what stands for a lost value; its data says why.
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
