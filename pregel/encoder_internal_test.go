package pregel

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stele-go/stele/saver/serde"
)

// growCodec counts what is serialized from where it grew.
type growCodec struct {
	*serde.Codec
	grown int
}

func (c *growCodec) Grower() (serde.Grower, bool) { return c, true }

func (c *growCodec) EncodeGrown(was serde.Typed, list any, n int) (serde.Grown, bool) {
	g, ok := c.Codec.EncodeGrown(was, list, n)
	if ok {
		c.grown++
	}
	return g, ok
}

type note struct {
	Text string
	Tags map[string]any
	At   time.Time
	N    float64
}

// Whatever supersteps make of a list, what is stored is the whole of it.
func TestListsAreStoredWhole(t *testing.T) {
	grown := 0
	rapid.Check(t, func(t *rapid.T) {
		codec := &growCodec{Codec: serde.Default()}
		l := &encoder{codec: codec}
		n := 0
		fresh := func() note {
			n++
			return note{Text: strings.Repeat(fmt.Sprintf("note %d ", n), 30), Tags: map[string]any{"n": n}, At: time.Unix(int64(n), 0).UTC()}
		}
		notes, anys := []note{}, []any{}
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			i := -1
			if len(notes) > 0 {
				i = rapid.IntRange(0, len(notes)-1).Draw(t, "at")
			}
			switch what := rapid.IntRange(0, 9).Draw(t, "what"); {
			case what < 5 || i < 0:
				for range rapid.IntRange(1, 3).Draw(t, "more") {
					x := fresh()
					notes, anys = append(notes, x), append(anys, map[string]any{"text": x.Text, "tags": x.Tags, "at": x.At, "n": x.N})
				}
			case what == 5: // replaced, and one more
				x := fresh()
				notes, anys = append(slices.Clone(notes), x), append(slices.Clone(anys), x)
				notes[i], anys[i] = x, x
			case what == 6: // removed, and two more
				notes, anys = append(slices.Delete(slices.Clone(notes), i, i+1), fresh(), fresh()), append(slices.Delete(slices.Clone(anys), i, i+1), fresh(), fresh())
			case what == 7: // a zero that changes its sign, and one more
				notes, anys = append(slices.Clone(notes), fresh()), append(slices.Clone(anys), fresh())
				notes[i].N, anys[i] = math.Copysign(0, -1), math.Copysign(0, -1)
			case what == 8: // as it is
			default:
				notes, anys = notes[:i:i], anys[:i:i]
			}
			for ch, list := range map[string]any{"notes": notes, "anys": anys} {
				v, err := l.encodeChannel(ch, list)
				if err != nil {
					t.Fatal(err)
				}
				got, err := v.Typed()
				if err != nil {
					t.Fatal(err)
				}
				want, err := codec.Encode(list)
				if err != nil {
					t.Fatal(err)
				}
				if got.Kind != want.Kind || string(got.Data) != string(want.Data) {
					t.Fatalf("%s: %d elements are stored in %d bytes that are not those of the whole", ch, len(anys), len(got.Data))
				}
			}
		}
		grown += codec.grown
	})
	if grown < 100 {
		t.Errorf("%d lists were serialized from where they grew: the test tests nothing", grown)
	}
}

// A channel that holds no list, and a list that is short, keep nothing.
func TestShortListsAreNotKept(t *testing.T) {
	l := &encoder{codec: serde.Default()}
	for _, v := range []any{[]string{strings.Repeat("x", minGrown)}, []string{"x"}, "text", nil} {
		if _, err := l.encodeChannel("c", v); err != nil {
			t.Fatal(err)
		}
		list, ok := v.([]string)
		if kept, want := len(l.lists), ok && len(list[0]) > 1; (kept == 1) != want {
			t.Errorf("after %.8v %d lists are kept", v, kept)
		}
	}
}
