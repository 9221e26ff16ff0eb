package index

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// A look finds what a cursor finds, whatever keys have in common.
func TestPackedGet(t *testing.T) {
	key := rapid.StringOfN(rapid.SampledFrom([]rune("ab\x00z")), 0, 12, -1)
	rapid.Check(t, func(t *rapid.T) {
		keys := rapid.SliceOfN(key, 0, 100).Draw(t, "keys")
		slices.Sort(keys)
		keys = slices.Compact(keys)
		var w packer
		for _, k := range keys {
			w.add([]byte(k), []byte("of "+k))
		}
		p := w.done()
		for _, k := range append(rapid.SliceOfN(key, 1, 50).Draw(t, "asked for"), keys...) {
			c := p.seek(k)
			want := c.ok && string(c.key) == k
			got, ok := p.get(k)
			if ok != want || ok && string(got) != "of "+k || ok != slices.Contains(keys, k) {
				t.Fatalf("%q: %q, %v; want %v", k, got, ok, want)
			}
		}
	})
}
