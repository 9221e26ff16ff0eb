package replica

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/replica/bucket"
)

// Follower reads a lineage from the bucket, and watches its leader. One goroutine uses it.
//
// It believes chunks and fences. Of HEAD it takes where to begin, whether the lease is free, and
// whether what it misses was deleted. A chunk that it has read in sequence is in the lineage for
// ever: a fence only ever stands where no chunk is.
type Follower struct {
	o     Options
	local Local

	head *head
	tag  bucket.ETag
	// seen is when the answer came that first had head's beat. The lease of that beat began
	// before.
	seen time.Duration

	pos  Position // of the next chunk
	last Position // where pos was before the last records

	// compared is up to where records of the lineage were found to be the local ones: what is read again there is not compared
	// again, since a follower that was opened anew knows the chain behind its last record alone.
	compared base.LSN

	ahead map[string]early // chunks that are got before their turn, by their keys
}

// Follow begins behind the local records. from is where they end in the lineage, as an earlier
// Follower or a point says; if it is the zero Position, Follow looks for it.
//
// Errors: ErrNoLineage, ErrDiverged, ErrPointGone, ErrOtherStore, a *fault.VersionError.
func Follow(ctx context.Context, o Options, local Local, from Position) (*Follower, error) {
	o, err := o.checked()
	if err != nil {
		return nil, err
	}
	if from.LSN > local.End() {
		return nil, fmt.Errorf("the position is behind record %d, and the local records end at %d", from.LSN, local.End())
	}
	f := &Follower{o: o, local: local, pos: from, last: from}
	if err := f.Look(ctx); err != nil {
		return nil, err
	}
	if from == (Position{}) {
		pos, err := f.o.locate(ctx, f.head, min(local.End(), f.head.End.LSN))
		if err != nil {
			return nil, err
		}
		f.pos, f.last = pos, pos
	}
	chain, err := local.Chain(f.pos.LSN)
	if err != nil {
		return nil, err
	}
	if chain != f.pos.Chain {
		return nil, diverged(f.pos.LSN, "or before it, other records stand")
	}
	return f, nil
}

// Position is how far the Follower has read. Its LSN may be below the local end.
func (f *Follower) Position() Position { return f.pos }

// Look reads HEAD, if it has changed.
func (f *Follower) Look(ctx context.Context) error {
	b, tag, err := f.o.get(ctx, headKey, maxHead, f.tag)
	if errors.Is(err, bucket.ErrNotModified) {
		return nil
	}
	if errors.Is(err, bucket.ErrNotFound) {
		return ErrNoLineage
	}
	if err != nil {
		return err
	}
	h, err := decodeHead(f.o.Store, b)
	if err != nil {
		return err
	}
	f.head, f.tag, f.seen = h, tag, f.o.Clock()
	return nil
}

// Own reports whether the newest leader led in the Follower's directory.
func (f *Follower) Own() bool { return f.head.last().Dir == f.o.Dir }

// Silence is how long HEAD has not changed, as far as Look has seen.
func (f *Follower) Silence() time.Duration { return f.o.Clock() - f.seen }

// Released reports whether the leader gave the lease back, and nobody has taken it.
func (f *Follower) Released() bool { return f.head.Released }

// Epoch is the number of the newest leader's reign.
func (f *Follower) Epoch() uint64 { return f.head.Epoch }

// Known is a place that the lineage has reached, as HEAD said; there may be more behind it.
func (f *Follower) Known() Position { return f.head.End }

// Mode is the mode of the leader.
func (f *Follower) Mode() Mode { return f.head.Mode }

// Vacant reports whether the lease is free: it was given back, or its beat has stood still for a
// whole TTL of the leader, on the Follower's own clock, or it is of an own take-over that did not
// end. Look must have been called since: a beat that nobody looked for has not stood still.
func (f *Follower) Vacant() bool {
	return f.head.Released || f.head.Owner == f.o.Owner || f.Silence() >= time.Duration(f.head.TTL)*time.Millisecond
}

