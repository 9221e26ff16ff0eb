package disk

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/engine"
	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/layout"
	"github.com/stele-go/stele/saver/rules"
)

// TestMemoryOfANewerBuild: what cannot be read of a deleted thread refuses what hangs
// on it, before anything is written, and is told apart from damage.
func TestMemoryOfANewerBuild(t *testing.T) {
	ctx := context.Background()
	for first, want := range map[byte]error{memoFormat + 1: fault.ErrVersion, 0: saver.ErrCorrupt} {
		s, err := Open("store", Options{ManualWork: true, Simulation: Simulation{FS: vfs.NewMem(vfs.MemOptions{})}})
		if err != nil {
			t.Fatal(err)
		}
		err = s.e.Commit(ctx, []string{layout.ThreadKey("t")}, func(tx *engine.Tx) error {
			return errors.Join(tx.Put(layout.ThreadKey("t"), layout.CheckpointKey("", "1"), 0, nil), tx.Drop(layout.ThreadKey("t"), []byte{first, 'x'}))
		})
		if err != nil {
			t.Fatal(err)
		}
		last := s.Stats().LastLSN
		_, put := s.Put(ctx, saver.Config{ThreadID: "t", CheckpointID: "1"}, saver.Checkpoint{V: 4, ID: "2"}, nil, nil)
		writes := s.PutWrites(ctx, saver.Config{ThreadID: "t", CheckpointID: "1"}, []saver.Write{{Channel: "c", Value: saver.ValueOf("v")}}, "task", "")
		for what, err := range map[string]error{"Put": put, "PutWrites": writes} {
			if !errors.Is(err, want) {
				t.Errorf("%s on a memory of format %d: %v, want %v", what, first, err, want)
			}
		}
		if now := s.Stats().LastLSN; now != last {
			t.Errorf("format %d: records up to %d were written, had %d", first, now, last)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// FuzzMemory: a memory is read as it was written, or refused.
func FuzzMemory(f *testing.F) {
	f.Add(encodeMemo(""))
	f.Add(encodeMemo(rules.ErasedID))
	f.Add([]byte{0, 'x'})
	f.Add([]byte{memoFormat + 1, 'x'})
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) == 0 {
			return // nothing is remembered
		}
		d, err := decodeMemo("t", index.Tombstone{Data: b, At: 1})
		if err != nil {
			if !errors.Is(err, fault.ErrVersion) && !errors.Is(err, saver.ErrCorrupt) {
				t.Fatalf("%x: an error of no type: %v", b, err)
			}
			return
		}
		if again := encodeMemo(d.GreatestID); !bytes.Equal(again, b) {
			t.Fatalf("%x is written as %x", b, again)
		}
	})
}

// FuzzTTL: a TTL is read as it was written, and what is none keeps its thread.
func FuzzTTL(f *testing.F) {
	for _, d := range []time.Duration{saver.NoTTL, time.Microsecond, time.Hour, 1<<63 - 1} {
		f.Add(packTTL(d))
	}
	f.Add("")
	f.Add("\x01\x00")
	f.Add("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff")
	f.Fuzz(func(t *testing.T, tag string) {
		d := unpackTTL(tag)
		if d < 0 && d != saver.NoTTL {
			t.Fatalf("%x is %v", tag, d)
		}
		if again := unpackTTL(packTTL(d)); again != d {
			t.Fatalf("%x is %v, and then %v", tag, d, again)
		}
		if d > 0 && rules.Expired(time.Unix(1, 0), time.Unix(1, 0), d, 0) {
			t.Fatalf("%x has expired at once", tag)
		}
	})
}
