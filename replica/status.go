package replica

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/replica/bucket"
)

// Status is what HEAD said when it was read.
type Status struct {
	Store uint64
	// Epoch is the reign of the leader, Dir the directory of its records, and Owner its process.
	Epoch uint64
	Dir   string
	Owner string
	// Beat is how often the lease was renewed, and TTL how long it lasts from then on. Released:
	// the leader gave it back.
	Beat     uint64
	TTL      time.Duration
	Released bool
	Mode     Mode
	// End is where the lineage ended, or behind which it has grown since.
	End Position
	// Floor is the place below which nothing is kept, and Points are where a restore can begin, oldest
	// first. Without any, the store is being seeded.
	Floor  Position
	Points []PointRef
}

// ReadStatus reads HEAD, of whatever store it is: it does not use Options.Store.
//
// Errors: ErrNoLineage; *fault.CorruptionError, *fault.VersionError; those of the bucket.
func ReadStatus(ctx context.Context, o Options) (*Status, error) {
	o = o.withDefaults()
	b, _, err := o.get(ctx, headKey, maxHead, "")
	if errors.Is(err, bucket.ErrNotFound) {
		return nil, ErrNoLineage
	}
	if err != nil {
		return nil, err
	}
	h, err := decodeAnyHead(b)
	if err != nil {
		return nil, err
	}
	return &Status{
		Store: h.Store, Epoch: h.Epoch, Dir: h.last().Dir, Owner: h.Owner, Beat: h.Beat, TTL: time.Duration(h.TTL) * time.Millisecond,
		Released: h.Released, Mode: h.Mode, End: h.End, Floor: h.Floor, Points: h.Points,
	}, nil
}

// Verification is what Verify read.
type Verification struct {
	// From and To are where it began and ended.
	From, To Position
	Chunks   int
	Records  uint64
	// Points and Files are those that it found whole. A file counts once, however many points have it.
	Points, Files int
	// Damage are the points that cannot be restored, and why.
	Damage []error
}

// Verify reads a whole lineage as a restore would: every chunk from the floor on, whose records must have
// the chain that is said, and every point, whose place must be in that chain and whose files must be there
// in their size. What is within the files their store checks when it is restored. A leader may go on
// meanwhile.
//
// The error says what is wrong with chunks, behind Verification.To, or that they cannot be read;
// ErrPointGone: retention has passed it, and a new Verify begins at a higher floor. With an error
// Verification is what was read before.
func Verify(ctx context.Context, o Options) (*Verification, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // of what is read ahead
	o = o.reading()
	h, err := o.readHead(ctx)
	if err != nil {
		return nil, err
	}
	w := &walk{at: h.Floor}
	f, err := Follow(ctx, o, w, h.Floor)
	if err != nil {
		return nil, err
	}
	v := &Verification{From: h.Floor, To: h.Floor}
	points, err := v.points(ctx, &f.o, h.Points)
	if err != nil {
		return v, err
	}
	w.check(points, v)
	for {
		batches, err := f.Next(ctx)
		if err != nil || len(batches) == 0 {
			v.To = f.Position()
			return v, err
		}
		v.Chunks++
		for _, b := range batches {
			v.Records += uint64(len(b.Records))
			for i, r := range b.Records {
				w.pass(f, b.First+base.LSN(i), r)
				w.check(points, v)
			}
		}
	}
}

// Scan calls visit for each batch that a lineage has from the floor on, in order, whose records have the chain that is said. It ends with
// an error of visit, and else where the lineage ends. A leader may go on meanwhile.
//
// Errors: those of Verify.
func Scan(ctx context.Context, o Options, visit func(Batch) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // of what is read ahead
	o = o.reading()
	h, err := o.readHead(ctx)
	if err != nil {
		return err
	}
	w := &walk{at: h.Floor}
	f, err := Follow(ctx, o, w, h.Floor)
	for err == nil {
		var batches []Batch
		if batches, err = f.Next(ctx); err != nil || len(batches) == 0 {
			break
		}
		for _, b := range batches {
			for i, r := range b.Records {
				w.pass(f, b.First+base.LSN(i), r)
			}
			if err = visit(b); err != nil {
				break
			}
		}
	}
	return err
}

// reading is withDefaults for Verify and Scan, which read much.
func (o Options) reading() Options {
	if o.Dir == "" {
		o.Dir = "read" // which never leads
	}
	if o.Ahead == 0 {
		o.Ahead = ReadAhead
	}
	return o.withDefaults()
}

// walk is the local end of Verify and Scan, which keep no record.
type walk struct{ at Position }

// End implements Local.
func (w *walk) End() base.LSN { return w.at.LSN }

// Chain implements Local.
func (w *walk) Chain(lsn base.LSN) (Chain, error) {
	if lsn != w.at.LSN {
		return Chain{}, fmt.Errorf("the chain behind record %d is not known", lsn)
	}
	return w.at.Chain, nil
}

// pass goes on behind a record.
func (w *walk) pass(f *Follower, lsn base.LSN, record []byte) {
	w.at.LSN, w.at.Chain = lsn, w.at.Chain.Next(f.o.ChainKey, lsn, record)
}

// check compares the points that lie where the walk stands.
func (w *walk) check(points map[base.LSN][]*Point, v *Verification) {
	for _, p := range points[w.at.LSN] {
		if p.Chain != w.at.Chain {
			v.Damage = append(v.Damage, damaged(p.ref().key(), "point", "its chain is not that of the chunks"))
			continue
		}
		v.Points++
	}
}

// points reads the points, and returns those whose files are there.
func (v *Verification) points(ctx context.Context, o *Options, refs []PointRef) (map[base.LSN][]*Point, error) {
	sizes := map[string]int64{}
	if err := o.list(ctx, filePrefix, func(e bucket.Entry) error {
		sizes[e.Key] = e.Size
		return nil
	}); err != nil {
		return nil, err
	}
	points, whole, bad := map[base.LSN][]*Point{}, map[string]bool{}, map[PointRef]error{}
	for _, ref := range refs {
		p, err := o.point(ctx, ref.key())
		switch {
		case errors.Is(err, ErrPointGone):
			err = damaged(ref.key(), "point", "it is missing")
		case err != nil && !unreadable(err):
			return nil, err
		}
		if err == nil {
			err = missingFile(p, sizes, whole)
		}
		if err == nil {
			points[p.LSN] = append(points[p.LSN], p)
		} else {
			bad[ref] = err
		}
	}
	h, err := o.readHead(ctx)
	if err != nil {
		return nil, err
	}
	for _, ref := range h.Points { // what HEAD has no more, retention has taken meanwhile
		if err := bad[ref]; err != nil {
			v.Damage = append(v.Damage, err)
		}
	}
	v.Files = len(whole)
	return points, nil
}

// missingFile returns an error for a file of a point that is not there in its size. It adds those that are.
func missingFile(p *Point, sizes map[string]int64, whole map[string]bool) error {
	for _, f := range p.Files {
		if size, there := sizes[f.Key]; !there || size != f.Size {
			return damaged(p.ref().key(), "point", "%s has %d of %d bytes", f.Key, size, f.Size)
		}
		whole[f.Key] = true
	}
	return nil
}
