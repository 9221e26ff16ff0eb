package store

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/serde"
)

// TestItemGolden pins the bytes of docs/format/item.md.
func TestItemGolden(t *testing.T) {
	for name, c := range map[string]struct{ got, want string }{
		"thread":   {partitionOf(idOf(Namespace{"users", "a\x00n"})), "737573657273000061" + "00ff6e" + "0000"},
		"item":     {itemKey("food"), "69666f6f64"},
		"for ever": {encodeMeta(meta{created: 1000, updated: 3000}), "0100" + "d00f" + "a01f"},
		"expiring": {encodeMeta(meta{created: 1000, updated: 1000, expires: 61_000_000, ttl: 60_000_000}), "0101" + "d00f" + "00" + "80a5963a" + "809c9c39"},
		"summary": {string(summarize(map[string]any{"a": nil, "b": true, "c": -2, "d": 1.5, "e": "x", "f": []any{}, "g": uint64(math.MaxUint64), "h": false})),
			"02" + "016101" + "016203" + "01630403" + "016406000000000000f83f" + "0165070178" + "016600" + "016705ffffffffffffffffff01" + "016802"},
		"vectors": {string(encodeVectors([][]float32{{1, 2}, {0.5, -1}}, 2)), "01" + "02" + "02" + "0000803f" + "00000040" + "0000003f" + "000080bf"},
	} {
		if got := hex.EncodeToString([]byte(c.got)); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, c.want)
		}
	}
}

func FuzzNamespaceKey(f *testing.F) {
	for _, ns := range []Namespace{{}, {"a"}, {"a", "b"}, {"", "\x00"}, {"a\x00\x00", "\xff"}} {
		f.Add(idOf(ns))
	}
	f.Add("a\x00\x01")
	f.Fuzz(func(t *testing.T, id string) {
		ns, ok := namespaceOf(id)
		if !ok {
			return
		}
		if back := idOf(ns); back != id {
			t.Fatalf("%q is %q, which is %q", id, []string(ns), back)
		}
	})
}

// TestKeysSortAsLabels: the order of keys is that of namespaces, label by label,
// and a namespace stands right before those below it.
func TestKeysSortAsLabels(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		label := rapid.SampledFrom([]string{"", "a", "ab", "b", "\x00", "a\x00", "\x00\x00", "\xff", "a\xff", "\x01"})
		draw := rapid.SliceOfN(label, 0, 4)
		a, b := draw.Draw(t, "a"), draw.Draw(t, "b")
		ka, kb := idOf(a), idOf(b)
		if slices.Compare(a, b) != strings.Compare(ka, kb) {
			t.Fatalf("%q and %q compare as %d, their keys as %d", a, b, slices.Compare(a, b), strings.Compare(ka, kb))
		}
		if below := len(b) >= len(a) && slices.Equal(a, b[:len(a)]); below != strings.HasPrefix(kb, ka) {
			t.Fatalf("%q below %q: %v", b, a, below)
		}
		if back, ok := namespaceOf(ka); !ok || !slices.Equal(back, a) {
			t.Fatalf("%q comes back as %q", a, back)
		}
	})
}

func FuzzMeta(f *testing.F) {
	for _, m := range []meta{{}, {created: 1, updated: 2}, {created: math.MinInt64, updated: math.MaxInt64, expires: -1, ttl: 5}} {
		f.Add(encodeMeta(m))
	}
	f.Add("\x02\x00\x00\x00")
	f.Add("\x01\x01\x00\x00\x00\x00")
	f.Fuzz(func(t *testing.T, s string) {
		m, err := decodeMeta(s)
		if err != nil {
			if !errors.Is(err, saver.ErrCorrupt) && !errors.Is(err, fault.ErrVersion) {
				t.Fatalf("%q: %v", s, err)
			}
			return
		}
		if back, err := decodeMeta(encodeMeta(m)); err != nil || back != m {
			t.Fatalf("%+v comes back as %+v, %v", m, back, err)
		}
	})
}

func FuzzVectors(f *testing.F) {
	f.Add(encodeVectors([][]float32{{1, 2, 3}}, 3), 3)
	f.Add(encodeVectors([][]float32{{1}, {2}}, 1), 2)
	f.Add([]byte{1, 2, 0xff, 0xff, 0xff, 0xff, 0x0f}, 2)
	f.Add([]byte{2}, 1)
	f.Add([]byte{1, 1, 1, 0, 0, 0xc0, 0x7f}, 1)
	f.Fuzz(func(t *testing.T, b []byte, dims int) {
		rows, n, err := decodeVectors(nil, b, dims)
		if err != nil {
			if !errors.Is(err, saver.ErrCorrupt) && !errors.Is(err, fault.ErrVersion) {
				t.Fatal(err)
			}
			return
		}
		if len(rows) != n*max(dims, 0) || 4*len(rows) > len(b) {
			t.Fatalf("%d floats of %d vectors from %d bytes", len(rows), n, len(b))
		}
		if n == 0 {
			return
		}
		if again, m, err := decodeVectors(nil, encodeVectors(slices.Collect(slices.Chunk(rows, dims)), dims), dims); err != nil || m != n || !slices.Equal(again, rows) {
			t.Fatalf("vectors come back as %d, %v", m, err)
		}
	})
}

