package engine

import (
	"fmt"
	"testing"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/snapshot"
)

// A segment is rewritten alone when much of it is dead, and not merged any more
// when it has grown large.
func TestWhatIsCompacted(t *testing.T) {
	const large = 256 << 20
	seg := func(n int, size int64) snapshot.SegmentInfo {
		return snapshot.SegmentInfo{Num: base.FileNum(n), Size: size, Raw: 2 * size}
	}
	many := []snapshot.SegmentInfo{seg(1, 10<<20), seg(2, 11<<20), seg(3, 12<<20), seg(4, large), seg(5, large)}
	for _, c := range []struct {
		fanout int
		dead   map[base.FileNum]int64
		want   string
	}{
		{3, nil, "[1 2 3]"},
		{4, nil, "[]"},
		{2, map[base.FileNum]int64{4: large}, "[1 2 3]"},
		{4, map[base.FileNum]int64{1: 3 << 20}, "[]"},
		{4, map[base.FileNum]int64{1: 4 << 20, 4: large / 2}, "[4]"},
		{4, map[base.FileNum]int64{1: 4 << 20, 4: large / 4}, "[1]"},
	} {
		got := pickCompaction(many, c.fanout, large)
		if got == nil {
			got = mostlyDead(many, c.dead)
		}
		nums := []int{}
		for _, s := range got {
			nums = append(nums, int(s.Num))
		}
		if fmt.Sprint(nums) != c.want {
			t.Errorf("fan-out %d, dead %v: %v, want %s", c.fanout, c.dead, nums, c.want)
		}
	}
	if mostlyDead([]snapshot.SegmentInfo{seg(1, minDead)}, map[base.FileNum]int64{1: minDead - 1}) != nil {
		t.Error("a small segment is rewritten for little")
	}
}
