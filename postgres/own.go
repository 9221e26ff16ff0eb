package postgres

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"maps"
	mathrand "math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stele-go/stele/postgres/internal/pgdb"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/rules"
)

// leases are the threads that a Saver owns. One goroutine renews them all while there are
// any.
type leases struct {
	mu   sync.Mutex
	held map[string]*lease // by thread
	stop context.CancelFunc
}

// lease is a row of stele_leases that this Saver made, and which is there until it is
// released or somebody else takes the thread over. The row names the epoch, and a put looks
// for the row under the lock of the thread, which taking a thread over needs as well. So
// each put is before or behind the takeover, and the next owner sees all that the last one
// wrote.
type lease struct {
	thread string
	owner  [16]byte
	epoch  int64
	lost   chan struct{}
	// renewed is when the last renewal that arrived was sent. No later than LeaseTime after
	// it, somebody else may have the thread.
	renewed time.Time
}

func (st *statements) ownerStatements(q func(string) string) {
	// $1 thread, $2 owner, $3 how long, in microseconds. The clock is the server's. Epochs are of one
	// sequence, so that they grow even if the row was removed. The owner is the same if the answer of
	// an earlier try was lost.
	st.lease = q(`
INSERT INTO @.stele_leases AS l (thread_id, owner, expires_at)
VALUES ($1, $2, clock_timestamp() + $3 * interval '1 microsecond')
ON CONFLICT (thread_id) DO UPDATE SET owner = EXCLUDED.owner, epoch = DEFAULT, expires_at = EXCLUDED.expires_at
WHERE l.expires_at <= clock_timestamp() OR l.owner = EXCLUDED.owner RETURNING epoch`)
	st.renew = q(`
UPDATE @.stele_leases l SET expires_at = clock_timestamp() + $3 * interval '1 microsecond'
FROM unnest($1::text[], $2::uuid[]) held(thread_id, owner)
WHERE l.thread_id = held.thread_id AND l.owner = held.owner RETURNING l.owner`)
	st.release = q(`
DELETE FROM @.stele_leases l USING unnest($1::text[], $2::uuid[]) held(thread_id, owner)
WHERE l.thread_id = held.thread_id AND l.owner = held.owner`)
	// $1 thread, $2 epoch.
	st.fence = q(`
SELECT @.stele_refuse('` + pgdb.RefusedFenced + `', '') WHERE NOT EXISTS (
	SELECT FROM @.stele_leases WHERE thread_id = $1 AND epoch = $2)`)
}

// Own implements saver.Saver with a lease in a table of the database, which the Saver renews until it
// is released. A process that died has the thread until Options.LeaseTime has passed. One that slept
// for longer, or could not reach the server, may find that somebody else has the thread: then
// Lease.Lost is closed, and its calls are refused. Lost is closed as well when the server could not be
// reached for LeaseTime. A waiter polls the database.
func (s *Saver) Own(ctx context.Context, threadID string, wait bool) (*saver.Lease, error) {
	if err := checkThread(threadID); err != nil {
		return nil, err
	}
	for n := 1; ; n++ {
		l, err := s.acquire(ctx, threadID)
		if err != nil {
			return nil, err
		}
		if l != nil {
			return saver.NewLease(threadID, l.epoch, l.lost, func() bool { return s.holds(l) }, func() { s.release(l) }), nil
		}
		if !wait {
			return nil, &saver.OwnedError{ThreadID: threadID}
		}
		if err := pgdb.Pause(ctx, min(pgdb.Backoff(n), 200*time.Millisecond)); err != nil {
			return nil, err
		}
	}
}

// holds reports whether nobody else can have taken the lease yet, by the clock.
func (s *Saver) holds(l *lease) bool {
	s.leases.mu.Lock()
	defer s.leases.mu.Unlock()
	return time.Since(l.renewed) < s.opts.LeaseTime
}

// acquire takes the lease of a thread if it is free; nil if it is not.
func (s *Saver) acquire(ctx context.Context, threadID string) (*lease, error) {
	l := &lease{thread: threadID, lost: make(chan struct{})}
	rand.Read(l.owner[:])
	taken := false // by this Saver
	err := s.db.Repeat(ctx, "", func(b *pgx.Batch) {
		l.renewed = time.Now()
		s.db.QueueLock(b, threadID)
		b.Queue(s.sql.lease, threadID, l.owner, s.opts.LeaseTime.Microseconds()).QueryRow(pgdb.MaybeRow(&taken, &l.epoch))
	})
	if err != nil {
		ctx, done := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer done()
		s.send(ctx, l) // it may have been taken
		return nil, err
	}
	if !taken {
		return nil, nil
	}
	s.leases.mu.Lock()
	defer s.leases.mu.Unlock()
	s.leases.held[threadID] = l
	if s.leases.stop == nil {
		renewing, stop := context.WithCancel(context.Background())
		s.leases.stop = stop
		go s.renew(renewing)
	}
	return l, nil
}

