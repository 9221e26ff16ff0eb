package wal

import (
	"slices"
	"sync"

	"github.com/stele-go/stele/base"
)

// replication gives records to Options.Replicate. It keeps a copy of each record that was written and not
// given yet: the slices of the caller are valid until Apply only, and a record whose sync is left to a later
// one is applied before.
type replication struct {
	// sending is held during Replicate, so that calls come one at a time and in order.
	sending sync.Mutex

	mu      sync.Mutex
	first   base.LSN // of records
	records [][]byte
}

// wrote keeps the records of a batch that was written. It ends before next.
func (r *replication) wrote(reqs []*request, next base.LSN) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.records) == 0 {
		r.first = next - base.LSN(len(reqs))
	}
	for _, req := range reqs {
		r.records = append(r.records, slices.Concat(req.parts...))
	}
}

// take returns the records up to lsn, and forgets them.
func (r *replication) take(lsn base.LSN) (first base.LSN, records [][]byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.records) == 0 || lsn < r.first {
		return 0, nil
	}
	n := min(len(r.records), int(lsn-r.first)+1)
	first, records = r.first, r.records[:n:n]
	if r.first, r.records = first+base.LSN(n), r.records[n:]; len(r.records) == 0 {
		r.records = nil // its array has the records that were given
	}
	return first, records
}

// replicate gives the records up to lsn, which have just become durable, to Options.Replicate. A failure
// poisons the log.
func (l *Log) replicate(lsn base.LSN) error {
	if l.opts.Replicate == nil {
		return nil
	}
	l.replication.sending.Lock()
	defer l.replication.sending.Unlock()
	first, records := l.replication.take(lsn)
	if len(records) == 0 {
		return l.poisoned() // another call may have failed with them
	}
	if err := l.opts.Replicate(first, records); err != nil {
		return l.fail("replicate", err)
	}
	return nil
}
