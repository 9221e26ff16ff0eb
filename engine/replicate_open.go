package engine

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/replica"
	"github.com/stele-go/stele/snapshot"
	"github.com/stele-go/stele/wal"
)

// refuseReplicated refuses to write to a directory whose log is kept in a bucket without that bucket, to one that a restore
// left half made, and to encrypt one whose chunks are not: who has the bucket reads them.
func (e *Engine) refuseReplicated(st snapshot.State) error {
	switch r := st.Replica; {
	case r == nil || e.Opts.follows:
	case r.Epoch == 0:
		return errHalfRestored
	case e.Opts.Replica.Bucket == nil:
		return fault.ErrReplicated
	case e.Opts.EncryptExisting && r.ChainKey == nil:
		return errPlainLineage
	}
	return nil
}

// errPlainLineage is the error for encrypting a store whose log lies in a bucket as it is.
var errPlainLineage = fmt.Errorf("the bucket has the log without encryption; detach the store, encrypt it, and give it an empty bucket: %w",
	fault.ErrReplicated)

// errHalfRestored is the error for a directory in which a restore from a bucket was interrupted.
var errHalfRestored = fmt.Errorf("a restore from a bucket was interrupted here; remove the directory, and restore again: %w", fault.ErrReplicated)

// Detach makes a directory whose log is kept in a bucket a store of its own, which opens without the bucket.
// It is never part of that lineage again. One that was restored, or followed, and has not led since may be a second store beside the
// first one: it is held.
func Detach(dir string, opts Options) error {
	opts.Replica, opts.follows = Replica{}, true
	e, err := Open(dir, opts)
	if err != nil {
		return err
	}
	if r := e.manifest.State().Replica; r != nil && r.Epoch == 0 {
		err = errHalfRestored
	} else {
		err = e.LeaveLineage(r != nil && r.Restored)
	}
	return errors.Join(err, e.Close())
}

// SetLineage says in the manifest where the store stands in a lineage: as a new directory of it, which has not led yet. The log has
// all records behind the place.
func (e *Engine) SetLineage(at replica.Position) error {
	m := &snapshot.Replica{Dir: e.newID(), Restored: true, LSN: at.LSN, Stamp: at.Stamp, Epoch: at.Epoch, Seq: at.Seq, Chain: at.Chain}
	if old := e.manifest.State().Replica; old != nil {
		m.ChainKey = old.ChainKey
	}
	_, err := e.manifest.Apply(snapshot.Edit{Replica: m})
	return err
}

// LeaveLineage says in the manifest that the store is in no lineage, and in the same edit, if held says so, that it is held.
func (e *Engine) LeaveLineage(held bool) error {
	edit := snapshot.Edit{Replica: &snapshot.Replica{}}
	if held {
		at := e.log.LastLSN()
		edit.SetHeld = &at
	}
	_, err := e.manifest.Apply(edit)
	return err
}

// newID returns a random number that is not 0.
func (e *Engine) newID() uint64 {
	for {
		if id := e.Opts.Rand(); id != 0 {
			return id
		}
	}
}

