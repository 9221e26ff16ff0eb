package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/replica"
	"github.com/stele-go/stele/wal"
)

// ApplyBatches appends batches of the lineage to the log, and applies them as replay does. Open calls it for what the
// bucket has beyond the log, and so does whoever follows a leader: the store makes no commits of its own then, and
// flushes nothing but where a batch is behind a cut, since patches in later ones may be against values that the flush would move.
// After an error the store is closed, and opened again.
func (e *Engine) ApplyBatches(ctx context.Context, batches []replica.Batch) error {
	var failed error
	var records []*wal.Record // of several batches: each call of CommitAll waits for the disk
	last := base.LSN(0)
	commit := func() error {
		_, err := e.log.CommitAll(ctx, records)
		if err = errors.Join(err, failed); err != nil {
			return fmt.Errorf("apply the records up to %d: %w", last, err)
		}
		records = nil
		return nil
	}
	for _, b := range batches {
		for i, payload := range b.Records {
			last = b.First + base.LSN(i)
			if records = append(records, e.followed(last, payload, &failed)); len(records) < readRecords {
				continue
			}
			if err := commit(); err != nil {
				return err
			}
		}
	}
	return commit()
}

// OpenFollowing opens a store that stands at a place of a lineage, for ApplyBatches, and returns what it has of the lineage from
// there on. Nothing else may be written to it.
func OpenFollowing(dir string, opts Options, at replica.Position) (*Engine, replica.Local, error) {
	opts.Replica, opts.follows, opts.ManualWork = Replica{}, true, true
	e, err := Open(dir, opts)
	if err != nil {
		return nil, nil, err
	}
	var key []byte
	if m := e.manifest.State().Replica; m != nil {
		key = m.ChainKey
	}
	if e.replica.local, err = e.chainFrom(at, key); err != nil {
		return nil, nil, errors.Join(err, e.Close())
	}
	return e, e.replica.local, nil
}

// followed is a record of the lineage.
type followed struct {
	payload []byte
	failed  *error // of applying it
}

// followed makes the record for the log. It is refused before a byte is written if it has not the LSN that is
// next, or if this build cannot read it.
func (e *Engine) followed(lsn base.LSN, payload []byte, failed *error) *wal.Record {
	f := &followed{payload, failed}
	return &wal.Record{Size: int64(len(payload)), Urgent: true, User: f, Prepare: func(next base.LSN) ([][]byte, error) {
		if next != lsn {
			return nil, fmt.Errorf("record %d of the lineage where %d is due", lsn, next)
		}
		if _, err := DecodeRecord(payload); err != nil {
			return nil, err
		}
		return [][]byte{payload}, nil
	}}
}

// appliedFollowed makes a batch of the lineage visible.
func (e *Engine) appliedFollowed(batch []*wal.Record) {
	var b recordBatch
	var dec recordDecoder
	for _, r := range batch {
		f := r.User.(*followed)
		b.add(&dec, &wal.Entry{LSN: r.LSN, File: r.File, Offset: r.Offset, Sealed: r.Sealed, Payload: f.payload})
		if e.replica.local != nil {
			e.replica.local.add(f.payload)
		}
	}
	if err := (&replayer{e: e}).batch(&b); err != nil {
		*batch[0].User.(*followed).failed = err
		return
	}
	e.noteChanged(func(yield func(string)) {
		for i := range b.ops {
			yield(b.ops[i].id)
			if b.ops[i].kind == opCopy {
				yield(b.ops[i].key)
			}
		}
	})
}
