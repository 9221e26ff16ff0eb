package delta

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/stele-go/stele/base"
)

// cut is b as parts, the first of them a byte as savers have it, or nothing.
func cut(r *rand.Rand, b []byte) [][]byte {
	switch {
	case len(b) == 0 || r.IntN(4) == 0:
		return [][]byte{b}
	case r.IntN(2) == 0:
		return [][]byte{b[:1], b[1:]}
	}
	i := r.IntN(len(b))
	return [][]byte{b[:i], {}, b[i:]}
}

// Versions that share pieces are each what was handed over, whatever becomes of the
// bytes that were; patches between them are those between the bytes.
func TestHeldVersions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 2))
		sizes := []int{0, 1, onePiece - 20, onePiece, onePiece + 1, 3 << pieceShift, 40_000, largeValue - 30}
		b := make([]byte, sizes[rapid.IntRange(0, len(sizes)-1).Draw(t, "size")])
		for i := range b {
			b[i] = byte('a' + r.IntN(26))
		}
		var was *Pieces
		var before []byte
		var held []*Pieces
		var want [][]byte
		for range rapid.IntRange(2, 6).Draw(t, "versions") {
			handed := bytes.Clone(b)
			if len(b) <= onePiece {
				handed = b // kept as it is
			}
			h, sum := Divide(was, cut(r, handed)...)
			if sum != base.Checksum(0, b) {
				t.Fatalf("%d bytes: another sum", len(b))
			}
			if len(b) > onePiece {
				clear(handed) // the caller's again
			}
			held, want = append(held, h), append(want, b)
			if was != nil {
				limit := len(b) - len(b)/4
				if r.IntN(2) == 0 {
					limit = 2*len(b) + 1000
				}
				if got, want := Between(was, h, sum, limit), Make(before, b, sum, limit); !bytes.Equal(got, want) {
					t.Fatalf("%d bytes against %d: a patch of %d bytes, held in one piece it has %d", len(b), len(before), len(got), len(want))
				}
			}
			was, before = h, b
			b = edit(r, b)
		}
		for i, h := range held {
			if h.Len() != len(want[i]) || !bytes.Equal(h.Append(nil, 0), want[i]) || !bytes.Equal(bytes.Join(h.Parts(), nil), want[i]) {
				t.Fatalf("version %d of %d bytes is another one", i, len(want[i]))
			}
			off := r.IntN(len(want[i]) + 1)
			if got := h.Append([]byte("x"), off); string(got) != "x"+string(want[i][off:]) {
				t.Fatalf("version %d from byte %d is another one", i, off)
			}
		}
	})
}

// Places that differ by pieces of pieces, at the edges of them.
func TestHeldEdges(t *testing.T) {
	const step = 1 << pieceShift
	was := make([]byte, 4*step)
	r := rand.New(rand.NewPCG(7, 8))
	for i := range was {
		was[i] = byte(r.Uint32())
	}
	held, _ := Divide(nil, was)
	for _, at := range []int{0, 1, step - 1, step, step + 1, 2*step - 9, 2 * step, 4*step - 1, 4 * step} {
		for name, to := range map[string][]byte{
			"changed":  append(append(bytes.Clone(was[:at]), bytes.Repeat([]byte{1}, min(12, len(was)-at))...), was[min(at+12, len(was)):]...),
			"inserted": append(append(bytes.Clone(was[:at]), "twelve bytes"...), was[at:]...),
			"removed":  append(bytes.Clone(was[:at]), was[min(at+12, len(was)):]...),
			"cut":      was[:at],
			"doubled":  append(bytes.Clone(was), was[:at]...),
		} {
			h, sum := Divide(held, to)
			got, want := Between(held, h, sum, len(was)*2), Make(was, to, sum, len(was)*2)
			if !bytes.Equal(got, want) || !bytes.Equal(apply(t, was, got), to) {
				t.Errorf("%s at %d: a patch of %d bytes, want %d", name, at, len(got), len(want))
			}
		}
	}
}

// What a list grew by is what the next version of it takes, whatever its length; a
// value that has nothing of the last one takes all.
func TestHeldCostsWhatChanged(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	b := make([]byte, 300_000)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	first, _ := Divide(nil, b[:200_000])
	grown, _ := Divide(first, append([]byte{b[0] + 1}, b[1:201_000]...))
	const most = 3<<pieceShift + pieceCost*200_000>>pieceShift + 200
	if n := grown.Size(first); n > most {
		t.Errorf("the next version of 200,000 bytes takes %d, want at most %d", n, most)
	}
	if n := first.Size(grown); n > most {
		t.Errorf("the last version beside the next takes %d, want at most %d", n, most)
	}
	if n := grown.Size(nil); n < grown.Len() {
		t.Errorf("%d bytes take %d", grown.Len(), n)
	}
	other, _ := Divide(first, b[100_000:])
	if n := other.Size(first); n < other.Len() {
		t.Errorf("%d bytes that are not shared take %d", other.Len(), n)
	}
	one := OnePiece(b[:100])
	if one.Size(one) != 0 || one.Size(first) != 100 || one.Size(OnePiece(b[1:101])) != 100 || OnePiece(nil).Size(one) != 0 {
		t.Error("values in one piece share memory with none but themselves")
	}
}

// BenchmarkHold is what the next version of a list of 133 KB costs, the average of W1:
// held and patched in pieces that are shared; copied whole and compared, as it was
// before there were pieces; and the floor, which is to sum it and to compare it once.
func BenchmarkHold(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	var list []byte
	for len(list) < 133_000 {
		list = append(list, message(r)...)
	}
	kind := []byte{1}
	was := append([]byte{200}, list...)
	// The caller's bytes are not in the processor's caches, as they are not in W1.
	var next [64][]byte
	for i := range next {
		next[i] = append(append([]byte{201}, list...), message(r)...)
	}
	base0, _ := Divide(nil, kind, was)
	flat := append(bytes.Clone(kind), was...)
	run := func(name string, fn func(to []byte)) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(next[0])))
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				fn(next[i%len(next)])
			}
		})
	}
	run("pieces", func(to []byte) {
		h, sum := Divide(base0, kind, to)
		Between(base0, h, sum, len(to)/2)
	})
	run("whole", func(to []byte) {
		sum := base.ChecksumParts(0, kind, to)
		whole := append(append(make([]byte, 0, 1+len(to)), kind...), to...)
		Make(flat, whole, sum, len(to)/2)
	})
	run("floor", func(to []byte) {
		base.ChecksumParts(0, kind, to)
		bytes.Equal(was[1:], to[1:len(was)])
	})
}