// lead makes the store the leader of its lineage: after the replay, and before any record is its own. It
// applies what the bucket has beyond the end of the log. What the log has beyond the bucket goes there
// again, unless another directory led since: then it is saved beside, and the error is
// replica.ErrDiverged.
func (e *Engine) lead() error {
	if e.Opts.Replica.Bucket == nil || e.Opts.follows {
		return nil
	}
	ctx := e.Opts.Opening
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // what was read ahead and is not needed
	r := e.replica
	m := e.manifest.State().Replica
	if m == nil {
		// Nothing ties the directory to a lineage that may be in the bucket: Begin refuses it then.
		m = &snapshot.Replica{Dir: e.newID()}
		if e.Keys != nil {
			m.ChainKey = make([]byte, 32)
			if e.Opts.Entropy != nil {
				e.Opts.Entropy(m.ChainKey)
			} else {
				_, _ = rand.Read(m.ChainKey) // never fails
			}
		}
	}
	r.ro = e.lineageOptions(m)
	leader, err := r.takeOver(ctx, m)
	switch {
	case errors.Is(err, replica.ErrNoLineage) && (m.Epoch > 1 || m.Seq > 0):
		err = fmt.Errorf("%w: the directory has followed one: name its bucket, or detach the directory if that is lost", err)
	case errors.Is(err, replica.ErrNoLineage):
		err = r.insist(ctx, func() (err error) { leader, err = r.begin(ctx, m); return err })
	case errors.Is(err, replica.ErrOtherStore) && e.report.Created:
		err = fmt.Errorf("%w; the directory is new: remove it, and restore the store from the bucket", err)
	}
	if err == nil {
		err = e.log.Sync(ctx) // what came from the bucket is given now, and not once there is a leader
	}
	if err != nil {
		return fmt.Errorf("replica: %w", err)
	}
	r.leader = leader
	end := e.log.LastLSN()
	e.flusher.patchFloor.Store(uint64(end) + 1) // others cut their logs elsewhere; see flusher
	r.cutBehind(end)
	r.given, r.fed, r.local, r.found = end, r.leader.End().LSN == end, nil, end
	if r.given > r.leader.Synced() {
		r.ages = append(r.ages, aged{end, time.Now()})
	}
	if _, err := e.manifest.Apply(snapshot.Edit{Replica: r.mark(r.leader.SyncedAt())}); err != nil {
		return err
	}
	if err := e.ownDir(); err != nil {
		return err
	}
	if err := r.begun(ctx); err != nil {
		return err
	}
	if m := r.mark(r.leader.SyncedAt()); e.manifest.State().Replica.Ahead && !m.Ahead { // before mode Sync acknowledges anything
		if _, err := e.manifest.Apply(snapshot.Edit{Replica: m}); err != nil {
			return err
		}
	}
	if !e.Opts.Inline {
		r.work.Go(r.makePoints)
	}
	return nil
}

// lineageOptions are those of package replica for a directory.
func (e *Engine) lineageOptions(m *snapshot.Replica) replica.Options {
	o := e.Opts.Replica
	ro := replica.Options{Bucket: o.Bucket, Store: e.Found.StoreID, Dir: fmt.Sprintf("%016x", m.Dir), Keys: e.Files.Keys,
		ChainKey: m.ChainKey, TTL: o.TTL, Clock: o.Clock, Interval: o.Interval, QueueBytes: o.queueBytes,
		Owner: fmt.Sprintf("%016x", e.newID())}
	if !e.Opts.Inline {
		ro.Ahead = replica.ReadAhead
	}
	if o.Mode == replica.Sync || e.Opts.Inline {
		ro.Interval = 0
	}
	return ro
}

// quickTries and quickFor are how often a step of Open is tried, and for how long all are, whose caller can do something else while the
// bucket is away.
const (
	quickTries = 3
	quickFor   = 5 * time.Second
)

// insist repeats a step of Open while the bucket gives no answer. Any answer is left to the caller. All steps of an Open together wait
// for Replica.Deadline, and for what the last try takes; the time of what succeeds does not count.
func (r *replication) insist(ctx context.Context, step func() error) error {
	most, tries := r.o.Deadline, math.MaxInt
	if r.o.impatient || r.e.Opts.follows || r.e.Opts.Inline {
		most, tries = min(most, quickFor), quickTries
	}
	began := r.clock()
	for try := 1; ; try++ {
		err := step()
		if !errors.Is(err, replica.ErrAway) || ctx.Err() != nil {
			return err
		}
		if !r.toldAway { // who started the program sees nothing else for as long
			r.e.Opts.Logger.Warn("wait for the bucket", "dir", r.e.Dir, "error", err)
			r.toldAway = true
		}
		now := r.clock()
		r.waited, began = r.waited+now-began, now
		if try >= tries || r.waited >= most {
			return err
		}
		if !r.e.Opts.Inline {
			sleep(ctx, min(r.o.Interval, time.Second))
		}
	}
}

