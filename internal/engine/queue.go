package engine

import (
	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/internal/base"
	"github.com/stele-go/stele/wal"
)

// queue is the state of commits that are prepared but not yet visible: those of the
// batch being made, and of the one being synced meanwhile. It is used by the
// committer only.
type queue struct {
	partitions changes[*index.Partition] // nil: removed
	tombs      changes[index.Tombstone]
	patches    int // values among them that are stored as patches
}

// changes are what the commits made of things, by id.
type changes[T any] map[string]queued[T]

// queued is what record lsn, the last to do so, made of something.
type queued[T any] struct {
	v   T
	lsn base.LSN
}

func newQueue() queue {
	return queue{partitions: changes[*index.Partition]{}, tombs: changes[index.Tombstone]{}}
}

func (q *queue) partition(ix *index.Index, id string) (*index.Partition, error) {
	if t, ok := q.partitions[id]; ok {
		return t.v, nil
	}
	return ix.Partition(id)
}

func (q *queue) tomb(ix *index.Index, id string) (index.Tombstone, bool) {
	if m, ok := q.tombs[id]; ok {
		return m.v, true
	}
	return ix.Tombstone(id)
}

func (q *queue) add(tx *Tx) {
	q.partitions.add(&tx.partitions, tx.lsn)
	q.tombs.add(&tx.tombs, tx.lsn)
	q.patches += tx.patches
}

func (q *queue) clear() {
	clear(q.partitions)
	clear(q.tombs)
	q.patches = 0
}

func (c changes[T]) add(made *byName[T], lsn base.LSN) {
	for i := range made.list {
		c[made.list[i].id] = queued[T]{made.list[i].v, lsn}
	}
}

// take is what the records of a batch did, in one step. What records behind the
// batch made of the same things stays.
func (q *queue) take(batch []*wal.Record) index.Change {
	last := batch[len(batch)-1].LSN
	out := index.Change{LSN: last, Put: make([]*index.Partition, 0, len(batch))}
	var partitions, tombs map[string]bool
	for i := len(batch) - 1; i >= 0; i-- {
		tx := batch[i].User.(*Tx)
		q.patches -= tx.patches
		for _, t := range tx.partitions.list {
			switch {
			case !q.partitions.take(t.id, tx.lsn, last, &partitions):
			case t.v == nil:
				out.Remove = append(out.Remove, t.id)
			default:
				out.Put = append(out.Put, t.v)
			}
		}
		for _, m := range tx.tombs.list {
			if q.tombs.take(m.id, tx.lsn, last, &tombs) {
				out.Remember = append(out.Remember, m.v)
			}
		}
	}
	return out
}

// take reports whether record lsn is the last of its batch, which ends with record
// last, to change id, and removes what it made of it. The batch is gone through
// backwards. In seen are ids that records behind the batch changed once more.
func (c changes[T]) take(id string, lsn, last base.LSN, seen *map[string]bool) bool {
	switch newest := c[id].lsn; {
	case newest == lsn:
		delete(c, id)
		return true
	case newest <= last, (*seen)[id]: // a later record of the batch has been here
		return false
	}
	if *seen == nil {
		*seen = map[string]bool{}
	}
	(*seen)[id] = true
	return true
}
