package export

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/engine"
	"github.com/stele-go/stele/engine/check"

	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/segment"
	"github.com/stele-go/stele/snapshot"
)

// Options say how Run writes a new store.
type Options struct {
	FS vfs.FS // of the new store
	// Replace returns the bytes that replace a value that cannot be read. If it returns nil, the
	// entries that refer to the value are left out. A nil Replace leaves all such entries out.
	Replace func(check.Lost) []byte
	// Held: what waits in the new store waits for a release; see engine.Engine.HeldUpTo.
	Held bool
	// Progress, if not nil, is called after each family.
	Progress func(done, total int)
}

// LostPart is a page of a family that could not be read. Entries of one or more of Partitions are lost with
// it; of which, and how many, is not known.
type LostPart struct {
	Partitions []string
	Err        error
}

// Report says what Run wrote and what it could not read.
type Report struct {
	Partitions int
	Entries    int
	Values     int
	Bytes      int64 // of the new segment
	LastLSN    base.LSN
	Lost       []check.Lost // each use of each value; the first million
	LostAll    int          // how many there are
	Dropped    []LostEntry  // entries left out because of them
	Parts      []LostPart
	Segments   int
}

// LostEntry is an entry that is not in the new store.
type LostEntry struct {
	Partition string
	Key       string
}

// Run writes everything that can be read of an open store, as it is now, to a new store in
// dir, which must be empty or missing. If this store is opened with keys, the new one is
// encrypted with them. Partitions keep their births, and entries and values their numbers.
// Copies of a partition still share what they shared. The tombstones of deleted partitions
// are copied. This store is not changed.
//
// The manifest is written last: until then dir is no store, and after an error the
// files that were written are removed.
func Run(ctx context.Context, s *engine.Store, dir string, o Options) (*Report, error) {
	if err := s.Enter(); err != nil {
		return nil, err
	}
	defer s.Leave()
	held, err := vfs.HoldEmpty(o.FS, dir)
	if err != nil {
		return nil, fmt.Errorf("export to %s: %w", dir, err)
	}
	defer func() { _ = held.Close() }() // nothing is made any more
	o.FS = held
	x := &exporter{ctx: ctx, s: s, reads: s.Reader(), o: o, dir: dir, rep: &Report{}}
	if err := x.run(); err != nil {
		_ = o.FS.Remove(x.path())
		return nil, fmt.Errorf("export to %s: %w", dir, err)
	}
	x.rep.Lost, x.rep.LostAll = x.lost.Values, x.lost.All
	return x.rep, nil
}

// exportNum is the number of the one segment of a new store.
const exportNum base.FileNum = 1

type exporter struct {
	ctx   context.Context
	s     *engine.Store
	reads *engine.Reader
	o     Options
	dir   string
	b     *segment.Builder
	id    uint64 // of the new store
	rep   *Report

	lost check.LostList
}

func (x *exporter) path() string { return filepath.Join(x.dir, base.SegmentFile.Name(exportNum)) }

func (x *exporter) run() error {
	v := x.s.ViewTombstones()
	defer v.Release()
	f, err := x.o.FS.Create(x.path())
	if err != nil {
		return err
	}
	for x.id == 0 {
		x.id = x.s.Opts.Rand()
	}
	x.b, err = segment.NewBuilder(f, segment.BuilderOptions{FileNum: exportNum, Salt: x.s.Opts.Rand(), Keys: x.s.Keys.Keyring(x.id, 0)})
	if err != nil {
		return errors.Join(err, f.Close())
	}
	if err := x.families(v); err != nil {
		x.b.Abort()
		return errors.Join(err, f.Close())
	}
	x.b.SetTombstones(engine.EncodeTombstones(v.Index.Tombstones()))
	p, err := x.b.Finish()
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = x.o.FS.SyncDir(x.dir)
	}
	if err != nil {
		return err
	}
	x.rep.LastLSN, x.rep.Bytes = v.LSN(), p.Size
	return x.publish(snapshot.SegmentInfo{Num: exportNum, Size: p.Size, Raw: p.RawBytes, MinLSN: p.MinLSN, MaxLSN: p.MaxLSN,
		Families: uint64(p.Families), Values: uint64(p.Values)})
}

// publish writes the manifest: from then on dir is a store.
func (x *exporter) publish(seg snapshot.SegmentInfo) error {
	st := snapshot.State{FormatVersion: snapshot.FormatVersion, StoreID: x.id, NextFileNum: exportNum + 1, Created: x.s.Opts.Clock().UnixMicro(),
		FloorLSN: x.rep.LastLSN + 1, Segments: []snapshot.SegmentInfo{seg}}
	if x.o.Held {
		st.Held = x.rep.LastLSN
	}
	m, err := snapshot.Create(x.o.FS, x.dir, st, snapshot.Options{Rand: x.s.Opts.Rand, Keys: x.s.Keys})
	if err != nil {
		return err
	}
	return m.Close()
}