func FuzzSummary(f *testing.F) {
	f.Add(string(summarize(map[string]any{"a": nil, "b": true, "c": -2, "d": 1.5, "e": "x", "f": []any{}, "g": uint64(math.MaxUint64)})), "b")
	f.Add("\x02\x01a", "a")
	f.Add("\x02\x01a\x07\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", "a")
	f.Add("", "a")
	f.Add("\x01", "a")
	f.Fuzz(func(t *testing.T, summary, key string) {
		key = strings.TrimLeft(key, "$") // as no filter has it
		for _, want := range []any{nil, 1, "x", map[string]any{"$gt": 0}} {
			c, err := compileFilter(map[string]any{key: want, "zz": nil})
			if err != nil {
				t.Fatal(err)
			}
			c.matchSummary(summary)
		}
	})
}

// TestSummaryAgreesWithValue: whatever a summary answers, the value that comes back
// from disk answers too.
func TestSummaryAgreesWithValue(t *testing.T) {
	scalars := rapid.SampledFrom([]any{nil, true, false, 0, 1, -1, 1.0, 1.5, int64(math.MaxInt64), uint64(math.MaxUint64), float64(1 << 63),
		math.NaN(), math.Inf(1), "", "a", "1", strings.Repeat("long", 50), float32(1.1), int8(-1), "\xff\xfe", []any{1}, map[string]any{"a": 1}, []byte("a")})
	names := rapid.SampledFrom([]string{"a", "b", "bb", "c", "", "é"})
	wants := rapid.OneOf(scalars.Filter(func(v any) bool { f, ok := v.(float64); return !ok || !math.IsNaN(f) }),
		rapid.Custom(func(t *rapid.T) any {
			op := rapid.SampledFrom([]string{"$eq", "$ne", "$gt", "$gte", "$lt", "$lte"}).Draw(t, "op")
			return map[string]any{op: rapid.SampledFrom([]any{true, 0, 1, 1.5, "a", uint64(math.MaxUint64)}).Draw(t, "operand")}
		}))
	settled := 0
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.MapOfN(names, scalars, 0, 5).Draw(t, "value")
		c, err := compileFilter(rapid.MapOfN(names, wants, 1, 3).Draw(t, "filter"))
		if err != nil {
			t.Fatal(err)
		}
		typed, err := serde.Default().Encode(value)
		if err != nil {
			return
		}
		back, err := decodeValue(serde.Default(), typed)
		if err != nil {
			t.Fatal(err)
		}
		full := c.match(back)
		summary := summarize(value)
		for _, s := range []string{string(summary), string(append([]byte{summaryPart}, summary[1:]...))} {
			switch answer := c.matchSummary(s); {
			case answer == yes && !full, answer == no && full:
				t.Fatalf("the summary says %d, the value %v", answer, full)
			case answer != unknown:
				settled++
			}
		}
	})
	if settled == 0 {
		t.Error("no summary ever knew")
	}
}

func TestSummaryIsBounded(t *testing.T) {
	value := map[string]any{}
	for i := range 1000 {
		value[strings.Repeat("k", i%50)+string(rune('a'+i%26))+string(rune('a'+i/26%26))] = i
	}
	if s := summarize(value); len(s) > maxSummary || s[0] != summaryPart {
		t.Errorf("%d bytes, form %d", len(s), s[0])
	}
	if s := summarize(map[string]any{strings.Repeat("k", 2*maxSummary): 1}); !bytes.Equal(s, []byte{summaryPart}) {
		t.Errorf("a long name: %d bytes", len(s))
	}
}

func TestExactNumbers(t *testing.T) {
	big := int64(1<<53 + 1)
	for _, c := range []struct {
		a, b any
		want int
	}{
		{big, float64(1 << 53), 1}, {float64(1 << 53), big, -1}, {int64(math.MaxInt64), float64(1 << 63), -1},
		{uint64(math.MaxUint64), math.Inf(1), -1}, {int64(math.MinInt64), -float64(1 << 63), 0}, {int64(math.MinInt64), -float64(1 << 64), 1}, {int64(math.MinInt64), math.Inf(-1), 1},
		{-1, -1.5, 1}, {-2, -1.5, -1}, {1, 1.5, -1}, {0, math.Copysign(0, -1), 0}, {-1, uint64(math.MaxUint64), -1}, {-3, -2, -1},
	} {
		if got, ok := scalarOf(c.a).compare(scalarOf(c.b)); !ok || got != c.want {
			t.Errorf("%v against %v: %d, %v; want %d", c.a, c.b, got, ok, c.want)
		}
	}
}

// TestScores compares dot and squaredDistance with plain sums, at lengths around their
// step of eight.
func TestScores(t *testing.T) {
	for n := range 100 {
		a, b := make([]float32, n), make([]float32, n)
		var dots, dist float64
		for i := range n {
			a[i], b[i] = float32(i%7)-3, float32(i%5)-2
			dots += float64(a[i]) * float64(b[i])
			dist += float64(a[i]-b[i]) * float64(a[i]-b[i])
		}
		if got, far := dot(a, b), squaredDistance(a, b); float64(got) != dots || float64(far) != dist {
			t.Errorf("%d dimensions: %v and %v, want %v and %v", n, got, far, dots, dist)
		}
	}
}
