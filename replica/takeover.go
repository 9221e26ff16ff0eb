package replica

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/replica/bucket"
)

// Begin makes the lineage of a store in an empty bucket, behind the local records, and leads it.
// Until CreatePoint has made the first point, which must lie at or behind them, nobody else can
// take over. stamp is the time, as Batch.Stamp: nobody knows that of the records before.
//
// Errors: ErrNotEmpty.
func Begin(ctx context.Context, o Options, local Local, mode Mode, stamp int64) (*Leader, error) {
	o, err := o.checked()
	if err != nil {
		return nil, err
	}
	if err := mode.check(); err != nil {
		return nil, err
	}
	for _, prefix := range []string{chunkPrefix, pointPrefix, filePrefix, pinPrefix} {
		err := o.list(ctx, prefix, func(e bucket.Entry) error { return fmt.Errorf("%w: %s", ErrNotEmpty, e.Key) })
		if err != nil {
			return nil, err
		}
	}
	begin := Position{LSN: local.End(), Stamp: stamp, Epoch: 1}
	if begin.Chain, err = local.Chain(begin.LSN); err != nil {
		return nil, err
	}
	hold := newLease(o, nil, "")
	err = hold.update(ctx, func(h *head) {
		h.Epoch, h.Mode, h.End, h.Floor = 1, mode, begin, begin
		h.Epochs = []epoch{{Epoch: 1, Dir: o.Dir, Begin: begin.LSN, Chain: begin.Chain, Stamp: stamp}}
	})
	if errors.Is(err, ErrFenced) {
		return nil, ErrNotEmpty
	}
	if err != nil {
		return nil, err
	}
	return newLeader(o, hold, begin), nil
}

// TakeOver is under which conditions to take over.
type TakeOver struct {
	// Mode is how the new leader acknowledges. For Sync see Leader.SetMode.
	Mode Mode
	// Force: the lease need not be free. The caller knows that its holder has ended, or
	// accepts that it may serve stale reads until its lease ends. What is acknowledged stays
	// safe.
	Force bool
	// LoseTail: what a leader in another directory acknowledged in mode Async or Bounded, and
	// the bucket does not have, may be lost.
	LoseTail bool
}

// TakeOver makes the Follower's process the leader. apply gets, in order, the batches that the
// caller does not have, as from Next; once TakeOver returns, the caller has all. If it then has
// more records than the lineage, nobody else led since they were made, and it appends them again.
//
// Errors: ErrLeased, ErrPointGone, ErrSeeding, ErrLosesTail; ErrDiverged; ErrFenced if yet another took over
// meanwhile; those of Next. Whatever the error, the Follower goes on.
func (f *Follower) TakeOver(ctx context.Context, t TakeOver, apply func([]Batch) error) (*Leader, error) {
	if err := t.Mode.check(); err != nil {
		return nil, err
	}
	hold, err := f.claim(ctx, t)
	for try := 0; errors.Is(err, ErrLeased) && t.Force && try < 10; try++ {
		hold, err = f.claim(ctx, t) // its holder has renewed it meanwhile
	}
	if err != nil {
		return nil, err
	}
	// If this fails, the lease ends by itself. To give it back would say that no tail is lost.
	return f.begin(ctx, hold, apply)
}

// claim makes the next epoch in HEAD.
func (f *Follower) claim(ctx context.Context, t TakeOver) (*lease, error) {
	if err := f.Look(ctx); err != nil {
		return nil, err
	}
	if err := f.May(t); err != nil {
		return nil, err
	}
	hold := newLease(f.o, f.head, f.tag)
	err := hold.update(ctx, func(h *head) {
		h.Epoch, h.Whole, h.Released = f.head.Epoch+1, h.Whole || h.Released, false
		if t.Mode != Sync {
			h.Mode = t.Mode
		}
	})
	if errors.Is(err, ErrFenced) {
		return nil, ErrLeased
	}
	return hold, err
}

