package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	mathrand "math/rand/v2"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stele-go/stele/saver"
)

// leases are the threads that a Saver owns, by the owner's name. One goroutine renews
// them all while there are any.
type leases struct {
	mu   sync.Mutex
	held map[string]*lease // by thread
	stop context.CancelFunc
}

type lease struct {
	owner [16]byte
	epoch int64
}

func (st *statements) ownerStatements(q func(string) string) {
	// $1 thread, $2 owner, $3 how long, in microseconds. The clock is the server's. The
	// epoch only grows.
	st.lease = q(`
INSERT INTO @.stele_leases AS l (thread_id, owner, epoch, expires_at)
VALUES ($1, $2, 1, clock_timestamp() + $3 * interval '1 microsecond')
ON CONFLICT (thread_id) DO UPDATE SET owner = EXCLUDED.owner, epoch = l.epoch + 1, expires_at = EXCLUDED.expires_at
WHERE l.expires_at <= clock_timestamp() RETURNING epoch`)
	st.renew = q(`
UPDATE @.stele_leases l SET expires_at = clock_timestamp() + $3 * interval '1 microsecond'
FROM unnest($1::text[], $2::uuid[]) held(thread_id, owner)
WHERE l.thread_id = held.thread_id AND l.owner = held.owner`)
	st.release = q(`
UPDATE @.stele_leases l SET expires_at = '-infinity'
FROM unnest($1::text[], $2::uuid[]) held(thread_id, owner)
WHERE l.thread_id = held.thread_id AND l.owner = held.owner`)
}

// Own implements saver.Coordinator with a lease in a table of the database, which the
// Saver renews until release is called. A process that dies has the thread until
// Options.LeaseTime has passed. So has one that cannot reach the server for that long,
// although it does not learn of it: nothing refuses its writes. Who waits asks again and
// again.
func (s *Saver) Own(ctx context.Context, threadID string, wait bool) (release func(), err error) {
	if err := checkThread(threadID); err != nil {
		return nil, err
	}
	for n := 1; ; n++ {
		l, err := s.acquire(ctx, threadID)
		if err != nil {
			return nil, err
		}
		if l != nil {
			return sync.OnceFunc(func() { s.release(map[string]*lease{threadID: l}) }), nil
		}
		if !wait {
			return nil, &saver.OwnedError{ThreadID: threadID}
		}
		if err := pause(ctx, min(backoff(n), 200*time.Millisecond)); err != nil {
			return nil, err
		}
	}
}

// acquire takes the lease of a thread if it is free; nil if it is not.
func (s *Saver) acquire(ctx context.Context, threadID string) (*lease, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	l := &lease{}
	rand.Read(l.owner[:])
	err := s.pool.QueryRow(ctx, s.sql.lease, threadID, l.owner, s.opts.LeaseTime.Microseconds()).Scan(&l.epoch)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, s.readError(ctx, s.translate(err))
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
	for pause(ctx, third/2+mathrand.N(third/2+1)) == nil {
		s.leases.mu.Lock()
		threads, owners := columnsOf(s.leases.held)
		s.leases.mu.Unlock()
		renewing, done := context.WithTimeout(ctx, third)
		s.pool.Exec(renewing, s.sql.renew, threads, owners, s.opts.LeaseTime.Microseconds()) // an error is for the next round
		done()
	}
}

func columnsOf(held map[string]*lease) (threads []string, owners [][16]byte) {
	for threadID, l := range held {
		threads, owners = append(threads, threadID), append(owners, l.owner)
	}
	return threads, owners
}

// release gives leases back. If that fails, they end by themselves.
func (s *Saver) release(gone map[string]*lease) {
	s.leases.mu.Lock()
	for threadID, l := range gone {
		if s.leases.held[threadID] == l {
			delete(s.leases.held, threadID)
		}
	}
	if len(s.leases.held) == 0 && s.leases.stop != nil {
		s.leases.stop()
		s.leases.stop = nil
	}
	s.leases.mu.Unlock()
	threads, owners := columnsOf(gone)
	if len(threads) == 0 {
		return
	}
	ctx, done := context.WithTimeout(context.Background(), s.opts.LeaseTime)
	defer done()
	s.pool.Exec(ctx, s.sql.release, threads, owners)
}

func (s *Saver) releaseAll() {
	s.leases.mu.Lock()
	held := make(map[string]*lease, len(s.leases.held))
	for threadID, l := range s.leases.held {
		held[threadID] = l
	}
	s.leases.mu.Unlock()
	s.release(held)
}

// CountAttempt implements saver.Coordinator.
func (s *Saver) CountAttempt(ctx context.Context, cfg saver.Config) (n int, err error) {
	if err := checkConfig(cfg); err != nil {
		return 0, err
	}
	err = s.inTx(ctx, []string{cfg.ThreadID}, func(tx pgx.Tx) error {
		err := tx.QueryRow(ctx, s.sql.attempt, cfg.ThreadID, cfg.Namespace, cfg.CheckpointID).Scan(&n)
		if errors.Is(err, pgx.ErrNoRows) {
			return notFound(cfg)
		}
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, s.sql.touch, cfg.ThreadID, s.now())
		return err
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}
