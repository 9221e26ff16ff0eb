package delta

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"

	"github.com/stele-go/stele/internal/base"
)

// The patch of what grew makes it.
func TestGrow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		from := rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, "from")
		head := rapid.SliceOfN(rapid.Byte(), 0, 6).Draw(t, "head")
		at := rapid.IntRange(0, len(from)).Draw(t, "at")
		tail := bytes.Repeat(rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(t, "tail"), rapid.IntRange(1, 400).Draw(t, "times"))
		want := bytes.Join([][]byte{head, from[at:], tail}, nil)
		p := Grow(len(from), head, at, tail, base.Checksum(0, want), 1<<20)
		if p == nil {
			t.Fatalf("no patch")
		}
		if got := apply(t, from, p); !bytes.Equal(got, want) {
			t.Fatalf("made %x, want %x", got, want)
		}
		if Grow(len(from), head, at, tail, 0, len(p)-1) != nil {
			t.Fatalf("a patch beyond its limit")
		}
	})
}

// Places outside of what it grew from give no patch.
func TestGrowRefuses(t *testing.T) {
	from := []byte("base")
	for _, at := range []int{-1, 5} {
		if Grow(len(from), nil, at, []byte("tail"), 0, 100) != nil {
			t.Errorf("a patch from byte %d of %d", at, len(from))
		}
	}
}