// Next returns batches of the next chunk that the caller does not have; nil if there are none
// yet. The caller applies them before it calls again; what it did not apply comes again. Next
// passes from an epoch that has ended to the next.
//
// Errors: ErrPointGone, ErrDiverged; *fault.CorruptionError for damage, and for a chunk that does
// not continue the chain.
func (f *Follower) Next(ctx context.Context) ([]Batch, error) {
	for missing := false; ; {
		batches, found, err := f.step(ctx)
		switch {
		case errors.Is(err, fault.ErrCorrupt):
			return nil, f.explain(ctx, err)
		case err != nil || len(batches) > 0:
			return batches, err
		case found:
			missing = false // it was a fence, or records that the caller has
			continue
		case missing:
			return nil, f.explain(ctx, f.missing())
		}
		// Whoever deletes a chunk raised the floor before.
		if err := f.Look(ctx); err != nil {
			return nil, err
		}
		if err := f.aboveFloor(); err != nil {
			return nil, err
		}
		if err := f.sameLineage(); err != nil {
			return nil, err
		}
		// HEAD names no end that is not there. But it is newer than the look at the chunk.
		if missing = f.pos.before(f.head.End); !missing {
			return nil, nil
		}
	}
}

// missing is the error for a chunk that must be there.
func (f *Follower) missing() error {
	return damaged(chunkKey(f.pos.Epoch, f.pos.Seq), "lineage", "the chunk is missing")
}

// explain returns the reason for damage, if it is that the position is below the floor: there
// chunks are deleted, and a late fence may stand where one was.
func (f *Follower) explain(ctx context.Context, damage error) error {
	if err := f.Look(ctx); err != nil {
		return err
	}
	if err := f.aboveFloor(); err != nil {
		return err
	}
	return damage
}

// sameLineage returns an error if HEAD is of another lineage of the store, as one is that was begun after the bucket was
// lost: nothing would ever stand at the position, however much is written.
func (f *Follower) sameLineage() error {
	end := f.head.End
	if end.LSN == f.pos.LSN && end.Chain != f.pos.Chain || end.LSN > f.pos.LSN && !f.pos.before(end) {
		return damaged(headKey, "lineage", "it ends at record %d, and is not that of the local records up to %d", end.LSN, f.pos.LSN)
	}
	return nil
}

// aboveFloor returns ErrPointGone if what comes next may be deleted.
func (f *Follower) aboveFloor() error {
	if f.pos.LSN < f.head.Floor.LSN {
		return fmt.Errorf("%w: it is record %d, and the next would be %d", ErrPointGone, f.head.Floor.LSN, f.pos.LSN+1)
	}
	return nil
}

// step reads what stands at the position, and moves behind it. It reports false if nothing
// stands there.
func (f *Follower) step(ctx context.Context) (batches []Batch, found bool, err error) {
	if f.local.End() < f.pos.LSN {
		f.pos = f.last // the caller failed to apply what it got
	}
	key := chunkKey(f.pos.Epoch, f.pos.Seq)
	b, err := f.chunk(ctx, key)
	if errors.Is(err, bucket.ErrNotFound) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	h, batches, err := decodeChunk(key, f.o.Store, b, f.o.Keys)
	if err != nil {
		return nil, false, err
	}
	if h.fence {
		if h.last != f.pos.LSN || h.after != f.pos.Chain {
			return nil, false, damaged(key, "fence", "it ends the lineage at record %d, and the chunks before it end at %d", h.last, f.pos.LSN)
		}
		f.pos.Epoch, f.pos.Seq = f.pos.Epoch+1, 0
		return nil, true, nil
	}
	end, err := f.follow(key, h, batches)
	if err != nil {
		return nil, false, err
	}
	lacking := make([]Batch, 0, len(batches))
	for _, b := range batches {
		if b, ok := b.behind(f.local.End()); ok {
			lacking = append(lacking, b)
		}
	}
	f.last, f.pos = f.pos, end
	return lacking, true, nil
}

// maxAhead is how large a chunk may be that is got before its turn. A larger one is got in its turn.
const maxAhead = 8 << 20

// early is a chunk that is got before its turn: it comes once, nil if it could not be got.
type early <-chan []byte

