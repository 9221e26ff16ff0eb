package engine

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/segment"
)

// What a flush writes is compressed quickly, since a compaction writes it again, and well.
// Where compaction would leave it alone for its size, the flush compresses well itself.
func TestFlushCompressesQuickly(t *testing.T) {
	ctx := context.Background()
	for _, c := range []struct {
		flushBytes              int64
		whenFlushed, whenMerged string
	}{{0, "s2", "zstd"}, {512 << 20, "zstd", "zstd"}} {
		e := mustOpen(t, Options{FS: vfs.NewMem(vfs.MemOptions{}), ManualWork: true, NoPatches: true, FlushBytes: c.flushBytes,
			Hot: func(entries []*index.Entry) []bool { return make([]bool, len(entries)) }})
		for i := range 40 {
			v, err := NewValue([]byte(strings.Repeat(fmt.Sprintf("value %d, ", i), 200)))
			must(t, err)
			must(t, e.Commit(ctx, []string{"t"}, func(tx *Tx) error {
				return tx.Put("t", fmt.Sprintf("k%03d", i), 0, []SlotIn{{Name: "v", Value: &v}})
			}))
		}
		must(t, e.Flush(ctx))
		if got := codecs(t, e); got != c.whenFlushed {
			t.Errorf("FlushBytes %d: flushed with %s", c.flushBytes, got)
		}
		must(t, e.Compact(ctx))
		if got := codecs(t, e); got != c.whenMerged {
			t.Errorf("FlushBytes %d: merged with %s", c.flushBytes, got)
		}
		must(t, e.Close())
	}
}

// codecs are those of the blocks of older values, of the store's only segment.
func codecs(t *testing.T, e *Engine) string {
	t.Helper()
	segs := e.manifest.State().Segments
	if len(segs) != 1 {
		t.Fatalf("%d segments", len(segs))
	}
	path := e.Files.path(base.SegmentFile, segs[0].Num)
	f, err := e.Opts.FS.Open(path)
	must(t, err)
	defer f.Close()
	found := map[string]bool{}
	_, _, err = segment.Inspect(context.Background(), f, base.SegmentFile.Name(segs[0].Num), segs[0].Size, func(i segment.FrameInfo) error {
		if i.Kind == "history block" {
			found[i.Codec] = true
		}
		return nil
	})
	must(t, err)
	names := ""
	for name := range found {
		names += name
	}
	return names
}

// A flush that compresses quickly tries no patch of a small value where the log has none. A
// compaction tries, and so does a flush that no compaction follows.
func TestFlushTriesWhatTheLogPatched(t *testing.T) {
	ctx := context.Background()
	const n, small, large = 20, 1 << 10, 8 << 10
	value := func(size, i int) string { return fmt.Sprintf("%06d", i) + strings.Repeat("the same. ", size/10) }
	for _, c := range []struct {
		name            string
		size            int
		flushBytes      int64
		versions        int64 // Options.VersionBytes: negative logs all values whole
		flushed, merged int64 // patches
	}{
		{"patched", small, 0, 0, n - 1, n - 1},
		{"whole", small, 0, -1, 0, n - 1},
		{"whole and large", large, 0, -1, n - 1, n - 1},
		{"whole, no compaction", small, 512 << 20, -1, n - 1, n - 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := mustOpen(t, Options{FS: vfs.NewMem(vfs.MemOptions{}), ManualWork: true, Hot: lastHot, FlushBytes: c.flushBytes, VersionBytes: c.versions, PatchRun: 15})
			for i := range n {
				putVersion(t, e, "t", versionKey(i), value(c.size, i))
			}
			must(t, e.Flush(ctx))
			flushed := e.Metrics().SegmentPatches
			must(t, e.Compact(ctx))
			if merged := e.Metrics().SegmentPatches - flushed; flushed != c.flushed || merged != c.merged {
				t.Errorf("a flush made %d patches and a compaction %d, wanted %d and %d", flushed, merged, c.flushed, c.merged)
			}
			for i := range n {
				if got, err := read(e, "t", versionKey(i)); err != nil || got != value(c.size, i) {
					t.Errorf("version %d: %d bytes, %v", i, len(got), err)
				}
			}
			must(t, e.Close())
		})
	}
}