// begin begins a lineage in an empty bucket. The manifest says where, before HEAD does: a crash leaves a
// directory that finds its own lineage.
func (r *replication) begin(ctx context.Context, m *snapshot.Replica) (*replica.Leader, error) {
	e := r.e
	if !e.Opts.Inline {
		if err := replica.Probe(ctx, r.ro, e.Opts.Logger); err != nil {
			return nil, err
		}
	}
	end := e.log.LastLSN()
	if m.LSN != end || m.Epoch != 1 || m.Seq != 0 { // else it was tried before
		m.Restored, m.LSN, m.Stamp, m.Epoch, m.Seq, m.Chain = false, end, e.Now(), 1, 0, replica.Chain{}
		for i := 0; i < len(m.Chain) && end > 0; i++ {
			m.Chain[i] = byte(e.Opts.Rand()) // nobody knows the records before
		}
		if _, err := e.manifest.Apply(snapshot.Edit{Replica: m}); err != nil {
			return nil, err
		}
	}
	leader, err := replica.Begin(ctx, r.ro, &localChain{from: end, chains: []replica.Chain{m.Chain}}, r.o.Mode, m.Stamp)
	if errors.Is(err, replica.ErrNotEmpty) {
		err = fmt.Errorf("%w: the directory never followed the lineage that is there: restore it from the bucket", err)
	}
	return leader, err
}

// takeOver follows the lineage from the mark to its end, and leads from there.
func (r *replication) takeOver(ctx context.Context, m *snapshot.Replica) (leader *replica.Leader, err error) {
	e := r.e
	at := marked(m)
	if m.Epoch == 0 { // the directory is in no lineage
		if err := r.insist(ctx, func() error { _, err := replica.Points(ctx, r.ro); return err }); err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("%w: the directory was restored to an earlier moment, or from a backup, or never followed the bucket", replica.ErrDiverged)
	}
	if r.local, err = e.chainFrom(at, m.ChainKey); err != nil {
		return nil, err
	}
	restored := m.Restored && !e.isCache() // by somebody who knew that the leader is gone
	leader, err = r.takeOverFrom(ctx, at, restored)
	if errors.Is(err, replica.ErrPointGone) { // retention has passed the mark, and the log goes further
		leader, err = r.takeOverFrom(ctx, replica.Position{}, restored)
	}
	if errors.Is(err, replica.ErrDiverged) {
		if r.same.LSN < at.LSN {
			r.same = at
		}
		err = errors.Join(err, r.saveTail(r.same))
	}
	return leader, err
}

func (r *replication) takeOverFrom(ctx context.Context, from replica.Position, restored bool) (leader *replica.Leader, err error) {
	var f *replica.Follower
	err = r.insist(ctx, func() (err error) { f, err = replica.Follow(ctx, r.ro, r.local, from); return err })
	if err != nil {
		return nil, err
	}
	apply := func(b []replica.Batch) error { return r.e.ApplyBatches(ctx, b) }
	for !f.Own() { // a follower that was killed has records of the lineage behind its mark
		var batches []replica.Batch
		err := r.insist(ctx, func() (err error) { batches, err = f.Next(ctx); return err })
		r.same = f.Position()
		if err == nil && batches != nil {
			err = apply(batches)
		}
		if err != nil {
			return nil, err
		}
		if batches == nil {
			break
		}
	}
	for began, told := r.clock(), false; ; told = true {
		// The lock of the directory is held: its last leader has ended.
		own := f.Own()
		err = replica.ErrLeased
		if own || f.Vacant() {
			take := replica.TakeOver{Mode: r.o.Mode, Force: own, LoseTail: r.o.AcceptLoss || restored}
			err = r.insist(ctx, func() (err error) { leader, err = f.TakeOver(ctx, take, apply); return err })
		}
		if !errors.Is(err, replica.ErrLeased) || r.o.impatient || r.clock()-began > 2*r.o.TTL {
			break
		}
		if !told { // who started the program sees nothing else for as long
			r.e.Opts.Logger.Warn("wait for lease", "dir", r.e.Dir, "ttl", r.o.TTL)
		}
		sleep(ctx, r.o.TTL/20)
		err = ctx.Err()
		if err == nil {
			err = r.insist(ctx, func() error { return f.Look(ctx) })
		}
		if err != nil {
			return nil, err
		}
	}
	r.same = f.Position()
	return leader, err
}

