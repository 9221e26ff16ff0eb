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
		room   int64 // of 32 MiB that are kept back
		want   string
	}{
		{3, nil, 0, "[1 2 3]"},
		{4, nil, 0, "[]"},
		{2, map[base.FileNum]int64{4: large}, 0, "[1 2 3]"},
		{4, map[base.FileNum]int64{1: 3 << 20}, 0, "[]"},
		{4, map[base.FileNum]int64{1: 4 << 20, 4: large / 2}, 0, "[4]"},
		{4, map[base.FileNum]int64{1: 4 << 20, 4: large / 4}, 0, "[1]"},
		{4, map[base.FileNum]int64{1: 3 << 20}, -1, "[1]"},
		{4, map[base.FileNum]int64{1: 3 << 20, 4: large / 2}, -20 << 20, "[1]"},
		{4, map[base.FileNum]int64{1: 3 << 20, 4: large / 2}, -26 << 20, "[]"},
		{3, nil, 1 - 32<<20, "[]"},
		{3, nil, -1, "[]"},
		{3, map[base.FileNum]int64{2: 2 << 10}, -1, "[]"},
		{2, map[base.FileNum]int64{1: 40 << 10, 2: 40 << 10, 3: 11 << 20}, -24 << 20, "[3]"},
	} {
		got := nextCompaction(many, c.dead, &Options{CompactFanout: c.fanout, SegmentSize: large, Reserve: 32 << 20}, c.room)
		nums := []int{}
		for _, s := range got {
			nums = append(nums, int(s.Num))
		}
		if fmt.Sprint(nums) != c.want {
			t.Errorf("fan-out %d, dead %v, room %d: %v, want %s", c.fanout, c.dead, c.room, nums, c.want)
		}
	}
	if mostlyDead([]snapshot.SegmentInfo{seg(1, minDead)}, map[base.FileNum]int64{1: minDead - 1}) != nil {
		t.Error("a small segment is rewritten for little")
	}
}

// TestOutOfReach: what is deleted on a full disk but cannot be returned is told with the room that it takes.
func TestOutOfReach(t *testing.T) {
	segs := []snapshot.SegmentInfo{{Num: 1, Size: 16 << 20}, {Num: 2, Size: 32 << 20}, {Num: 3, Size: 4 << 20}}
	for _, c := range []struct {
		dead        map[base.FileNum]int64
		free        int64
		bytes, need int64
	}{
		{nil, 0, 0, 0},
		{map[base.FileNum]int64{3: minFreed - 1}, 0, 0, 0},
		{map[base.FileNum]int64{1: 8 << 20}, 8 << 20, 8 << 20, 8<<20 + minFreed},
		{map[base.FileNum]int64{1: 8 << 20}, 8<<20 + minFreed, 0, 0},
		{map[base.FileNum]int64{1: 8 << 20, 2: 30 << 20}, 1 << 20, 38 << 20, 2<<20 + minFreed},
		{map[base.FileNum]int64{1: 8 << 20, 2: 30 << 20}, 4 << 20, 0, 0},
	} {
		if bytes, need := outOfReach(segs, c.dead, c.free); bytes != c.bytes || need != c.need {
			t.Errorf("dead %v, free %d: %d bytes, need %d; want %d, %d", c.dead, c.free, bytes, need, c.bytes, c.need)
		}
	}
}
