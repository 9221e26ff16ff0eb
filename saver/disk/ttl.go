package disk

import (
	"context"
	"encoding/binary"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/stele-go/stele/engine"
	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/layout"
	"github.com/stele-go/stele/saver/rules"
)

func packTTL(d time.Duration) string {
	if d != saver.NoTTL {
		d /= time.Microsecond
	}
	return string(binary.AppendVarint(nil, int64(d)))
}

// unpackTTL reads a TTL. One that cannot be read keeps its thread.
func unpackTTL(tag string) time.Duration {
	n, w := binary.Varint([]byte(tag))
	if w != len(tag) || n < 0 || n > int64(1<<63-1)/int64(time.Microsecond) {
		return saver.NoTTL
	}
	return time.Duration(n) * time.Microsecond
}

// ttlOf is the TTL that a thread has of its own, or 0.
func ttlOf(ttls *index.Partition, threadID string) time.Duration {
	if ttls == nil {
		return 0
	}
	it := ttls.Get(threadID)
	if it == nil || it.Slots.Len() == 0 {
		return 0
	}
	return unpackTTL(it.Slots.At(0).Tag)
}

// dropTTL forgets the TTL of a thread that is being deleted.
func dropTTL(tx *engine.Tx, threadID string) error {
	if t := tx.Partition(layout.TTLPartition); t == nil || t.Get(threadID) == nil {
		return nil
	}
	if err := tx.Delete(layout.TTLPartition, threadID); err != nil {
		return err
	}
	if tx.Partition(layout.TTLPartition).Last("") == nil {
		return tx.Drop(layout.TTLPartition, nil)
	}
	return nil
}

// SetTTL implements saver.Saver.
func (s *Saver) SetTTL(ctx context.Context, threadID string, ttl time.Duration) error {
	if err := saver.ValidateTTL(threadID, ttl); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.e.Commit(ctx, []string{layout.ThreadKey(threadID), layout.TTLPartition}, func(tx *engine.Tx) error {
		if tx.Partition(layout.ThreadKey(threadID)) == nil {
			return fmt.Errorf("set the TTL of thread %q: %w", threadID, saver.ErrNotFound)
		}
		if ttl == 0 {
			return dropTTL(tx, threadID)
		}
		return tx.Put(layout.TTLPartition, threadID, 0, []engine.SlotIn{{Tag: packTTL(ttl)}})
	})
}

// TTL returns the TTL that SetTTL has set for a thread; 0 if the thread has the default, or is not
// there.
func (s *Saver) TTL(ctx context.Context, threadID string) (time.Duration, error) {
	if err := saver.ValidateThreadID(threadID); err != nil {
		return 0, err
	}
	if err := s.e.Current(ctx); err != nil {
		return 0, err
	}
	ttls, err := s.e.Partition(layout.TTLPartition)
	if err != nil {
		return 0, err
	}
	return ttlOf(ttls, threadID), nil
}

// sweepBatch is how many expired threads one commit deletes.
const sweepBatch = 64

// Sweep implements saver.Saver. It reads no thread that has not expired.
func (s *Saver) Sweep(ctx context.Context) (saver.SweepReport, error) {
	if err := s.e.MayWrite(); err != nil {
		return saver.SweepReport{}, err
	}
	return s.sweepWith(ctx, func() {})
}

func (s *Saver) sweepWith(ctx context.Context, pause func()) (rep saver.SweepReport, err error) {
	if err := ctx.Err(); err != nil {
		return rep, err
	}
	ttls, err := s.e.Partition(layout.TTLPartition)
	if err != nil || ttls == nil && s.opts.DefaultTTL == 0 {
		return rep, err
	}
	for from := layout.SpaceThread; from != ""; {
		if err := ctx.Err(); err != nil {
			return rep, err
		}
		var ids []string
		if ids, from, err = s.expired(ttls, from); err != nil || len(ids) == 0 {
			if err != nil {
				return rep, err
			}
			continue
		}
		n, err := s.expire(ctx, ids)
		rep.Expired += n
		if err != nil {
			return rep, fmt.Errorf("sweep: %w", err)
		}
		pause()
	}
	return rep, nil
}