// begun begins the work of a leader. In mode Sync it returns when the bucket has all that anybody can see. What is
// flushed before, as for a point, would be shown by who opens the directory while the bucket is away.
func (r *replication) begun(ctx context.Context) error {
	r.start()
	if r.e.Opts.Inline {
		err := r.feed(ctx)
		if err == nil {
			err = r.insist(ctx, func() error { return r.seed(ctx) })
		}
		if err != nil {
			return err
		}
	}
	if r.o.Mode != replica.Sync {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, r.o.Deadline-r.waited)
	defer cancel()
	err := r.await(ctx, r.given)
	if errors.Is(err, fault.ErrOutcomeUnknown) { // nothing was fenced
		err = fmt.Errorf("%w: %w", replica.ErrAway, err)
	}
	if err != nil {
		return fmt.Errorf("replica: the bucket does not have the end of the log: %w", err)
	}
	err = r.insist(ctx, func() error { return r.leader.SetMode(ctx, replica.Sync) })
	if err != nil {
		return fmt.Errorf("replica: %w", err)
	}
	return nil
}

// localChain is what the log has of a lineage: the chain behind each record from one on. It implements replica.Local.
type localChain struct {
	key    []byte
	from   base.LSN
	chains []replica.Chain // behind record from and those that follow
}

// End implements replica.Local.
func (c *localChain) End() base.LSN { return c.from + base.LSN(len(c.chains)) - 1 }

// Chain implements replica.Local.
func (c *localChain) Chain(lsn base.LSN) (replica.Chain, error) {
	if lsn < c.from || lsn > c.End() {
		return replica.Chain{}, fmt.Errorf("the chain behind record %d is not known, but of records %d to %d", lsn, c.from, c.End())
	}
	return c.chains[lsn-c.from], nil
}

// forget drops what is before a record.
func (c *localChain) forget(lsn base.LSN) {
	c.chains, c.from = slices.Clone(c.chains[lsn-c.from:]), lsn
}

func (c *localChain) add(record []byte) {
	c.chains = append(c.chains, c.chains[len(c.chains)-1].Next(c.key, c.End()+1, record))
}

// chainFrom computes the chain over the log from a place on.
func (e *Engine) chainFrom(at replica.Position, key []byte) (*localChain, error) {
	c := &localChain{key: key, from: at.LSN, chains: []replica.Chain{at.Chain}}
	return c, e.readLog(at.LSN+1, e.log.LastLSN(), func(_ base.LSN, record []byte) error {
		c.add(record)
		return nil
	})
}

// errReadEnough ends readLog.
var errReadEnough = errors.New("enough")

// readLog calls visit for the records from one to another, which are durable. The slice is valid
// during the call. Commits may go on.
func (e *Engine) readLog(from, to base.LSN, visit func(base.LSN, []byte) error) error {
	if from > to {
		return nil
	}
	st := e.manifest.State()
	for len(st.Logs) > 1 && st.Logs[1].BaseLSN <= from { // a flush may remove it
		st.Logs = st.Logs[1:]
	}
	last := from - 1
	_, err := wal.Recover(wal.RecoverOptions{FS: e.Opts.FS, Dir: e.Dir, Files: st.LogNums(), FromLSN: from, Origin: st.StoreID,
		Salts: st.LogSalts(), ReadOnly: true, Keys: e.Files.Keys}, func(en wal.Entry) error {
		if en.LSN > to {
			return errReadEnough
		}
		last = en.LSN
		return visit(en.LSN, en.Payload)
	})
	switch {
	case errors.Is(err, errReadEnough):
		return nil
	case err == nil && last < to:
		return &fault.CorruptionError{File: "log", Kind: "log", Offset: -1, Detail: fmt.Sprintf("it ends with record %d, and %d was durable", last, to)}
	}
	return err
}

// A batch that is made of the log ends at so many records or bytes.
const (
	readRecords = 256
	readBytes   = 1 << 20
)

