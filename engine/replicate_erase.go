package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/snapshot"
)

// dropKept removes the log files that a flush left in the store because the bucket did not have them: it waits until
// it does.
func (s *scrubber) dropKept(ctx context.Context) error {
	for {
		first := s.log.LastLSN()
		left, err := s.dropSynced()
		if err != nil || left == 0 {
			return err
		}
		if err := s.replica.await(ctx, first); err != nil {
			return err
		}
	}
}

// dropSynced removes the log files below the floor that the bucket has, and returns how many are left.
func (s *scrubber) dropSynced() (left int, err error) {
	s.images.mu.Lock()
	defer s.images.mu.Unlock()
	st := s.manifest.State()
	var logs []base.FileNum
	for _, l := range st.Logs {
		if l.BaseLSN < st.FloorLSN {
			logs = append(logs, l.Num)
		}
	}
	mark, gone := s.images.keep(st, logs)
	if len(gone) > 0 {
		if _, err := s.manifest.Apply(snapshot.Edit{RemoveLogs: gone, Replica: mark}); err != nil {
			return 0, err
		}
		s.Files.retire(gone...)
	}
	return len(logs) - len(gone), nil
}

// scrub removes from the bucket what was deleted from the store before the call: it makes a point of the files as
// they are, which a Scrub has rewritten, and drops all that is older. Readers of the bucket that have pinned
// something older are waited for, until ctx ends or the store is closed.
//
// The records that the bucket has before the scrub end with a chunk: what is committed later lies in others. So the
// point, which is made after that, needs no chunk with a record from before.
func (r *replication) scrub(ctx context.Context) error {
	if r == nil || r.leader == nil {
		return nil
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(r.points, stop)() // Close does not wait for readers of the bucket
	err := r.pointBehind(ctx, r.e.log.LastLSN())
	for done := false; err == nil && !done; {
		if done, err = r.dropOlder(ctx); err == nil && !done {
			if sleep(ctx, pinPoll); ctx.Err() != nil {
				err = fmt.Errorf("a reader, such as a restore, needs what was before: %w", ctx.Err())
			}
		}
	}
	if err != nil && r.points.Err() != nil {
		err = errors.Join(fault.ErrClosed, err)
	}
	if err != nil {
		return fmt.Errorf("erase from the bucket: %w", err)
	}
	return nil
}

// pointBehind makes a point that needs no chunk with a record up to lsn.
func (r *replication) pointBehind(ctx context.Context, lsn base.LSN) error {
	if err := r.await(ctx, lsn); err != nil {
		return err
	}
	r.making.Lock()
	defer r.making.Unlock()
	return r.makePointLocked(ctx)
}

// dropOlder drops what is older than the newest point. It returns false while a reader needs it.
func (r *replication) dropOlder(ctx context.Context) (bool, error) {
	r.making.Lock()
	defer r.making.Unlock()
	done, err := r.leader.Erase(ctx, r.pointLSN)
	clear(r.stored)
	return done, err
}

// pinPoll is the pause between two looks for readers of the bucket.
const pinPoll = time.Second
