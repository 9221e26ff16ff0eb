package bench

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/klauspost/compress/s2"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
)

// packedTuple is the values of one tuple of W3, as one compressed block in a file.
type packedTuple struct {
	off    int64
	stored int
	values []int // lengths
}

// BenchmarkW3Floor is what a cold read of W3 cannot go below, as long as blocks are
// compressed and callers own what they are given: the block is read from the page
// cache, summed, decompressed into memory that is used again, and each value copied out
// of it.
// Everything else a read does, finding the thread and making its tuple, is left out.
func BenchmarkW3Floor(b *testing.B) {
	dir := stores.wide(b)
	s := openStore(b, dir, disk.Options{})
	f, err := os.Create(filepath.Join(b.TempDir(), "blocks"))
	must(b, err)
	var tuples []packedTuple
	var end int64
	for i := range sizes.threads {
		tup, err := s.GetTuple(context.Background(), saver.Config{ThreadID: wideThread(i)})
		must(b, err)
		p := packedTuple{off: end}
		var block []byte
		for _, v := range tup.Checkpoint.Values {
			typed, err := v.Typed()
			must(b, err)
			block = append(block, typed.Data...)
			p.values = append(p.values, len(typed.Data))
		}
		stored := s2.Encode(nil, block)
		_, err = f.WriteAt(stored, end)
		must(b, err)
		p.stored = len(stored)
		end += int64(len(stored))
		tuples = append(tuples, p)
	}
	must(b, s.Close())
	order := NewData(10).r.Perm(len(tuples))
	i, cpu := 0, startCPU()
	var in, block []byte
	b.ReportAllocs()
	for ; b.Loop(); i++ {
		p := &tuples[order[i%len(order)]]
		in = append(in[:0], make([]byte, p.stored)...)
		_, err := f.ReadAt(in, p.off)
		must(b, err)
		kept.sum += xxhash.Sum64(in)
		block, err = s2.Decode(block[:cap(block)], in)
		must(b, err)
		rest := block
		for _, n := range p.values {
			kept.bytes = bytes.Clone(rest[:n])
			rest = rest[n:]
		}
	}
	cpu.report(b, i)
	must(b, f.Close())
}
