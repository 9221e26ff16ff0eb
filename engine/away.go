package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/replica"
	"github.com/stele-go/stele/replica/bucket"
	"github.com/stele-go/stele/snapshot"
)

// OpenAway opens a directory to be read while the bucket of Options.Replica does not answer, and asks the bucket with
// growing pauses. Its role ends once the bucket has answered all that the next one needs: with ErrVacant if the
// directory may lead, which it did last; with replica.ErrFenced, replica.ErrDiverged or replica.ErrPointGone if it is
// to follow; and else with the error of the bucket, as Open would return it.
//
// It holds the lock of the directory, and writes nothing there, so that a crash leaves what it found. It shows what
// shownAway says, for Replica.MaxStale; then reads fail with fault.ErrStale, and it goes on asking. last is the store
// in the role before, closed; nil if there is none. If that did not lead, the time goes on. Without one it begins with
// this call: nothing in the directory says when the bucket answered last.
//
// Errors: those of Open; fault.ErrReplicated for a directory that has nothing to show.
func OpenAway(dir string, opts Options, last *Engine) (*Engine, error) {
	opts.follows, opts.ReadOnly = true, true
	e, err := Open(dir, opts)
	if err != nil {
		return nil, err
	}
	w := e.follower
	m := e.Found.Replica
	w.at, w.epoch, w.mode = marked(m), m.Epoch, w.o.Mode
	w.heard = w.clock()
	w.tell(func() { w.trouble = replica.ErrAway })
	if last != nil && last.follower != nil {
		was := last.follower
		ago := was.clock()
		w.heard, w.pause = w.heard-(ago-was.heard), was.pause
		if errors.Is(was.problem(), replica.ErrAway) {
			w.away -= ago - was.away
		}
	}
	if !e.Opts.Inline {
		var ctx context.Context
		ctx, w.stopRun = context.WithCancel(context.Background())
		w.work.Go(func() { w.ask(ctx) })
	}
	return e, nil
}

// Away reports whether the store was opened by OpenAway.
func (s *Store) Away() bool { return s.Opts.follows && s.Opts.ReadOnly }

// errNothingToShow is the error of OpenAway for a directory that was restored and has neither led nor followed since,
// or that is in no lineage.
var errNothingToShow = fmt.Errorf("nothing is shown without the bucket: %w", fault.ErrReplicated)

// shownAway is the last record that may be seen in a directory while it is not known who leads. What came from the
// bucket may, and what was acknowledged here by a leader that needed no bucket for it: the manifest says so, whatever
// mode the store is opened with. Of a leader in mode Sync the bucket is known to have the records up to the mark;
// images and segments have what was visible before, of which more may be deferred. Behind that a record may be one
// that nobody acknowledged.
func (e *Engine) shownAway(st snapshot.State) (base.LSN, error) {
	m := st.Replica
	switch {
	case m == nil, m.Epoch == 0, m.Restored && !e.isCache():
		return 0, errNothingToShow
	case m.Restored, m.Ahead:
		return base.MaxLSN, nil
	}
	last := max(m.LSN, st.FloorLSN-min(st.FloorLSN, 1))
	if n := len(st.Images); n > 0 {
		last = max(last, st.Images[n-1].LSN)
	}
	return last, nil
}

// The pause between two tries grows from leastPause to mostPause, but not beyond two TTLs. It is longer than a TTL
// then, so that a machine whose puts fail in part does not keep others from taking over, unless the TTL is longer
// than a minute.
const (
	leastPause = 100 * time.Millisecond
	mostPause  = time.Minute
)

// backOff returns the next pause.
func (w *follower) backOff() time.Duration {
	w.pause = max(leastPause, min(2*w.pause, 2*w.o.TTL, mostPause))
	return w.pause
}

// ask asks the bucket until it has answered, or until ctx ends.
func (w *follower) ask(ctx context.Context) {
	for {
		sleep(ctx, w.backOff())
		if ctx.Err() != nil {
			return
		}
		err := w.answer(ctx)
		if ctx.Err() != nil {
			return
		}
		if !errors.Is(err, replica.ErrAway) {
			w.tell(func() { w.ended = err })
			w.e.role.end(err)
			w.hold(ctx)
			return
		}
		w.e.Opts.Logger.Warn("the bucket is away", "dir", w.e.Dir, "error", err)
		w.tell(func() { w.trouble = err })
	}
}

