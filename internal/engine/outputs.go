package engine

import (
	"context"

	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/internal/base"
	"github.com/stele-go/stele/internal/files"
	"github.com/stele-go/stele/internal/storage"
	"github.com/stele-go/stele/snapshot"
)

// outputs are the segments that a flush or a compaction writes. Another one is begun
// when the last has become large, or has a part of a family that is too large for
// one. Until the manifest names them, a crash or an error leaves files nobody knows,
// which the next Open removes.
type outputs struct {
	*storage.Store
	from  map[base.FileNum]bool // files whose values are taken
	limit func(int)
	reads *storage.Reader // of all values that are moved

	jobs  []*segmentJob // the last one may be unfinished
	infos []snapshot.SegmentInfo

	earlier int64 // bytes of those that are part of the store already
}

func newOutputs(s *storage.Store, from map[base.FileNum]bool, limit func(int)) *outputs {
	return &outputs{Store: s, from: from, limit: limit, reads: s.Reader()}
}

func (o *outputs) empty() bool { return len(o.jobs) == 0 }

// written is the number of bytes written so far.
func (o *outputs) written() int64 {
	n := o.earlier
	for _, j := range o.jobs {
		n += j.b.Size()
	}
	return n
}

// rest is called between two pieces of work that read and write nothing.
func (o *outputs) rest() {
	if o.limit != nil {
		o.limit(0)
	}
}

// full reports whether the last segment is large enough.
func (o *outputs) full() bool {
	return !o.empty() && o.jobs[len(o.jobs)-1].b.Size() >= o.Opts.SegmentSize
}

// valueBytes is the size of the values written so far, whole.
func (o *outputs) valueBytes() int64 {
	var n int64
	for _, j := range o.jobs {
		n += j.values
	}
	return n
}

// begin finishes the last segment, if there is one, and starts another.
func (o *outputs) begin() error {
	if err := o.end(nil); err != nil {
		return err
	}
	j, err := o.startSegment()
	if err == nil {
		o.jobs = append(o.jobs, j)
	}
	return err
}

// end finishes the last segment if it is not.
func (o *outputs) end(tombs []index.Tombstone) error {
	if len(o.infos) == len(o.jobs) {
		return nil
	}
	info, err := o.jobs[len(o.jobs)-1].finish(tombs)
	if err == nil {
		o.infos = append(o.infos, info)
	}
	return err
}

// add writes one family: the values plan names, and the page. Beginning with the
// second, each part of a family that is divided has a segment of its own to end.
func (o *outputs) add(ctx context.Context, w familyWork, p valuePlan, page *index.Page, minLSN, maxLSN base.LSN) error {
	for i, part := range divide(p, page, o.DirectoryLimit) {
		if o.empty() || i > 0 || o.full() {
			if err := o.begin(); err != nil {
				return err
			}
		}
		if err := o.jobs[len(o.jobs)-1].add(ctx, w, part.plan, part.page, minLSN, maxLSN); err != nil {
			return err
		}
	}
	return nil
}

// finish completes the last segment, which gets the tombstones, and returns them all.
func (o *outputs) finish(tombs []index.Tombstone) ([]snapshot.SegmentInfo, error) {
	if o.empty() && len(tombs) > 0 {
		if err := o.begin(); err != nil {
			return nil, err
		}
	}
	err := o.end(tombs)
	return o.infos, err
}

// abandon removes the files after a failure; the first cause is what counts.
func (o *outputs) abandon(err error) error {
	for i, j := range o.jobs {
		if i < len(o.infos) {
			j.discard()
		} else {
			j.abandon()
		}
	}
	return err
}

// enter makes the files known, so that what is published can be read at once.
func (o *outputs) enter() {
	for _, j := range o.jobs {
		o.Files.AddKeyed(files.Segment, j.num, j.b.KeyID())
	}
}

// placed is where the families lie.
func (o *outputs) placed() []placed {
	var done []placed
	for _, j := range o.jobs {
		done = append(done, j.done...)
	}
	return done
}

// withdraw is segmentJob.withdraw for all.
func (o *outputs) withdraw(err error) {
	for _, j := range o.jobs {
		j.withdraw(err)
	}
}

// install is segmentJob.install for all: first every value has its new place, then
// what is left behind is forgotten.
func (o *outputs) install() {
	views := o.OtherViews()
	for _, j := range o.jobs {
		j.install()
	}
	if views {
		return
	}
	for _, j := range o.jobs {
		for _, pl := range j.done {
			if fam := o.Index.HeldFamily(pl.fam); fam != nil {
				fam.Forget(o.from)
			}
		}
	}
}

// familyPart is what one segment gets of a family.
type familyPart struct {
	plan valuePlan
	page *index.Page
}

// divide splits a family whose directory would be larger than limit, by items; each
// part has the values its items are the first to refer to, the last one also those
// that none does. A family of usual size is one part.
func divide(p valuePlan, page *index.Page, limit int) []familyPart {
	d := divider{limit: limit}
	for i := range page.Partitions {
		d.partition(&page.Partitions[i])
	}
	if len(d.pages) < 2 {
		return []familyPart{{p, page}}
	}
	of := map[index.Ref]int{} // the part a value goes to
	for n, pg := range d.pages {
		for _, pt := range pg.Partitions {
			for _, it := range pt.Items {
				for _, s := range it.Slots {
					if _, ok := of[s.Ref]; !ok {
						of[s.Ref] = n
					}
				}
			}
		}
	}
	parts := make([]familyPart, len(d.pages))
	for i, pg := range d.pages {
		parts[i] = familyPart{valuePlan{newest: map[string]index.Ref{}}, pg}
	}
	part := func(r index.Ref) *valuePlan {
		if n, ok := of[r]; ok {
			return &parts[n].plan
		}
		return &parts[len(parts)-1].plan
	}
	for _, r := range p.heads {
		to := part(r)
		to.heads = append(to.heads, r)
	}
	for series, r := range p.newest {
		part(r).newest[series] = r
	}
	for _, o := range p.history {
		to := part(o.ref)
		to.history = append(to.history, o)
	}
	return parts
}

// divider packs the items of a page into pages.
type divider struct {
	limit int
	size  int // of the last page with its rows of the value table, about
	pages []*index.Page
}

func (d *divider) partition(pt *index.PagePartition) {
	d.section(pt)
	for _, it := range pt.Items {
		n := len(it.Key) + 32
		for i := range it.Slots {
			n += len(it.Slots[i].Name)/8 + len(it.Slots[i].Tag) + placeSize
		}
		if d.size+n > d.limit && d.size > 0 {
			d.size = d.limit
			d.section(pt)
		}
		d.size += n
		p := d.pages[len(d.pages)-1]
		s := &p.Partitions[len(p.Partitions)-1]
		s.Items = append(s.Items, it)
	}
}

// section begins the section of a partition, in a new page if need be.
func (d *divider) section(pt *index.PagePartition) {
	n := len(pt.ID) + 48
	if len(d.pages) == 0 || d.size+n > d.limit {
		d.pages, d.size = append(d.pages, &index.Page{}), 0
	}
	d.size += n
	head := *pt
	head.Items = nil
	p := d.pages[len(d.pages)-1]
	p.Partitions = append(p.Partitions, head)
}
