package check

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/engine"
	"github.com/stele-go/stele/index"
)

// index reads every entry of every partition, and every value that one refers to, the
// way a reader would.
func (v *verifier) index() error {
	damage, _ := v.e.Skipped() // of the open
	for _, d := range damage {
		// A restore leaves damaged images out, and the engine forgets them: the next Open makes the index.
		if err := v.note(d, len(v.st.Images) == 0 && isNoImage(d)); err != nil {
			return err
		}
	}
	view := v.e.ViewWithin()
	defer view.Release()
	work, err := engine.Families(view, func(uint64) bool { return true })
	if err != nil {
		return v.note(err, false)
	}
	v.total = int64(len(work))
	for i, names := range work {
		v.tell("index", "", int64(i))
		w, err := names.Open(view)
		if err != nil {
			return v.note(err, false)
		}
		if err := v.family(view, &w); err != nil {
			return err
		}
	}
	return nil
}

// isNoImage reports whether err says that the manifest names no image.
func isNoImage(err error) bool {
	var c *fault.CorruptionError
	return errors.As(err, &c) && c.Kind == "image chain"
}

// family checks the partitions of one family. It releases what it loads.
func (v *verifier) family(view *engine.View, w *engine.Family) error {
	before := slices.Clone(w.Partitions)
	names := make([]string, len(w.Partitions))
	for i, t := range w.Partitions {
		names[i] = t.ID
	}
	v.e.RecentlySkipped() // drops the damage of earlier families
	if err := w.Load(view); err != nil {
		if err := v.note(err, false, names...); err != nil {
			return err
		}
		return nil
	}
	for _, d := range v.e.RecentlySkipped() {
		if err := v.note(d, false, names...); err != nil {
			return err
		}
	}
	if err := v.values(w); err != nil {
		return err
	}
	for i, t := range w.Partitions {
		if before[i].Cold() {
			v.e.Index.Evict(t)
		}
	}
	return nil
}

// refUse is a value and one entry that refers to it.
type refUse struct {
	ref       index.Ref
	loc       index.Loc
	partition string
	key       string
	slot      string
}

// values reads the values that the entries of a family refer to, in the order of the files.
func (v *verifier) values(w *engine.Family) error {
	uses := map[index.Ref]refUse{}
	for _, t := range w.Partitions {
		v.rep.Partitions++
		t.Ascend("", func(it *index.Entry) bool {
			v.rep.Entries++
			for _, s := range it.Slots.All() {
				if !s.Ref.Empty() {
					loc, _ := w.Fam.Loc(s.Ref)
					uses[s.Ref] = refUse{s.Ref, loc, t.ID, it.Key, s.Name}
				}
			}
			return true
		})
	}
	list := slices.SortedFunc(maps.Values(uses), func(a, b refUse) int {
		return cmp.Or(cmp.Compare(a.loc.File, b.loc.File), cmp.Compare(a.loc.Off, b.loc.Off), a.ref.Compare(b.ref))
	})
	all, reader := &Finder{W: w}, v.e.Reader()
	for _, u := range list {
		v.rep.Values++
		_, err := reader.ReadWithin(v.ctx, w.Fam, u.ref, false)
		if cerr := v.ctx.Err(); cerr != nil {
			return cerr
		}
		if errors.Is(err, engine.ErrNoValue) {
			err = &fault.CorruptionError{File: "index", Kind: "value reference", Offset: -1,
				Detail: fmt.Sprintf("entry %q of partition %q refers to value %d.%d (%s), which is not stored", u.key, u.partition, u.ref.LSN, u.ref.Ord, u.slot)}
		}
		if err := v.note(err, false, u.partition); err != nil {
			return err
		}
		if err != nil {
			v.lost.Add(all.Of(u.ref), err)
		}
	}
	return nil
}

// compare makes the index anew, from segments and log without the images, and compares it with the one
// made from the images. It is left out if anything is damaged: the two then differ by the lost data.
func (v *verifier) compare() error {
	if v.rep.Damaged() || len(v.st.Images) == 0 {
		return nil
	}
	b, err := v.e.Remade()
	if err != nil {
		return v.note(err, false)
	}
	v.rep.Compared = true
	a := v.e.ViewWithin()
	defer a.Release()
	defer b.Release()
	return v.differences(a, b)
}

// differences adds findings for the differences of two indexes of one store.
func (v *verifier) differences(saved, made *engine.View) error {
	diff := func(id, format string, args ...any) {
		v.add(Finding{File: v.lastImage(), Offset: -1, Kind: "index", Partitions: []string{id},
			Detail: fmt.Sprintf("partition %q: %s", id, fmt.Sprintf(format, args...))})
	}
	partitions := map[string]*index.Partition{}
	if err := saved.Ascend("", func(t *index.Partition) bool { partitions[t.ID] = t; return true }); err != nil {
		return v.note(err, false)
	}
	var err error
	merr := made.Ascend("", func(m *index.Partition) bool {
		s := partitions[m.ID]
		delete(partitions, m.ID)
		if s == nil {
			diff(m.ID, "segments and log have it, the saved index does not")
			return true
		}
		if err = v.ctx.Err(); err == nil {
			err = samePartition(saved, made, s, m, func(format string, args ...any) { diff(m.ID, format, args...) })
		}
		return err == nil
	})
	for id := range partitions {
		diff(id, "the saved index has it, segments and log do not")
	}
	return v.note(cmp.Or(err, merr), false)
}

func (v *verifier) lastImage() string {
	return base.ImageFile.Name(v.st.Images[len(v.st.Images)-1].Num)
}

// samePartition compares a partition of one index with that of another, entry by entry.
func samePartition(saved, made *engine.View, s, m *index.Partition, diff func(string, ...any)) error {
	s, err := saved.Load(s)
	if err != nil {
		return err
	}
	if m, err = made.Load(m); err != nil {
		return err
	}
	if s.Birth != m.Birth || s.Head != m.Head || s.Flags != m.Flags {
		diff("saved with birth %d, head %q, flags %#x; segments and log say %d, %q, %#x", s.Birth, s.Head, s.Flags, m.Birth, m.Head, m.Flags)
	}
	entries := map[string]*index.Entry{}
	s.Ascend("", func(it *index.Entry) bool { entries[it.Key] = it; return true })
	m.Ascend("", func(it *index.Entry) bool {
		was := entries[it.Key]
		delete(entries, it.Key)
		if was == nil || was.LSN != it.LSN || was.Flags != it.Flags || !was.Slots.Equal(it.Slots) {
			diff("entry %q is not the one that segments and log have", it.Key)
		}
		return true
	})
	for key := range entries {
		diff("entry %q is in the saved index alone", key)
	}
	return nil
}