// readBatches is readLog with batches, which the callee may keep. The stamp of one is the time of each of its commits: a restore to a
// moment takes batches whole, so commits of different times are in different ones.
func (e *Engine) readBatches(from, to base.LSN, visit func(replica.Batch) error) error {
	b, size := replica.Batch{First: from}, 0
	err := e.readLog(from, to, func(lsn base.LSN, record []byte) error {
		stamp := recordTime(record)
		if full := b; len(b.Records) == readRecords || len(b.Records) > 0 && (size >= readBytes || stamp != b.Stamp) {
			b, size = replica.Batch{First: lsn}, 0
			if err := visit(full); err != nil {
				return err
			}
		}
		b.Stamp, b.Records, size = stamp, append(b.Records, bytes.Clone(record)), size+len(record)
		return nil
	})
	if err == nil && len(b.Records) > 0 {
		err = visit(b)
	}
	return err
}

// tailBytes is from which size on a file of a tail gets no further batch.
const tailBytes = 32 << 20

// TailName is the file in which the records from first on are saved that a directory has, and the lineage
// has not.
func TailName(first base.LSN) string { return fmt.Sprintf("%s%020d", tailPrefix, first) + TailSuffix }

// TailSuffix is how the names of such files end.
const TailSuffix = ".tail"

const (
	tailPrefix = "diverged-"
	// tornSuffix ends the name of a file that writeWhole is making.
	tornSuffix = ".tmp"
)

// isTornTail reports whether a file of this name is a tail that a crash has kept from being whole. The log still has its records.
func isTornTail(name string) bool {
	return strings.HasPrefix(name, tailPrefix) && strings.HasSuffix(name, TailSuffix+tornSuffix)
}

// saveTail saves what the log has behind a place, as replica.EncodeTail does.
func (r *replication) saveTail(at replica.Position) error {
	var batches []replica.Batch
	size := 0
	save := func() error {
		if len(batches) == 0 {
			return nil
		}
		b, err := replica.EncodeTail(r.ro, at, batches)
		if err != nil {
			return err
		}
		last := batches[len(batches)-1].Last()
		if err := r.e.keepTail(r.ro, batches, b); err != nil {
			return err
		}
		batches, size = nil, 0
		at.LSN, at.Seq = last, at.Seq+1
		at.Chain, err = r.local.Chain(last)
		return err
	}
	err := r.e.readBatches(at.LSN+1, r.local.End(), func(b replica.Batch) error {
		batches = append(batches, b)
		for _, rec := range b.Records {
			size += len(rec)
		}
		if size < tailBytes {
			return nil
		}
		return save()
	})
	if err == nil {
		err = save()
	}
	if err != nil {
		return fmt.Errorf("save what the bucket does not have: %w", err)
	}
	return nil
}

// keepTail writes a file of a tail, encoded as b, unless it is there. A directory that rejoined may have another one from there on.
func (e *Engine) keepTail(o replica.Options, batches []replica.Batch, b []byte) error {
	name := TailName(batches[0].First)
	for n := 2; ; n++ {
		f, err := e.Opts.FS.Open(filepath.Join(e.Dir, name))
		if err != nil {
			return e.writeWhole(name, b)
		}
		size, err := f.Size()
		was := make([]byte, size)
		if err == nil && size > 0 {
			_, err = f.ReadAt(was, 0)
		}
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
		_, had, err := replica.DecodeTail(o, name, was)
		if err == nil && slices.EqualFunc(recordsOf(had), recordsOf(batches), bytes.Equal) {
			return nil
		}
		name = fmt.Sprintf("%s%020d-%d", tailPrefix, batches[0].First, n) + TailSuffix
	}
}

// recordsOf are the records of batches that follow one another. Which of them are in one batch says only how they were read.
func recordsOf(batches []replica.Batch) (records [][]byte) {
	for _, b := range batches {
		records = append(records, b.Records...)
	}
	return records
}

// writeWhole makes a file, whole and durable or not at all.
func (e *Engine) writeWhole(name string, b []byte) error {
	temp := filepath.Join(e.Dir, name+tornSuffix)
	_ = e.Opts.FS.Remove(temp) // of a crash
	f, err := e.Opts.FS.Create(temp)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(b, 0)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = e.Opts.FS.Rename(temp, filepath.Join(e.Dir, name))
	}
	if err == nil {
		err = e.Opts.FS.SyncDir(e.Dir)
	}
	return err
}
