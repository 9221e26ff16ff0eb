package pgqueue

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stele-go/stele/postgres/internal/pgdb"
)

// Watch implements runs.Queue. The first call opens the connection that listens.
func (q *Queue) Watch(id string) (changed <-chan struct{}, stop func()) {
	q.watched.Do(func() { q.stopped.Go(q.listen) })
	return q.topics.Watch(id)
}

// tell wakes the watchers of this process, if the server's notifications do not.
func (q *Queue) tell(topics ...string) {
	if q.listening.Load() {
		return
	}
	for _, id := range topics {
		q.topics.Changed(id)
	}
}

var errPooled = errors.New("a pooler is in between")

// pooledAgain is how long after a pooler was found the next check is: the address may lead to another
// server by then.
const pooledAgain = time.Minute

// listen passes the server's notifications to watchers until the Queue is closed. While the server
// cannot notify, it wakes them every PollEvery.
func (q *Queue) listen() {
	ctx := q.stopping
	for n := 1; ctx.Err() == nil; n++ {
		err := q.hear(ctx, func() { n = 0 })
		wait := pgdb.Backoff(max(n, 1))
		if errors.Is(err, errPooled) {
			wait = pooledAgain
		}
		for again := time.Now().Add(wait); ctx.Err() == nil && time.Now().Before(again); {
			q.topics.ChangedAll()
			_ = pgdb.Pause(ctx, min(q.opts.PollEvery, time.Until(again)))
		}
	}
}

// hear listens on a connection of its own until that is lost. Every PollEvery it asks
// whether the connection is: the answer is behind all notifications that were sent before.
func (q *Queue) hear(ctx context.Context, ok func()) error {
	cfg := q.db.Pool.Config()
	to := cfg.ConnConfig.Copy()
	if cfg.BeforeConnect != nil {
		if err := cfg.BeforeConnect(ctx, to); err != nil {
			return err
		}
	}
	to.RuntimeParams["application_name"] += " listener"
	asking := max(q.opts.PollEvery, time.Second)
	if to.ConnectTimeout == 0 || to.ConnectTimeout > 10*asking {
		to.ConnectTimeout = 10 * asking // for each host
	}
	conn, err := pgx.ConnectConfig(ctx, to)
	if err != nil {
		return err
	}
	connecting, done := context.WithTimeout(ctx, 10*asking)
	defer done()
	defer func() {
		closing, done := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer done()
		_ = conn.Close(closing)
	}()
	// A pooler gives its clients process numbers of its own. LISTEN behind one would tell
	// whoever has the server connection next.
	var pid uint32
	if err := conn.QueryRow(connecting, "SELECT pg_backend_pid()").Scan(&pid); err != nil {
		return err
	}
	if pid != conn.PgConn().PID() {
		return errPooled
	}
	if _, err := conn.Exec(connecting, "LISTEN "+pgdb.Quoted(q.channel)); err != nil {
		return err
	}
	q.listening.Store(true)
	defer q.listening.Store(false)
	q.topics.ChangedAll() // notifications sent before are lost
	ok()
	for {
		waiting, done := context.WithTimeout(ctx, q.opts.PollEvery)
		n, err := conn.WaitForNotification(waiting)
		over := waiting.Err() != nil
		done()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil:
			q.topics.Changed(n.Payload)
		case over:
			pinging, done := context.WithTimeout(ctx, asking)
			err := conn.Ping(pinging)
			done()
			if err != nil {
				return err
			}
		default:
			return err
		}
	}
}
