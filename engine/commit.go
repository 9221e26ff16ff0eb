package engine

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/wal"
)

// Commit runs fn and stores what it did as one record: all of it or nothing. The
// partitions fn reads or changes must be named by ids, so that they are in memory
// when it runs. fn runs on the log's committer, which may be the caller, and must not
// block; its error refuses this commit alone and is returned as it is. A commit that
// does nothing stores nothing.
//
// When Commit returns nil, the commit is visible, and durable as Options.Sync
// says. If ctx ends while the commit is in the log's hands the error wraps
// ErrOutcomeUnknown.
func (e *Engine) Commit(ctx context.Context, ids []string, fn func(*Tx) error) error {
	return e.CommitWith(ctx, CommitOptions{}, ids, fn)
}

// CommitOptions are what the log must know of a commit before the record is made.
type CommitOptions struct {
	Size   int64 // about how many bytes the record will have; 0 if unknown
	Urgent bool  // it frees space: pass where others are refused for want of it
	// Deferred: written is enough; durable with the next sync. See wal.Record.
	Deferred bool
	// Began is the moment from which the commit's time is counted, such as the end of the
	// caller's serializing; 0 is the call itself.
	Began Time
}

// CommitWith is Commit with options. A Rider that ctx carries is stored with it; see
// WithRider.
//
// The way of one Put, of which this is the middle:
//
//  1. disk.Saver.PutRequest makes the plan of the put (rules.PutPlan), which refuses what is
//     wrong with the call, and serializes it. Nothing is shared yet, and no lock is held.
//  2. NewRevision tries a patch of the record and of each channel value, against the last
//     version of its series or the one with which its run of patches began. The patch stays
//     where it saves a quarter. Each value gets its checksum.
//  3. CommitWith waits where flush and compaction are behind (stall), or the bucket of a
//     replica is (replication.admit). It loads the partitions that are cold, so that the
//     committer reads nothing for them. Then Log.Commit puts the commit into a bounded queue.
//     One committer takes what is queued as a batch. The caller is the committer if the log is
//     idle, the last batch was a single record, and ctx cannot be cancelled.
//  4. For each record of the batch, in order, the log calls back (wal.Record.Prepare, which is
//     Tx.prepare), and that calls fn, the saver's diskPut.commit: it reads what all earlier
//     commits left (the index, and over it what is not published yet), checks ExpectHead and
//     deletions, and says what to change; Tx.Put notes each entry, and whether a value goes in
//     whole or as its patch. A refusal here ends the call with a typed error, and nothing is
//     written for it.
//  5. The log writes the frames of the batch, one behind the other, and makes them durable with
//     one fdatasync for all. It asks whether the log file still has its name, and Options.Guard,
//     which is Engine.ownsDir, whether LOCK has, and writes the durable mark. With a replica the records
//     then go to it (wal.Options.Replicate); in mode sync the batch waits until the bucket has
//     them. A batch in which every record is Deferred, as the writes of a task are, is published
//     without a sync: the next sync makes it durable (see wal.Record).
//  6. The log calls Options.Apply, which is Engine.applied: it changes the index, and from here
//     every reader sees the batch. Then the callers wake, and each makes its values the last
//     of their series (committed).
//
// A crash before the sync of 5 may leave any part of the batch in the log. Open cuts off the
// frame that is torn, and keeps whole frames before it, although nobody was told of them.
// After the sync, replay of the log gives the same index. Where package pregel has several
// checkpoints at once it comes by saver/group and CommitAll: then each is a record of one batch.
func (e *Engine) CommitWith(ctx context.Context, o CommitOptions, ids []string, fn func(*Tx) error) error {
	if err := e.MayWrite(); err != nil {
		return err
	}
	if o.Began == 0 {
		o.Began = Now()
	}
	ids, fn = ride(ctx, &o, ids, fn)
	if err := e.stall(ctx, o.Size, o.Urgent); err != nil {
		return err
	}
	if err := e.Enter(); err != nil {
		return err
	}
	defer e.Leave()
	ctx, cancel, err := e.replica.admit(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	tx, err := e.begin(o, ids, fn, nil)
	if err != nil {
		return err
	}
	last := e.log.LastLSN()
	err = e.log.Commit(ctx, &tx.record)
	if errors.Is(err, errNothing) {
		return nil
	}
	if err != nil {
		e.noteRefusal(err, last)
		return err
	}
	e.nudge()
	e.reclaimAfter(o.Urgent)
	e.committed(tx, o.Began)
	return nil
}

// begin prepares a commit for the log. after is the commit that it follows, if that is prepared but not
// committed yet; else nil.
func (e *Engine) begin(o CommitOptions, ids []string, fn func(*Tx) error, after *Tx) (*Tx, error) {
	tx := e.newTx(fn)
	tx.record.Size, tx.record.Urgent, tx.record.Deferred = o.Size, o.Urgent, o.Deferred
	for _, id := range ids {
		if after != nil {
			if t, ok := after.loaded.get(id); ok {
				tx.loaded.set(id, t)
				continue
			}
		}
		t, err := e.loadPartition(id)
		if err != nil {
			return nil, err
		}
		tx.loaded.set(id, t)
	}
	return tx, nil
}

// committed ends a commit that the log has answered with success.
func (e *Engine) committed(tx *Tx, began Time) {
	e.publishRevisions(tx)
	e.noteCommit(tx, began)
	tx.release()
}

// Step is one of the commits of CommitAll. Each must do something.
type Step struct {
	CommitOptions
	IDs []string
	Do  func(*Tx) error
}

// CommitAll makes several commits in order, each a record of its own, which are handed to the log
// together. When one of them is refused, none behind it is made. It returns how many were made, and the
// error of the next one. It stores no Rider.
func (e *Engine) CommitAll(ctx context.Context, steps []Step) (int, error) {
	if err := e.MayWrite(); err != nil {
		return 0, err
	}
	var size int64
	now := Now()
	for i := range steps {
		size += steps[i].Size
		steps[i].Began = cmp.Or(steps[i].Began, now)
	}
	if err := e.stall(ctx, size, false); err != nil {
		return 0, err
	}
	if err := e.Enter(); err != nil {
		return 0, err
	}
	defer e.Leave()
	ctx, cancel, err := e.replica.admit(ctx)
	if err != nil {
		return 0, err
	}
	defer cancel()
	txs, records := make([]*Tx, 0, len(steps)), make([]*wal.Record, 0, len(steps))
	var refused error
	for i := range steps {
		s := &steps[i]
		var tx, after *Tx
		if i > 0 {
			after = txs[i-1]
		}
		if tx, refused = e.begin(s.CommitOptions, s.IDs, s.Do, after); refused != nil {
			break // those before it are made
		}
		txs, records = append(txs, tx), append(records, &tx.record)
	}
	last := e.log.LastLSN()
	n, err := e.log.CommitAll(ctx, records)
	if err != nil {
		e.noteRefusal(err, last)
	} else {
		err = refused
	}
	if n > 0 {
		e.nudge()
	}
	for i, tx := range txs[:n] {
		e.committed(tx, steps[i].Began)
	}
	return n, err
}

// noteCommit counts a commit that began at begin.
func (e *Engine) noteCommit(tx *Tx, begin Time) {
	var n int64
	for i := range tx.values {
		n += tx.values[i].val.size
	}
	e.valueBytes.Add(n)
	e.commits.Since(begin)
}

// errNothing refuses an empty record.
var errNothing = errors.New("commit did nothing")

// prepare runs on the committer, in commit order.
func (tx *Tx) prepare(lsn base.LSN) ([][]byte, error) {
	tx.lsn, tx.now = lsn, tx.e.Opts.Clock().UnixMicro()
	tx.did = logRecord{time: tx.now, ops: tx.e.scratch.ops}
	head, err := tx.perform()
	tx.e.scratch.reset(tx.did.ops)
	tx.did.ops = nil
	if err != nil {
		return nil, err
	}
	tx.e.unpublished.add(tx)
	tx.head, tx.body[0] = head, head
	return tx.body, nil
}

// perform runs the caller's function and returns the head of the record of what it
// did.
func (tx *Tx) perform() ([]byte, error) {
	err := tx.fn(tx)
	if tx.err != nil { // a read by fn failed, so fn decided on incomplete data, whatever it returned
		err = tx.err
	}
	if err != nil {
		return nil, err
	}
	if len(tx.did.ops) == 0 {
		return nil, errNothing
	}
	return appendRecordHeader(tx.head, &tx.did), nil
}

// applied makes a durable (or, in a relaxed mode, written) batch visible. It runs
// on the committer before any caller wakes.
func (e *Engine) applied(batch []*wal.Record) {
	if _, ok := batch[0].User.(*followed); ok {
		e.appliedFollowed(batch)
		return
	}
	var bytes int64
	for _, r := range batch {
		r.User.(*Tx).place(r)
		bytes += r.Len
	}
	c := e.unpublished.take(batch)
	for _, id := range c.Remove {
		if t, err := e.Index.Partition(id); err == nil { // the commit has loaded it
			e.garbage.noteDropped(t, batch[len(batch)-1].LSN)
		}
	}
	e.Index.Apply(c)
	e.noteChanged(func(yield func(string)) {
		for _, r := range batch {
			for _, p := range r.User.(*Tx).partitions.list {
				yield(p.id)
			}
		}
	})
	e.flusher.committed(c.Put, c.LSN, bytes)
}

// aborted drops the changes of a batch that was refused.
func (e *Engine) aborted(batch []*wal.Record) {
	if tx, ok := batch[0].User.(*Tx); ok {
		e.unpublished.drop(tx)
	}
}

// place tells the families where this commit's values lie in the log.
func (tx *Tx) place(r *wal.Record) {
	at := r.Len - tx.size
	var room [8]index.ValueLoc
	for i := 0; i < len(tx.values); {
		fam := tx.values[i].fam
		values := room[:0]
		for ; i < len(tx.values) && tx.values[i].fam == fam; i++ {
			v := &tx.values[i]
			v.loc.File = r.File
			v.loc.Off, v.loc.Inner = sealedPlace(r.Sealed, r.Offset, at)
			if v.patched() {
				tx.e.notePatch(v)
			}
			values = append(values, index.ValueLoc{Ref: v.ref, Loc: v.loc})
			at += v.size
		}
		fam.Add(values)
	}
}

// unpublished is the state of commits that are prepared but not yet visible: those of the
// batch being made, and of the one being synced meanwhile. It is used by the
// committer only.
type unpublished struct {
	partitions changes[*index.Partition] // nil: removed
	tombs      changes[index.Tombstone]
	patches    int   // values among them that are stored as patches
	txs        []*Tx // the commits, in their order
}

// changes has the newest unpublished version of partitions or tombstones, by id.
type changes[T any] map[string]queued[T]

// queued is a version together with the record that made it, the newest unpublished record that changed
// it.
type queued[T any] struct {
	v   T
	lsn base.LSN
}

func newUnpublished() unpublished {
	return unpublished{partitions: changes[*index.Partition]{}, tombs: changes[index.Tombstone]{}}
}

func (q *unpublished) partition(ix *index.Index, id string) (*index.Partition, error) {
	if t, ok := q.partitions[id]; ok {
		return t.v, nil
	}
	return ix.Partition(id)
}

func (q *unpublished) tomb(ix *index.Index, id string) (index.Tombstone, bool) {
	if m, ok := q.tombs[id]; ok {
		return m.v, true
	}
	return ix.Tombstone(id)
}

func (q *unpublished) add(tx *Tx) {
	q.txs = append(q.txs, tx)
	q.partitions.add(&tx.partitions, tx.lsn)
	q.tombs.add(&tx.tombs, tx.lsn)
	q.patches += tx.patches
}

// drop removes the changes of tx, which was refused, and of all commits prepared after it: the log
// refuses these next, before anything else is prepared. Changes of earlier commits stay.
func (q *unpublished) drop(tx *Tx) {
	i := slices.Index(q.txs, tx)
	if i < 0 { // with one before it
		return
	}
	kept := slices.Clone(q.txs[:i])
	*q = newUnpublished()
	for _, tx := range kept {
		q.add(tx)
	}
}

func (c changes[T]) add(made *byID[T], lsn base.LSN) {
	for i := range made.list {
		c[made.list[i].id] = queued[T]{made.list[i].v, lsn}
	}
}

// take removes and returns the changes of a batch, as one. Changes that later records made to the same
// partitions stay.
func (q *unpublished) take(batch []*wal.Record) index.Change {
	last := batch[len(batch)-1].LSN
	q.txs = slices.Delete(q.txs, 0, len(batch))
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

// take reports whether record lsn is the last one of its batch that changed id, and removes that
// change. The batch, whose last record is last, is walked backwards. seen has the ids that records
// behind the batch have changed as well.
func (c changes[T]) take(id string, lsn, last base.LSN, seen *map[string]bool) bool {
	switch newest := c[id].lsn; {
	case newest == lsn:
		delete(c, id)
		return true
	case newest <= last, (*seen)[id]: // a later record of the batch has changed it
		return false
	}
	if *seen == nil {
		*seen = map[string]bool{}
	}
	(*seen)[id] = true
	return true
}

// Change is what Commit takes, bundled: a layer above made it ready, and it can be a
// commit of its own or a part of one.
type Change struct {
	Partitions []string        // what Do reads or changes
	Size       int64           // about how many bytes it adds to the record
	Urgent     bool            // it only frees space; see CommitOptions
	Do         func(*Tx) error // runs on the committer and must not block
}

// Prepared is a Change for the store of Engine, which a saver stores with a checkpoint.
type Prepared struct {
	Engine *Engine
	Change
}

// StoreChange implements saver.Change.
func (Prepared) StoreChange() {}

// Now is the clock's time in unix µs, as commits see it.
func (e *Engine) Now() int64 { return e.Opts.Clock().UnixMicro() }
