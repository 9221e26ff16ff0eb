package bench

import (
	"bytes"
	"context"
	"testing"

	"github.com/cespare/xxhash/v2"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
)

// kept keeps what a benchmark makes from being left out by the compiler.
var kept struct {
	bytes []byte
	sum   uint64
	tuple *saver.Tuple
}

// BenchmarkW4Floor is what W4 cannot go below: handing out what it hands out, made
// of what is in memory already. Values are copied once into memory of their own, and
// that is all (copy), or summed as well (copy-and-sum); a tuple without values is its
// maps (tuples).
func BenchmarkW4Floor(b *testing.B) {
	s := openStore(b, stores.history(b), disk.Options{})
	var values [][]byte
	var tuples []*saver.Tuple
	for tup, err := range s.List(context.Background(), saver.Query{ThreadID: historyThread.ThreadID}) {
		must(b, err)
		tuples = append(tuples, tup)
		for _, v := range tup.Checkpoint.Values {
			typed, err := v.Typed()
			must(b, err)
			values = append(values, typed.Data)
		}
		for _, w := range tup.PendingWrites {
			typed, err := w.Value.Typed()
			must(b, err)
			values = append(values, typed.Data)
		}
	}
	must(b, s.Close())
	copyAll := func(sum bool) func(b *testing.B) {
		return func(b *testing.B) {
			b.ReportAllocs()
			cpu := startCPU()
			for b.Loop() {
				for _, v := range values {
					half := len(v) / 2
					kept.bytes = bytes.Join([][]byte{v[:half], v[half:]}, nil)
					if sum {
						kept.sum += xxhash.Sum64(kept.bytes)
					}
				}
			}
			cpu.report(b, b.N)
		}
	}
	b.Run("copy", copyAll(false))
	b.Run("copy-and-sum", copyAll(true))
	b.Run("tuples", func(b *testing.B) {
		b.ReportAllocs()
		cpu := startCPU()
		for b.Loop() {
			for _, t := range tuples {
				kept.tuple = again(t)
			}
		}
		cpu.report(b, b.N)
	})
}

// again is a tuple with maps of its own and the contents of t.
func again(t *saver.Tuple) *saver.Tuple {
	out := *t
	out.Metadata = make(saver.Metadata, len(t.Metadata))
	for k, v := range t.Metadata {
		if m, ok := v.(map[string]any); ok {
			v = fresh(m)
		}
		out.Metadata[k] = v
	}
	out.Checkpoint.Values = fresh(t.Checkpoint.Values)
	out.Checkpoint.Versions = fresh(t.Checkpoint.Versions)
	out.Checkpoint.Seen = make(map[string]map[string]saver.Version, len(t.Checkpoint.Seen))
	for node, seen := range t.Checkpoint.Seen {
		out.Checkpoint.Seen[node] = fresh(seen)
	}
	out.PendingWrites = append([]saver.PendingWrite(nil), t.PendingWrites...)
	return &out
}

func fresh[V any](m map[string]V) map[string]V {
	out := make(map[string]V, len(m))
	for k, v := range m {
		out[k] = v
	}
	return out
}
