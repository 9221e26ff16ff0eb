package wal

import (
	"math/rand/v2"
	"testing"
)

// TestLastUsed: the last byte that is not zero is found wherever it lies.
func TestLastUsed(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 2000 {
		b := make([]byte, r.IntN(4*pageSize))
		want := 0
		if len(b) > 0 && r.IntN(5) > 0 {
			want = 1 + r.IntN(len(b))
			b[want-1] = byte(1 + r.IntN(255))
			for range r.IntN(4) {
				b[r.IntN(want)] = byte(r.IntN(256))
			}
			b[want-1] |= 1
		}
		if got := lastUsed(b); got != want {
			t.Fatalf("%d bytes of %d are used, want %d", got, len(b), want)
		}
	}
}
