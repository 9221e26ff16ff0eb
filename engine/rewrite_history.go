package engine

import (
	"context"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/delta"
	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/segment"
)

// oldValue is a value that is not read often, and the sequence it belongs to; ""
// for none.
type oldValue struct {
	series string
	at     int  // of the plan's values
	listed bool // see Options.Listed
}

// How the older versions of a series are patches in a segment. The n-th, counted from
// the newest, is against the one historyFan^k newer, where k is how many zeros end
// n in base historyFan: the newest of sixteen against that of the next sixteen, and
// so on. So a version is at most historyLevels*(historyFan-1) patches, 60, from one
// stored whole, in a series of any length; and as patches only lead to newer ones,
// what grew costs next to nothing.
const (
	historyFan    = 16
	historyLevels = 4
	// historyTries is after how many versions in a row without a patch only every historyFan-th version
	// is tried.
	historyTries = 4
	// quickTry is the size from which a quick output tries every version. Of smaller ones it tries
	// those that are patches in the log, and their bases. If a commit made no patch, one will rarely
	// save much here; a failed try costs more than a patch; and a compaction tries again.
	quickTry = 4 << 10
)

// historySeries writes the values of one series, newest first.
type historySeries struct {
	series string
	n      int                   // of the next version
	at     [historyLevels]stored // by level: the last version whose number ends in that many zeros
	fails  int
}

// stored is a version that later ones may be patches against.
type stored struct {
	ref     index.Ref
	data    []byte // nil: none
	patched bool   // it was stored as a patch
}

// level is how many zeros end n in base historyFan. Beyond the highest level a
// new chain begins.
func level(n int) int {
	for k := range historyLevels {
		if n%historyFan != 0 {
			return k
		}
		n /= historyFan
	}
	return historyLevels
}

// base returns the base for a patch of the next version; nil if it is to be stored whole.
func (h *historySeries) base(size int) *stored {
	k := level(h.n)
	if k == historyLevels || h.fails >= historyTries && h.n%historyFan != 0 {
		return nil
	}
	b := &h.at[k]
	if b.data == nil || size > maxRevision {
		return nil
	}
	return b
}

// wrote records a version that was written.
func (h *historySeries) wrote(v stored, patched, tried bool) {
	for k := range min(level(h.n)+1, historyLevels) {
		h.at[k] = v
	}
	h.n++
	switch {
	case patched:
		h.fails = 0
	case tried:
		h.fails++
	}
}

// history writes older values by series: each series as patches against newer versions. The newest of
// them may be among the values read often.
func (j *segmentOutput) history(ctx context.Context, fam *index.Family, p rewritePlan) error {
	var h historySeries
	for i, o := range p.history {
		if i > 0 && p.history[i-1].listed && !o.listed {
			if err := j.b.CutHistory(); err != nil {
				return err
			}
		}
		if i == 0 || o.series != h.series {
			h = historySeries{series: o.series}
			if head, ok := p.newest[o.series]; ok && o.series != "" && !j.Opts.NoPatches {
				head := p.values[head]
				data, err := j.read(ctx, fam, head)
				if err != nil {
					return err
				}
				if len(data) >= j.Opts.PatchMin && len(data) <= maxRevision {
					h.wrote(stored{head.Ref, data, head.Loc.Patched()}, false, false)
				}
			}
		}
		if err := j.old(ctx, fam, o.series, p.values[o.at], &h); err != nil {
			return err
		}
	}
	return nil
}

// old writes one older value of a series.
func (j *segmentOutput) old(ctx context.Context, fam *index.Family, series string, o index.ValueLoc, h *historySeries) error {
	data, err := j.read(ctx, fam, o)
	if err != nil {
		return err
	}
	j.values += int64(len(data))
	id := segment.ValueID{LSN: o.Ref.LSN, Ord: o.Ref.Ord}
	if series == "" || j.Opts.NoPatches || len(data) < j.Opts.PatchMin || len(data) > maxRevision {
		return j.b.AddHistory(id, data)
	}
	v := stored{o.Ref, data, o.Loc.Patched()}
	b := h.base(len(data))
	if b != nil && j.quick && len(data) < quickTry && !v.patched && !b.patched {
		b = nil
	}
	if b != nil {
		if _, ok := (index.Loc{}).Against(o.Ref, b.ref); ok {
			if patch := delta.MakeRaw(b.data, data, base.Checksum(0, data), len(data)-len(data)/4); patch != nil {
				against := segment.ValueID{LSN: b.ref.LSN, Ord: b.ref.Ord}
				h.wrote(v, true, true)
				j.segmentPatches.Add(1)
				return j.b.AddHistoryPatch(id, against, patch)
			}
		}
	}
	h.wrote(v, false, b != nil)
	return j.b.AddHistory(id, data)
}
