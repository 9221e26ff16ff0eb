package server

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/stele-go/stele/server/internal/streamv2"
	"github.com/stele-go/stele/store"
)

// assemble makes the APIs that have the operations, each after those that it needs. lives ends when the server closes.
func (s *Server) assemble(lives context.Context) {
	done := lives.Done()
	queue, states, items, auth, log := s.cfg.Queue, s.cfg.Saver, s.cfg.Store, s.cfg.Auth, s.cfg.Logger
	locks := &locks{held: map[lockKey]*lock{}}
	var withStore queueWithStore
	if q, ok := queue.(queueWithStore); ok && store.Store(q.Items()) == items {
		withStore = q
	}
	graphs := &graphSet{by: s.cfg.Graphs, names: slices.Sorted(maps.Keys(s.cfg.Graphs)), contexts: s.cfg.Contexts}
	workers := &workerless{queue: queue, now: time.Now, own: func(graph string) bool { return s.cfg.Workers >= 0 && graphs.by[graph] != nil }}
	view := &runView{queue: queue, graphs: graphs, workers: workers, log: log}
	removed := newRecords[removedRuns](items, log, "protocol")
	events := &streamv2.Threads{Queue: queue, Closing: done}
	events.Removed = func(ctx context.Context, thread string) (map[string]streamv2.Removed, error) {
		r, _, err := removed.get(ctx, thread)
		return r.Runs, err
	}
	s.unmoved = &unmovedItems{settled: newRecords[struct{}](items, log, settledKind), store: items, auth: auth, log: log,
		looked: make(chan struct{})}
	s.deferred = &deferredActions{records: newRecords[deferredAction](items, log, "after"), store: items, log: log,
		do: s.do, wake: make(chan struct{}, 1), settling: make(chan struct{}, 16), calling: make(chan struct{}, 16)}

	threads := newRecords[thread](items, log, "threads")
	threads.kept, threads.keeps = &decoded[thread]{}, thread.isFlat
	crons := &cronStore{records: newRecords[cron](items, log, "crons"), threads: threads, store: items, saver: states,
		indexed: newRecords[struct{}](items, log, "thread_crons"), locks: locks}
	s.threads = &threadAPI{records: threads, index: newThreadIndex(items, states, threads, log), unfinished: newRecords[unfinishedThread](items, log, "halves"),
		removed: removed, saver: states, queue: queue, store: items, withStore: withStore, graphs: graphs, view: view,
		crons: crons, deferred: s.deferred, locks: locks, log: log}
	s.deferred.rescan = func(ctx context.Context, now time.Time) error {
		return s.threads.removeAllUnfinished(ctx, now.Add(-unfinishedTime))
	}
	assistants := newRecords[assistant](items, log, "assistants")
	assistants.kept = &decoded[assistant]{} // each run names one
	s.assistants = &assistantAPI{records: assistants, graphs: graphs, threads: s.threads, open: auth.open, locks: locks,
		log: log}
	s.streams = &streamAPI{queue: queue, view: view, events: events, heartbeat: s.cfg.Heartbeat, done: done, locks: locks,
		log: log, follows: s.follows, marks: s.losesTail}
	s.runs = &runAPI{queue: queue, saver: states, store: items, withStore: withStore, graphs: graphs, threads: s.threads,
		assistants: s.assistants, view: view, streams: s.streams, openStreams: s.openStreams, events: events,
		deferred: s.deferred, hooks: hookClient(s.cfg.AllowPrivateWebhooks), attempts: s.cfg.Attempts,
		trace: s.cfg.Trace, locks: locks, log: log}
	s.crons = &cronAPI{crons: crons, threads: s.threads, assistants: s.assistants, runs: s.runs, deferred: s.deferred,
		auth: auth, locks: locks, log: log}
	s.items = &itemAPI{store: items}
	s.protocol = &protocolAPI{graphs: graphs, threads: s.threads, assistants: s.assistants, runs: s.runs, events: events,
		rates: s.rates, bodies: s.bodies, heartbeat: s.cfg.Heartbeat, writeTimeout: s.cfg.WriteTimeout, log: log}
	s.tools = &mcpAPI{graphs: graphs, assistants: s.assistants, runs: s.runs, view: view, streams: s.streams,
		heartbeat: s.cfg.Heartbeat, log: log}
	s.operator = &operatorAPI{queue: queue, graphs: graphs, saver: states, threads: s.threads, view: view, crons: crons,
		users:   &userErasure{threads: s.threads, runs: s.runs, assistants: s.assistants},
		unmoved: s.unmoved, metrics: s.metrics, openStreams: s.openStreams, readOnly: s.cfg.ReadOnly, follows: s.follows,
		backupDir: s.cfg.BackupDir, lives: lives, log: log}
}