// answer asks the bucket once for what the next role of the directory needs, and returns why this one is over, or
// replica.ErrAway. A directory that led last takes over in the bucket, so that it is not opened to lead while gets
// succeed and puts fail. Of records it needs their chain alone: that of the log is compared when the directory is
// opened.
func (w *follower) answer(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // what was read ahead and is not needed
	m := w.e.Found.Replica
	at := marked(m)
	chain := &localChain{key: m.ChainKey, from: at.LSN, chains: []replica.Chain{at.Chain}}
	f, err := replica.Follow(ctx, w.e.lineageOptions(m), chain, at)
	if errors.Is(err, replica.ErrNoLineage) && m.Epoch == 1 && m.Seq == 0 { // it was to begin here, and begins anew
		return w.vacantIfPuts(ctx)
	}
	if err != nil {
		return err
	}
	if !f.Own() {
		if _, err := f.Next(ctx); err != nil {
			return err
		}
		return replica.ErrFenced
	}
	// The lock of the directory is held: its last leader has ended.
	leads, err := f.TakeOver(ctx, replica.TakeOver{Mode: w.o.Mode, Force: true}, func(batches []replica.Batch) error {
		for _, record := range recordsOf(batches) {
			chain.add(record)
		}
		return nil
	})
	switch {
	case errors.Is(err, replica.ErrPointGone): // retention has passed the mark; who opens it finds another place
		return w.vacantIfPuts(ctx)
	case err != nil:
		return err
	}
	w.leads = leads
	return ErrVacant
}

// hold keeps the lease that the follower has taken, if any, until ctx ends, so that nobody else takes over before the
// directory is opened to lead. It gives the lease back after two TTLs: whoever uses the store does not let go of it.
func (w *follower) hold(ctx context.Context) {
	if w.leads == nil {
		return
	}
	within, cancel := context.WithTimeout(ctx, 2*w.o.TTL)
	defer cancel()
	if _ = w.leads.Run(within); ctx.Err() == nil {
		_ = w.e.GiveBack()
	}
}

// vacantIfPuts is how a role ends whose directory is opened to lead, if the bucket takes puts: else it would go on to lead, and back.
func (w *follower) vacantIfPuts(ctx context.Context) error {
	if err := bucket.Probe(ctx, w.o.Bucket); err != nil {
		return replica.Unanswered(err)
	}
	return ErrVacant
}

// GiveBack gives back the lease that a store has taken as a follower, or while its bucket was away: for who has closed
// the store, and does not open it again. Else, in the modes async and bounded, nobody could lead before this directory
// does. A lease is kept if the directory may have what the bucket lacks. Errors: those of the bucket;
// replica.ErrFenced if another has it.
func (e *Engine) GiveBack() error {
	w := e.follower
	if w == nil || w.leads == nil {
		return nil
	}
	if clean := e.Found.Clean; e.Away() && (clean == nil || clean.LSN > w.leads.Synced()) {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), releaseTimeout)
	defer cancel()
	return w.leads.Release(ctx)
}

// succeed takes over in the bucket for a follower that may, while it still answers reads. So its role ends only when
// the bucket takes puts, and of several followers it ends for the one that leads.
func (w *follower) succeed(ctx context.Context) {
	if w.clock() < w.retry {
		return
	}
	// Who ends meanwhile waits a while, so that no lease is left taken by half.
	within, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		sleep(within, releaseTimeout)
		cancel()
	})()
	leads, err := w.f.TakeOver(within, w.takeOver(), func(batches []replica.Batch) error {
		return w.e.ApplyBatches(context.WithoutCancel(ctx), batches)
	})
	w.applied()
	if err == nil {
		w.leads = leads
		w.tell(func() { w.refused = nil })
		w.e.role.end(ErrVacant)
		w.work.Go(func() { w.hold(ctx) })
		return
	}
	w.retry = w.clock() + w.backOff()
	if !errors.Is(err, replica.ErrLeased) { // else another one was faster
		w.e.Opts.Logger.Warn("take over", "error", err)
		w.tell(func() { w.refused = err })
	}
}