// expired returns the next threads, from a partition id on, that seem to have expired, and the id to
// continue from; "" at the end.
func (s *Saver) expired(ttls *index.Partition, from string) (ids []string, next string, err error) {
	v, err := s.e.View()
	if err != nil {
		return nil, "", err
	}
	defer v.Release()
	now := s.now()
	err = v.Ascend(from, func(t *index.Partition) bool {
		id, ok := strings.CutPrefix(t.ID, layout.SpaceThread)
		if ok && rules.Expired(now, time.UnixMicro(t.Updated), ttlOf(ttls, id), s.opts.DefaultTTL) {
			ids = append(ids, id)
		}
		if len(ids) == sweepBatch {
			next = t.ID + "\x00"
		}
		return ok && next == ""
	})
	return ids, next, err
}

// expire deletes those of the threads that have expired when its commit comes.
func (s *Saver) expire(ctx context.Context, threadIDs []string) (n int, err error) {
	ids := map[string]bool{layout.TTLPartition: true}
	for _, id := range threadIDs {
		ids[layout.ThreadKey(id)] = true
	}
	err = s.commitWith(ctx, ids, func(tx *engine.Tx, need func(string) bool) error {
		n = 0
		var due []string
		ok := true
		for _, id := range threadIDs {
			t := tx.Partition(layout.ThreadKey(id))
			if t != nil && rules.Expired(time.UnixMicro(tx.Now()), time.UnixMicro(t.Updated), ttlOf(tx.Partition(layout.TTLPartition), id), s.opts.DefaultTTL) {
				due, ok = append(due, id), needRuns(tx, id, need) && ok
			}
		}
		if !ok {
			return errMoreThreads
		}
		for _, id := range due {
			if err := s.dropThread(tx, id); err != nil {
				return err
			}
		}
		n = len(due)
		return nil
	})
	return n, err
}

// sweeper is the goroutine that finishes erasures, deletes expired threads and
// applies the policy of Options.
type sweeper struct {
	once   sync.Once
	cancel context.CancelFunc
	done   chan struct{}
}

const defaultSweep = 5 * time.Minute

func validateSweep(o Options) error {
	if o.DefaultTTL < 0 {
		return saver.Invalidf("options", "default TTL %v is negative; 0 means for ever", o.DefaultTTL)
	}
	if o.DefaultTTL > 0 && o.DefaultTTL < time.Microsecond {
		return saver.Invalidf("options", "default TTL %v is less than a microsecond", o.DefaultTTL)
	}
	if o.SweepInterval < 0 {
		return saver.Invalidf("options", "sweep interval %v is negative", o.SweepInterval)
	}
	if o.Retention != nil {
		return o.Retention.Validate()
	}
	return nil
}

func (w *sweeper) start(s *Saver) {
	ctx, cancel := context.WithCancel(context.Background())
	w.cancel, w.done = cancel, make(chan struct{})
	every := s.opts.SweepInterval
	if every == 0 {
		every = defaultSweep
	}
	go func() {
		defer close(w.done)
		tick := time.NewTicker(every)
		defer tick.Stop()
		note := func(what string, err error) {
			if err != nil && ctx.Err() == nil && s.opts.Logger != nil {
				s.opts.Logger.Error(what, "error", err)
			}
		}
		for {
			note("finish erasures", s.FinishErasures(ctx))
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			note("sweep", s.sweepOnce(ctx))
		}
	}()
}

// sweepOnce is a turn of the sweeper. It rests after each commit for as long as the
// work since the last took.
func (s *Saver) sweepOnce(ctx context.Context) error {
	last := time.Now()
	pause := func() {
		rest(ctx, time.Since(last))
		last = time.Now()
	}
	if _, err := s.sweepWith(ctx, pause); err != nil || s.opts.Retention == nil {
		return err
	}
	policy := *s.opts.Retention
	policy.CutAnyway = true
	_, err := s.retain(ctx, policy, false, pause)
	return err
}

func rest(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

func (w *sweeper) stop() {
	if w.cancel == nil {
		return
	}
	w.once.Do(func() {
		w.cancel()
		<-w.done
	})
}
