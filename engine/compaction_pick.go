package engine

import (
	"math/bits"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/snapshot"
)

// nextCompaction returns the segments to merge, nil if there is nothing to do. room is that of
// Store.room. If it is negative, only segments whose output fits are merged: others would use up the
// space that is reserved for deletions, and fail.
func nextCompaction(segs []snapshot.SegmentInfo, dead map[base.FileNum]int64, o *Options, room int64) (next []snapshot.SegmentInfo) {
	free := room + max(o.Reserve, 0)
	if room < 0 {
		next = fitting(segs, dead, free)
	}
	if next == nil {
		next = pickCompaction(segs, o.CompactFanout, o.SegmentSize)
	}
	if next == nil {
		next = mostlyDead(segs, dead)
	}
	if room < 0 && !fits(next, dead, free) {
		return nil
	}
	return next
}

// fits reports whether the live part of segments fits into free bytes.
func fits(segs []snapshot.SegmentInfo, dead map[base.FileNum]int64, free int64) bool {
	return needed(segs, dead) <= free
}

// needed returns the free bytes that rewriting the segments takes.
func needed(segs []snapshot.SegmentInfo, dead map[base.FileNum]int64) int64 {
	live := int64(minFreed)
	for _, s := range segs {
		live += s.Size - dead[s.Num]
	}
	return live
}

// outOfReach returns how many dead bytes lie in segments that are worth rewriting on a full disk, but of which none
// fits into free bytes, and how many free bytes the first of them needs. Both are 0 if one fits, or none is worth it.
func outOfReach(segs []snapshot.SegmentInfo, dead map[base.FileNum]int64, free int64) (bytes, least int64) {
	for i, s := range segs {
		if dead[s.Num] < minFreed {
			continue
		}
		n := needed(segs[i:i+1], dead)
		if n <= free {
			return 0, 0
		}
		if bytes += dead[s.Num]; least == 0 || n < least {
			least = n
		}
	}
	return bytes, least
}

// pickCompaction returns segments worth merging: as many as the fan-out asks for
// in one class of size, those of the size limit and more left out. Each class is four
// times the last.
func pickCompaction(segs []snapshot.SegmentInfo, fanout int, limit int64) []snapshot.SegmentInfo {
	classes := map[int][]snapshot.SegmentInfo{}
	for _, s := range segs {
		if s.Size >= limit {
			continue
		}
		c := max(0, bits.Len64(uint64(s.Size))-17) / 2
		classes[c] = append(classes[c], s)
	}
	for c := range 32 {
		if len(classes[c]) >= fanout {
			return classes[c]
		}
	}
	return nil
}

const (
	// deadShare is the dead part of a segment, in tenths, from which it is worth rewriting alone, if
	// that frees at least minDead bytes.
	deadShare = 4
	minDead   = 1 << 20

	// minFreed is the least number of bytes that rewriting a segment on a full disk must free. As many
	// bytes are kept free for the segment's directory and the manifest.
	minFreed = 64 << 10
)

// mostlyDead returns the segment with the largest dead share, if it is worth rewriting.
func mostlyDead(segs []snapshot.SegmentInfo, dead map[base.FileNum]int64) []snapshot.SegmentInfo {
	var worst []snapshot.SegmentInfo
	most := 0.0
	for _, s := range segs {
		share := float64(dead[s.Num]) / float64(s.Size)
		if dead[s.Num] >= minDead && share*10 >= deadShare && share > most {
			worst, most = []snapshot.SegmentInfo{s}, share
		}
	}
	return worst
}

// fitting returns the segment whose rewriting frees most, among those whose live part fits into free
// bytes; nil if none frees at least minFreed.
func fitting(segs []snapshot.SegmentInfo, dead map[base.FileNum]int64, free int64) []snapshot.SegmentInfo {
	var best []snapshot.SegmentInfo
	most := int64(minFreed)
	for i, s := range segs {
		if d := dead[s.Num]; d >= most && fits(segs[i:i+1], dead, free) {
			best, most = []snapshot.SegmentInfo{s}, d
		}
	}
	return best
}
