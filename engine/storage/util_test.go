package storage

import (
	"math/rand/v2"
	"runtime"
	"testing"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func heapNow() int64 {
	runtime.GC()
	runtime.GC() // cleanups of what the first one found
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func noise(seed, n int) string {
	r := rand.New(rand.NewPCG(uint64(seed), 9))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return string(b)
}