// May returns why the Follower must not take over, by what Look has seen last: those errors of TakeOver that name a reason. nil:
// it may.
func (f *Follower) May(t TakeOver) error {
	h := f.head
	own := h.last().Dir == f.o.Dir
	switch {
	case !t.Force && !f.Vacant():
		return ErrLeased
	case f.pos.LSN < h.Floor.LSN:
		return f.aboveFloor() // it would depose a leader, and then fail
	case len(h.Points) == 0 && !own:
		return ErrSeeding
	case h.Mode != Sync && !own && !h.Released && !h.Whole && !t.LoseTail:
		return ErrLosesTail
	case f.local.End() > f.pos.LSN && !own && f.pos.Epoch >= h.last().Epoch:
		return diverged(f.pos.LSN, "another directory leads")
	}
	return nil
}

// begin ends all earlier epochs, oldest first, and begins the own one.
func (f *Follower) begin(ctx context.Context, hold *lease, apply func([]Batch) error) (*Leader, error) {
	h := hold.current()
	if h.End.Epoch < f.pos.Epoch {
		f.compared, f.pos = f.pos.LSN, h.End // HEAD lacks where that epoch ended
	}
	fences := map[uint64]uint64{}
	var put Position // where a put said that what stands there is durable
	for f.pos.Epoch < h.Epoch {
		if f.o.Clock()-hold.sent > f.o.TTL/3 {
			if err := hold.update(ctx, func(*head) {}); err != nil {
				return nil, err
			}
		}
		at := f.pos
		batches, found, err := f.step(ctx)
		switch {
		case errors.Is(err, fault.ErrCorrupt):
			return nil, f.deposed(ctx, h, err)
		case err != nil:
			return nil, err
		case !found && (at.LSN < h.Floor.LSN || at.before(h.End)):
			return nil, f.deposed(ctx, h, f.missing())
		case !found || f.pos.Epoch > at.Epoch && put != at:
			f.pos = at // the next step sees what stands there, for good
			put, err = at, f.fence(ctx, h.Epoch)
		case f.pos.Epoch > at.Epoch:
			fences[at.Epoch] = at.Seq
		case len(batches) > 0:
			err = apply(batches)
		}
		if err != nil {
			return nil, err
		}
	}
	if end := f.local.End(); end > f.pos.LSN {
		// Chunks that were read are compared already; this is for none.
		chain, err := f.local.Chain(f.pos.LSN)
		if err != nil {
			return nil, err
		}
		if chain != f.pos.Chain || h.last().Dir != f.o.Dir {
			return nil, diverged(f.pos.LSN, "another leader's lineage ends")
		}
	}
	err := hold.update(ctx, func(h *head) {
		for i := range h.Epochs {
			if seq, ok := fences[h.Epochs[i].Epoch]; ok {
				h.Epochs[i].Fence = seq
			}
		}
		if h.last().Epoch < h.Epoch {
			// Those without a record go, else HEAD would grow with every start of a store that nobody writes to.
			h.Epochs = slices.DeleteFunc(h.Epochs, func(e epoch) bool { return e.Begin == f.pos.LSN })
			h.Epochs = append(h.Epochs, epoch{Epoch: h.Epoch, Dir: f.o.Dir, Begin: f.pos.LSN, Chain: f.pos.Chain, Stamp: f.pos.Stamp})
		}
		h.End, h.Whole = f.pos, false // the caller acknowledges from now on
	})
	if err != nil {
		return nil, err
	}
	return newLeader(f.o, hold, f.pos), nil
}

// deposed returns the reason for damage: a later leader may have deleted what was here.
func (f *Follower) deposed(ctx context.Context, mine *head, damage error) error {
	err := f.explain(ctx, damage)
	if f.head.Epoch != mine.Epoch {
		return ErrFenced
	}
	return err
}

// fence tries to put a fence at the position. Whether it stands there, or something else, the
// next step sees: so it only returns an error if nothing does for certain. A fence that was read may
// not be durable, and an old leader could go on where it was.
func (f *Follower) fence(ctx context.Context, by uint64) error {
	h := header{fence: true, store: f.o.Store, epoch: f.pos.Epoch, seq: f.pos.Seq, first: f.pos.LSN, last: f.pos.LSN,
		firstStamp: f.pos.Stamp, lastStamp: f.pos.Stamp, before: f.pos.Chain, after: f.pos.Chain, raw: by}
	found, err := f.o.create(ctx, chunkKey(f.pos.Epoch, f.pos.Seq), h.append(nil))
	if found != nil {
		return nil
	}
	return err
}