// renew keeps the leases until ctx ends.
func (s *Saver) renew(ctx context.Context) {
	third := s.opts.LeaseTime / 3
	for pgdb.Pause(ctx, third/2+mathrand.N(third/2+1)) == nil {
		s.renewOnce(ctx)
	}
}

// renewOnce renews all leases, and finds out which are lost.
func (s *Saver) renewOnce(ctx context.Context) {
	s.leases.mu.Lock()
	held := slices.Collect(maps.Values(s.leases.held))
	s.leases.mu.Unlock()
	sent := time.Now()
	renewing, done := context.WithTimeout(ctx, s.opts.LeaseTime/3)
	defer done()
	renewed, err := s.renewed(renewing, held)
	_ = s.db.Failed(ctx, err) // ctx, since the end of renewing is a failure and no caller's wish
	s.leases.mu.Lock()
	defer s.leases.mu.Unlock()
	for _, l := range held {
		switch {
		case s.leases.held[l.thread] != l: // released meanwhile
		case err == nil && renewed[l.owner]:
			l.renewed = sent
		case err == nil || time.Since(l.renewed) >= s.opts.LeaseTime:
			delete(s.leases.held, l.thread)
			close(l.lost)
		}
	}
}

// renewed renews leases, and returns the owners of those that are there.
func (s *Saver) renewed(ctx context.Context, held []*lease) (map[[16]byte]bool, error) {
	threads, owners := columnsOf(held)
	rows, _ := s.db.Pool.Query(ctx, s.sql.renew, threads, owners, s.opts.LeaseTime.Microseconds())
	found, err := pgx.CollectRows(rows, pgx.RowTo[[16]byte]) // its error is that of Query, too
	if err != nil {
		return nil, err
	}
	renewed := map[[16]byte]bool{}
	for _, owner := range found {
		renewed[owner] = true
	}
	return renewed, nil
}

func columnsOf(held []*lease) (threads []string, owners [][16]byte) {
	for _, l := range held {
		threads, owners = append(threads, l.thread), append(owners, l.owner)
	}
	return threads, owners
}

// release gives leases back.
func (s *Saver) release(gone ...*lease) {
	s.leases.mu.Lock()
	for _, l := range gone {
		if s.leases.held[l.thread] == l {
			delete(s.leases.held, l.thread)
		}
	}
	if len(s.leases.held) == 0 && s.leases.stop != nil {
		s.leases.stop()
		s.leases.stop = nil
	}
	s.leases.mu.Unlock()
	ctx, done := context.WithTimeout(context.Background(), s.opts.LeaseTime)
	defer done()
	s.send(ctx, gone...)
}

// send removes the rows of leases. If that fails, they run out by themselves.
func (s *Saver) send(ctx context.Context, gone ...*lease) {
	if len(gone) == 0 {
		return
	}
	threads, owners := columnsOf(gone)
	s.db.Pool.Exec(ctx, s.sql.release, threads, owners)
}

func (s *Saver) releaseAll() {
	s.leases.mu.Lock()
	held := slices.Collect(maps.Values(s.leases.held))
	s.leases.mu.Unlock()
	s.release(held...)
}

// fenced returns a FencedError if the thread, whose lock tx has, is not owned with the epoch;
// 0 is not fenced.
func (s *Saver) fenced(ctx context.Context, tx pgx.Tx, cfg saver.Config) error {
	if cfg.Epoch == 0 {
		return nil
	}
	_, err := tx.Exec(ctx, s.sql.fence, cfg.ThreadID, cfg.Epoch)
	if code, detail, ok := pgdb.Refusal(err); ok {
		return cmp.Or(writeRefused(cfg, code, detail), err)
	}
	return err
}

// CountAttempt implements saver.Saver.
func (s *Saver) CountAttempt(ctx context.Context, cfg saver.Config) (n int, err error) {
	if err := checkConfig(cfg); err != nil {
		return 0, err
	}
	err = s.db.InTx(ctx, []string{cfg.ThreadID}, func(tx pgx.Tx) error {
		if err := s.fenced(ctx, tx, cfg); err != nil {
			return err
		}
		err := tx.QueryRow(ctx, s.sql.attempt, cfg.ThreadID, cfg.Namespace, cfg.CheckpointID).Scan(&n)
		if errors.Is(err, pgx.ErrNoRows) {
			return rules.NotFound(cfg)
		}
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, s.sql.touch, cfg.ThreadID, s.db.Now())
		return err
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}
