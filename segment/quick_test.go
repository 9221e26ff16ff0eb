package segment

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
)

// A quick segment has S2 in every frame that S2 may be in: blocks of older values as well.
// A value that is too large for S2 is compressed with zstd.
func TestQuick(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	f, or := &memFile{}, newOracle()
	b, err := NewBuilder(f, BuilderOptions{FileNum: 12, Salt: 3, Quick: true})
	must(t, err)
	or.family(t, b, r, 1, [][]byte{text(r, 900)}, [][]byte{text(r, 30<<10), text(r, 30<<10), text(r, 30<<10)})
	or.family(t, b, r, 2, nil, [][]byte{text(r, maxQuickRaw+1)})
	_, err = b.Finish()
	must(t, err)
	or.check(t, open(t, f))
	blocks := map[string]int{}
	_, _, err = Inspect(context.Background(), f, "000012.seg", int64(len(f.b)), func(i FrameInfo) error {
		if i.Kind == "history block" {
			blocks[i.Codec]++
		}
		return nil
	})
	must(t, err)
	if blocks["s2"] != 2 || blocks["zstd"] != 1 || len(blocks) != 2 {
		t.Errorf("blocks of older values by codec: %v", blocks)
	}
	if _, err := NewBuilder(&memFile{}, BuilderOptions{Quick: true, BlockSize: maxQuickRaw + 1}); !errors.Is(err, ErrUsage) {
		t.Errorf("a block larger than S2 may have: %v", err)
	}
}
