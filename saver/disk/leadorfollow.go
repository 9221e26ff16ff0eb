package disk

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/engine"
	"github.com/stele-go/stele/engine/backup"
	"github.com/stele-go/stele/replica"
	"github.com/stele-go/stele/saver"
)

// LeadOrFollow has the store in dir open until ctx ends, on each of several machines that name the same bucket in
// Options.Replica: on one of them as Open does, to lead, and on the others as OpenFollower does. It calls serve with
// the store, and calls it again each time the role changes, with a store that was opened anew. Saver.Follows says
// which role it is. The context of serve ends with the role, and context.Cause says why; then serve returns soon, and
// LeadOrFollow closes the store. If serve returns while the role lasts, LeadOrFollow ends with its error.
//
// A follower takes over when the leader's lease is free: at once if the leader gave it back by Close, and else when
// its beat has stood still for Replica.TTL on the follower's own clock. If the lost leader may have acknowledged what
// the bucket lacks, in the modes async and bounded, it takes over only with Replica.AcceptLoss. Nobody takes over
// while the bucket has no complete point. Of several followers one wins, and the others go on following. Between two
// roles, about 0.1 s, the store is not open.
//
// A leader whose place another took is fenced: the context of serve ends with the cause fault.ErrFenced, nothing more
// is acknowledged, and the store is opened as a follower. What the bucket lacks of its records is kept in files
// diverged-….tail beside it, as admin.RejoinBucket does; in mode sync nothing of that was acknowledged.
//
// A call that ended with saver.ErrOutcomeUnknown in one role is not settled by Sync in the next: look whether what it
// stored is there.
//
// A directory that led last leads again at once, when nobody has taken over. In an empty bucket the first one begins:
// start one machine alone then, since one that loses this race has a store of its own, and is refused.
//
// While the bucket does not answer, a directory that has led or followed is read: serve gets a store that Follows,
// whose writing calls return fault.ErrBucketAway, and whose reads return fault.ErrStale after Replica.MaxStale. In a
// directory that led in mode sync what is not known to be acknowledged is invisible then. MaxStale begins anew
// with each process: over restarts the age of what is read has no bound. The role ends when the directory can lead or
// follow.
//
// A crash at any point leaves what one of Open or of OpenFollower leaves. Errors: that of serve; those of Open and
// OpenFollower, if they come at first, or for a minute, or once a bucket that was away has answered with one: then
// whoever started the program is to look. When ctx ends it is nil, or what serve and Close say.
func LeadOrFollow(ctx context.Context, dir string, opts Options, serve func(ctx context.Context, s *Saver) error) error {
	if opts.Replica.Bucket == nil {
		return saver.Invalidf("options.Replica", "no Bucket; several machines share a store by that alone")
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.Simulation.Opening == nil {
		opts.Simulation.Opening = ctx
	}
	for before := (*Saver)(nil); ; {
		s, err := openRole(ctx, dir, opts, before)
		if err != nil {
			before.giveBack()
		}
		if ctx.Err() != nil && err != nil {
			return nil
		}
		if err != nil {
			return err
		}
		if over, err := s.during(ctx, serve); !over {
			s.giveBack()
			return err
		}
		before = s
	}
}

// giveBack gives back the lease that a closed store has taken for the role that would come next.
func (s *Saver) giveBack() {
	if s == nil {
		return
	}
	if err := s.e.GiveBack(); err != nil {
		s.opts.Logger.Warn("the lease is not given back", "error", err)
	}
}

// during calls serve while the store has its role, and closes the store. over says that the role has ended, and nothing else.
func (s *Saver) during(ctx context.Context, serve func(context.Context, *Saver) error) (over bool, err error) {
	role, end := context.WithCancelCause(ctx)
	served := make(chan struct{})
	told := make(chan struct{})
	go func() {
		defer close(told)
		select {
		case <-s.e.RoleOver():
			end(s.e.RoleEnd())
		case <-served:
		}
	}()
	err = serve(role, s)
	close(served)
	<-told
	end(nil)
	over = s.e.RoleEnd() != nil && ctx.Err() == nil
	err = errors.Join(err, s.Close())
	if over {
		s.opts.Logger.Warn("the store changes its role", "reason", s.e.RoleEnd(), "follower", s.Follows(), "end", err)
	}
	return over, err
}

// reopenMost is for how long the store may not be opened in its next role.
const reopenMost = time.Minute

// openRole opens the store to lead if it is its turn, and else to follow. before is the store in the role before, which is closed; nil
// at first.
func openRole(ctx context.Context, dir string, opts Options, before *Saver) (*Saver, error) {
	patience := reopenMost
	if before == nil {
		patience = 0
	}
	var last *engine.Engine
	if before != nil {
		last = before.e
		if why := last.RoleEnd(); last.Away() && !errors.Is(why, engine.ErrVacant) && !othersTurn(why) {
			return nil, why
		}
	}
	for began := time.Now(); ; before = nil {
		s, err := tryRole(dir, opts, before)
		if errors.Is(err, replica.ErrAway) && ctx.Err() == nil {
			away, failed := open(dir, opts, func(dir string, o engine.Options) (*engine.Engine, error) { return engine.OpenAway(dir, o, last) })
			if failed == nil {
				opts.Logger.Warn("the store is only read", "dir", dir, "error", err)
				return away, nil
			}
			opts.Logger.Warn("the store cannot be read", "dir", dir, "error", failed)
		}
		switch {
		case err == nil || ctx.Err() != nil:
			return s, err
		case errors.Is(err, replica.ErrSeeding): // the leader's work, however long it takes
		case time.Since(began) >= patience:
			return nil, err
		}
		opts.Logger.Warn("the store is not open", "dir", dir, "error", err)
		pause(ctx, opts.Replica.Interval)
	}
}

func tryRole(dir string, opts Options, before *Saver) (*Saver, error) {
	cache, none := engine.IsCache(dir, opts.EngineOptions())
	follow := cache
	if before != nil && before.Follows() { // it has looked at HEAD
		follow = !errors.Is(before.e.RoleEnd(), engine.ErrVacant)
	}
	if !follow {
		s, err := open(dir, opts, engine.OpenFree)
		if err == nil || !othersTurn(err) {
			return s, err
		}
		opts.Logger.Info("the store follows", "dir", dir, "reason", err)
	}
	s, err := open(dir, opts, func(dir string, o engine.Options) (*engine.Engine, error) {
		o.TakeOver = true
		return backup.RejoinFollower(dir, o)
	})
	if errors.Is(err, replica.ErrNoLineage) && errors.Is(none, engine.ErrSeed) { // neither directory nor bucket has anything
		return open(dir, opts, engine.OpenFree)
	}
	return s, err
}

// othersTurn reports whether the error of opening a store to lead says that it can follow.
func othersTurn(err error) bool {
	return slices.ContainsFunc([]error{replica.ErrLeased, fault.ErrFenced, replica.ErrLosesTail, replica.ErrSeeding, replica.ErrDiverged, replica.ErrPointGone},
		func(is error) bool { return errors.Is(err, is) })
}

// pause waits, at most until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	if d <= 0 {
		d = time.Second
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
