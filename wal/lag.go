package wal

import (
	"time"

	"github.com/stele-go/stele/monitor"
)

// lag is guarded by Log.mu.
type lag struct {
	bytes int64
	since time.Time // the oldest record that is not durable was written then; zero if all are
}

// Lag says how far durability is behind now. It never blocks on I/O.
func (l *Log) Lag() monitor.Lag {
	l.mu.Lock()
	defer l.mu.Unlock()
	last, durable := l.last.Load(), l.durable.Load()
	if last <= durable {
		return monitor.Lag{}
	}
	g := monitor.Lag{Records: last - durable, Bytes: l.mu.lag.bytes}
	if !l.mu.lag.since.IsZero() {
		g.Age = time.Since(l.mu.lag.since)
	}
	return g
}

// Poison is why the log refuses all writes; nil if it does not.
func (l *Log) Poison() error { return l.poisoned() }

// wrote counts a batch that ends with record last.
func (g *lag) wrote(last, durable uint64, bytes int64) {
	if last <= durable {
		return
	}
	g.bytes += bytes
	if g.since.IsZero() {
		g.since = time.Now()
	}
}

// synced takes out what a sync made durable that began at a moment when before
// bytes were owed. What is left was written since.
func (g *lag) synced(all bool, began time.Time, before int64) {
	if all {
		*g = lag{}
		return
	}
	g.bytes, g.since = max(0, g.bytes-before), began
}