// chunk gets what stands at the position, under its key. Where HEAD says that more stands behind it, it begins to get that at the same
// time, and does not wait for it: its turn comes. What is not there, or cannot be got, is asked for again in its turn: nothing is passed
// over. What is under way ends with ctx, or by Options.CallTimeout.
func (f *Follower) chunk(ctx context.Context, key string) ([]byte, error) {
	if a, ok := f.ahead[key]; ok {
		delete(f.ahead, key)
		select {
		case b := <-a:
			if b != nil {
				return b, nil
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	} else {
		f.ahead = map[string]early{} // what is left of it is not needed
		for i := 1; i < min(f.o.Ahead, f.behind()); i++ {
			key := chunkKey(f.pos.Epoch, f.pos.Seq+uint64(i))
			came := make(chan []byte, 1)
			f.ahead[key] = came
			go func() {
				b, _, _ := f.o.get(ctx, key, maxAhead, "") // nil: see above
				came <- b
			}()
		}
	}
	b, _, err := f.o.get(ctx, key, maxChunk, "")
	return b, err
}

// behind is how many objects there are from the position on in its epoch, as far as HEAD says.
func (f *Follower) behind() int {
	to := uint64(0)
	if end := f.head.End; end.Epoch == f.pos.Epoch {
		to = end.Seq
	}
	for _, e := range f.head.Epochs {
		if e.Epoch == f.pos.Epoch && e.Fence > 0 {
			to = e.Fence + 1
		}
	}
	return int(min(max(to, f.pos.Seq)-f.pos.Seq, math.MaxInt32))
}

// follow checks that a chunk continues the lineage, and that the local records are those of the
// chunk as far as they go.
func (f *Follower) follow(key string, h *header, batches []Batch) (Position, error) {
	end, before := h.end(), h.before
	// A point, or a local end, may lie within the chunk.
	if h.first > f.pos.LSN+1 || h.last < f.pos.LSN+1 {
		return end, damaged(key, "chunk", "it has records %d to %d, and the next is %d", h.first, h.last, f.pos.LSN+1)
	}
	if chainOf(before, f.o.ChainKey, batches, f.pos.LSN) != f.pos.Chain {
		return end, damaged(key, "chunk", "its chain does not continue that of record %d", f.pos.LSN)
	}
	if chainOf(before, f.o.ChainKey, batches, h.last) != h.after {
		return end, damaged(key, "chunk", "its records do not have its chain")
	}
	if lsn := min(f.local.End(), h.last); lsn > max(f.pos.LSN, f.compared) {
		local, err := f.local.Chain(lsn)
		if err != nil {
			return end, err
		}
		if local != chainOf(before, f.o.ChainKey, batches, lsn) {
			return end, diverged(f.pos.LSN, "other records stand")
		}
	}
	return end, nil
}

// locate finds the position behind a record that HEAD knows to be in the lineage.
func (o *Options) locate(ctx context.Context, h *head, lsn base.LSN) (Position, error) {
	if lsn == h.End.LSN {
		return h.End, nil
	}
	if lsn < h.Floor.LSN {
		return Position{}, fmt.Errorf("%w: it is record %d, and this is record %d", ErrPointGone, h.Floor.LSN, lsn)
	}
	if lsn == h.Floor.LSN {
		return h.Floor, nil
	}
	i := len(h.Epochs) - 1
	for i > 0 && h.Epochs[i].Begin > lsn {
		i--
	}
	e := h.Epochs[i]
	if e.Begin == lsn {
		return Position{LSN: lsn, Chain: e.Chain, Stamp: e.Stamp, Epoch: e.Epoch}, nil
	}
	from, to := uint64(0), e.Fence
	if e.Epoch == h.Floor.Epoch {
		from = h.Floor.Seq
	}
	if e.Epoch == h.End.Epoch {
		to = h.End.Seq
	}
	for to-from > 1 { // chunk from begins at the record or before, chunk to behind it
		mid := from + (to-from)/2
		hd, err := o.header(ctx, e.Epoch, mid)
		if err != nil {
			return Position{}, gone(err)
		}
		if hd.first <= lsn {
			from = mid
		} else {
			to = mid
		}
	}
	key := chunkKey(e.Epoch, from)
	b, _, err := o.get(ctx, key, maxChunk, "")
	if err != nil {
		return Position{}, gone(err)
	}
	hd, batches, err := decodeChunk(key, o.Store, b, o.Keys)
	if err != nil {
		return Position{}, err
	}
	if hd.fence || lsn < hd.first || lsn > hd.last {
		return Position{}, damaged(key, "chunk", "it does not have record %d", lsn)
	}
	if lsn == hd.last {
		return hd.end(), nil
	}
	i = slices.IndexFunc(batches, func(b Batch) bool { return b.Last() >= lsn })
	return Position{LSN: lsn, Chain: chainOf(hd.before, o.ChainKey, batches, lsn), Stamp: batches[i].Stamp, Epoch: e.Epoch, Seq: from}, nil
}

// header reads the header of a chunk alone.
func (o *Options) header(ctx context.Context, epoch, seq uint64) (*header, error) {
	key := chunkKey(epoch, seq)
	b, _, err := o.read(ctx, key, maxChunk, bucket.GetOptions{Length: headerSize})
	if err != nil {
		return nil, err
	}
	return decodeHeader(key, o.Store, b)
}