func (x *exporter) families(v *engine.View) error {
	work, err := engine.Families(v, func(uint64) bool { return true })
	if err != nil {
		return err
	}
	for i, names := range work {
		w, err := names.Open(v)
		if err != nil {
			return err
		}
		if err := x.family(v, &w); err != nil {
			return err
		}
		if x.o.Progress != nil {
			x.o.Progress(i+1, len(work))
		}
	}
	return nil
}

// family writes one family: the values that can be read, and a page of the entries
// that have all they need.
func (x *exporter) family(v *engine.View, w *engine.Family) error {
	x.s.RecentlySkipped() // drops the damage of earlier families
	if err := w.Load(v); err != nil {
		if !errors.Is(err, fault.ErrCorrupt) {
			return err
		}
		x.rep.Parts = append(x.rep.Parts, LostPart{Partitions: idsOf(w), Err: err})
		return nil
	}
	for _, err := range x.s.RecentlySkipped() {
		x.rep.Parts = append(x.rep.Parts, LostPart{Partitions: idsOf(w), Err: err})
	}
	if err := x.b.BeginFamily(w.Fam.ID); err != nil {
		return err
	}
	gone := map[index.Ref]bool{} // cannot be read, and is not replaced
	all := &check.Finder{W: w}
	for _, u := range x.order(w) {
		if err := x.value(all, u, gone); err != nil {
			return err
		}
	}
	return x.b.EndFamily(index.EncodePage(x.page(w, gone)))
}

func idsOf(w *engine.Family) []string {
	ids := make([]string, len(w.Partitions))
	for i, t := range w.Partitions {
		ids[i] = t.ID
	}
	return ids
}

// slotUse is one use of a value.
type slotUse struct {
	name string
	ref  index.Ref
	hot  bool
}

// order returns the values of a family, each with its first use. Values that are read often come first,
// entry by entry; then the others by name, newest first, so that versions of one channel lie together.
func (x *exporter) order(w *engine.Family) []slotUse {
	var hot, rest []slotUse
	taken := map[index.Ref]bool{}
	take := func(it *index.Entry, isHot bool) {
		for _, s := range it.Slots.All() {
			if s.Ref.Empty() || taken[s.Ref] {
				continue
			}
			taken[s.Ref] = true
			u := slotUse{s.Name, s.Ref, isHot}
			if isHot {
				hot = append(hot, u)
			} else {
				rest = append(rest, u)
			}
		}
	}
	for _, wanted := range []bool{true, false} {
		for _, t := range w.Partitions {
			var entries []*index.Entry
			t.Ascend("", func(it *index.Entry) bool { entries = append(entries, it); return true })
			for i, isHot := range x.s.Opts.Hot(entries) {
				if isHot == wanted {
					take(entries[i], isHot)
				}
			}
		}
	}
	slices.SortStableFunc(rest, func(a, b slotUse) int {
		return cmp.Or(cmp.Compare(a.name, b.name), b.ref.Compare(a.ref))
	})
	return append(hot, rest...)
}

// value writes one value, or its replacement.
func (x *exporter) value(all *check.Finder, u slotUse, gone map[index.Ref]bool) error {
	ref := u.ref
	b, err := x.reads.ReadWithin(x.ctx, all.W.Fam, ref, false)
	switch {
	case err == nil:
		x.rep.Values++
	case errors.Is(err, fault.ErrCorrupt) || errors.Is(err, engine.ErrNoValue):
		if b = x.lose(all, ref, err); b == nil {
			gone[ref] = true
			return nil
		}
	default:
		return err
	}
	add := x.b.AddHistory
	if u.hot {
		add = x.b.AddHot
	}
	return add(segment.ValueID{LSN: ref.LSN, Ord: ref.Ord}, b)
}

// lose adds every use of a value that cannot be read to the report. It returns the replacement of the
// first use.
func (x *exporter) lose(u *check.Finder, ref index.Ref, err error) (instead []byte) {
	uses := u.Of(ref)
	x.lost.Add(uses, err)
	if x.o.Replace == nil || len(uses) == 0 {
		return nil
	}
	first := uses[0]
	first.Err = err
	return x.o.Replace(first)
}

// page is the directory page of the family in the new store: live entries that have
// all they need.
func (x *exporter) page(w *engine.Family, gone map[index.Ref]bool) *index.Page {
	p := &index.Page{}
	for _, t := range w.Partitions {
		pt := index.PagePartition{ID: t.ID, Birth: t.Birth, Updated: t.Updated, Flags: t.Flags}
		had := false
		t.Ascend("", func(it *index.Entry) bool {
			had = true
			if it.Slots.Contain(func(r index.Ref) bool { return gone[r] }) {
				x.rep.Dropped = append(x.rep.Dropped, LostEntry{t.ID, it.Key})
				return true
			}
			pt.Entries = append(pt.Entries, it)
			return true
		})
		if had && len(pt.Entries) == 0 {
			continue // nothing of it is left
		}
		x.rep.Partitions++
		x.rep.Entries += len(pt.Entries)
		index.SortEntries(pt.Entries)
		p.Partitions = append(p.Partitions, pt)
	}
	return p
}
