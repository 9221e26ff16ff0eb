package engine

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stele-go/stele/base/race"
	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/index"
)

// TestLogOfAChatIsLinear: a list that grows by a message a step takes in the log what its
// messages take, times a constant: twice the steps are at most 2.1 times the bytes. So
// the list is never logged whole because a chain has become too long. LINEAR_MESSAGE
// is the size of a message; values stay below the largest that is patched up to 1,280.
func TestLogOfAChatIsLinear(t *testing.T) {
	t.Parallel()
	const from = 200
	size := 64
	if s := os.Getenv("LINEAR_MESSAGE"); s != "" {
		n, err := strconv.Atoi(s)
		must(t, err)
		size = n
	}
	rng := rand.New(rand.NewPCG(1, uint64(size)))
	text := func(int) string {
		var b strings.Builder
		for b.Len() < size {
			b.WriteString(chatWords[rng.IntN(len(chatWords))])
		}
		return b.String()[:size]
	}
	for name, c := range map[string]struct {
		message func(int) string
		to      int
		most    float64
	}{
		"text": {text, 6400, 2.1},
		// What cannot be compressed is seen to be logged once more from 256 steps on.
		"noise": {func(n int) string { return noise(n, size) }, 1600, 2.4},
	} {
		t.Run(name, func(t *testing.T) {
			e := mustOpen(t, quietOptions(vfs.NewMem(vfs.MemOptions{})))
			var list []byte
			to := c.to
			if race.Enabled {
				to = 1600 // what it takes grows as the square
			}
			logged, longest := map[int]int64{}, 0
			for n := 1; n <= to; n++ {
				list = append(list, c.message(n)...)
				ref := putVersion(t, e, "t", versionKey(n), fmt.Sprintf("%06d", n)+string(list))
				if next := max(logged[0], from); n == int(next) { // 200, 400, ...
					th, err := e.Partition("t")
					must(t, err)
					chain, _, ok := th.Family.Chain(ref, nil)
					if longest = max(longest, len(chain)-1); !ok || longest > index.MaxChain {
						t.Errorf("after %d steps a chain has %d patches", n, longest)
					}
					logged[n], logged[0] = e.Metrics().Log.Bytes, 2*next
				}
			}
			for n := from; n < to; n *= 2 {
				ratio := float64(logged[2*n]) / float64(logged[n])
				t.Logf("%d steps: %d bytes; twice as many: × %.2f", n, logged[n], ratio)
				if ratio > c.most {
					t.Errorf("%d steps take %d bytes of log, %d steps %d: × %.2f", n, logged[n], 2*n, logged[2*n], ratio)
				}
			}
			for _, n := range []int{1, 33, 513, 1089, to} {
				th, err := e.Partition("t")
				must(t, err)
				b, err := e.ReadValue(t.Context(), th.Family, th.Get(versionKey(n)).Slots.At(0).Ref)
				if want := fmt.Sprintf("%06d", n) + string(list[:n*size]); err != nil || string(b) != want {
					t.Errorf("version %d is not what was put: %v", n, err)
				}
			}
			// Close would make all of it a segment.
			must(t, e.Commit(t.Context(), []string{"t"}, func(tx *Tx) error { return tx.Drop("t", nil) }))
			must(t, e.Close())
		})
	}
}
