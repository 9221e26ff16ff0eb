package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"net/http"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/store"
)

// Config configures New.
type Config struct {
	// Graphs are those that the server runs, by the names that clients use. Each must have
	// been compiled with Saver, and with Store if its nodes use one. A server without graphs
	// shows the threads of the saver as they are stored.
	Graphs map[string]*pregel.Graph
	// Saver has the threads. Required.
	Saver saver.Saver
	// Store has the items that clients see, and below the namespace "__stele_server__" the
	// server's own: assistants, threads, crons, webhooks. Required.
	Store store.Store
	// Queue has the runs. Required. Servers that share a Queue share Saver and Store.
	Queue runs.Queue
	// Auth says who may do what. Required: without one it must be NoAuth.
	Auth *Auth

	// ReadOnly refuses all that changes something, with 403, and executes no runs.
	ReadOnly bool
	// Workers is how many runs this server executes at a time; 0 is 16, and a negative
	// number none: then other processes execute them.
	Workers int
	// Attempts bounds how often a run is begun, if servers are killed under it; 0 is 3. Then it
	// ends with an error, so that a node that kills its server does not do so for ever.
	Attempts int
	// DrainTimeout is how long Close waits for supersteps to end; 0 is 10 seconds. See
	// runs.Worker.
	DrainTimeout time.Duration
	// Context makes what nodes get as their context; see runs.Worker.
	Context func(runs.Run) (any, error)
	// Contexts are the JSON Schemas of what the graphs take as context, for assistants'
	// forms. A graph without one takes anything.
	Contexts map[string]any

	// Origins are the origins whose pages may use the server, such as
	// "https://chat.example.com". A page of the server's own origin always may.
	Origins []string
	// AllowPrivateWebhooks lets webhooks go to loopback, link-local and private addresses.
	AllowPrivateWebhooks bool
	// MaxBody bounds the body of a request in bytes; 0 is 16 MiB.
	MaxBody int64
	// BackupDir is where operators make backups of an embedded store, by POST /stele/backup:
	// a directory that is empty or missing, or has an earlier backup of the store. Empty means
	// that they make none.
	BackupDir string
	// MaxStreams bounds the streams, and waits, that a user has open at a time; 0 is 1000.
	MaxStreams int
	// Rate is how many requests a user may make in a second, on average; 0 is 100, and a
	// negative number is no limit. More are refused with 429 and Retry-After. A command on a
	// WebSocket counts as a request. Each server counts for itself, for the 10,000 users that
	// came last. Under NoAuth there is no limit.
	Rate float64
	// Burst is how many requests a user may make in one moment; 0 is twice the Rate.
	Burst int
	// Heartbeat is how often a stream without events sends a sign of life; 0 is 5 seconds.
	Heartbeat time.Duration
	// WriteTimeout is how long a client may take to read what was sent, before it is cut
	// off; 0 is 30 seconds. A stream that was resumable goes on from where it was.
	WriteTimeout time.Duration
	// ReadTimeout is how long a client may take to send the body of a request, before it is
	// refused with 408; 0 is 30 seconds. A long body has a second more for each 32 KiB.
	ReadTimeout time.Duration
	// Trace says which trace a request belongs to, as W3C's headers do. A run that the request
	// makes remembers it. Nil remembers nothing.
	Trace func(ctx context.Context) map[string]string
	// Begin is called when this server begins an attempt at a run; see runs.Worker.
	Begin func(ctx context.Context, r runs.Run) (context.Context, func(error))
	// Logger reports what went wrong. Nil is slog.Default().
	Logger *slog.Logger
}

// Server is LangGraph's server API, as an http.Handler. It is safe for concurrent use.
//
// It guards, authenticates, reads and authorizes requests, and hands each as a call to the method of its route.
// These methods are of types that have what their operations need, and nothing of the Server; see assemble.
//
// On a saver that follows a leader (disk.OpenFollower, disk.LeadOrFollow) it answers what reads, as old as the follower is, and refuses
// all else with 503 and Retry-After. It executes no runs, and fires no crons.
type Server struct {
	cfg         Config
	mux         *http.ServeMux
	routes      []route
	bodies      bodyReader
	openStreams *streamCount
	rates       *rates // nil if there is no limit
	metrics     *requestCounts
	listingMost int
	follows     bool // another server leads
	losesTail   bool // a take-over may lose what was acknowledged

	threads    *threadAPI
	runs       *runAPI
	assistants *assistantAPI
	crons      *cronAPI
	items      *itemAPI
	protocol   *protocolAPI
	tools      *mcpAPI
	operator   *operatorAPI
	streams    *streamAPI

	deferred *deferredActions
	unmoved  *unmovedItems
	stop     context.CancelFunc
	stopped  sync.WaitGroup
}

// New makes a server and begins to execute runs, also those that an earlier process left.
// Close ends it. It returns an error if the Config is not complete, or the store cannot be
// read.
func New(cfg Config) (*Server, error) {
	switch {
	case cfg.Saver == nil || cfg.Store == nil || cfg.Queue == nil:
		return nil, errors.New("server: Saver, Store and Queue are required")
	case cfg.Auth == nil || cfg.Auth.Authenticate == nil && !cfg.Auth.open:
		return nil, errors.New("server: no Auth, or one that cannot authenticate; use NoAuth to serve everybody on this machine")
	}
	for _, name := range slices.Sorted(maps.Keys(cfg.Graphs)) {
		if g := cfg.Graphs[name]; g == nil || g.Saver() == nil {
			return nil, fmt.Errorf("server: graph %q stores nothing: compile it with Config.Saver", name)
		}
	}
	for _, o := range cfg.Origins {
		if o == "*" && !cfg.Auth.open {
			return nil, errors.New(`server: Origins: list origins; "*" would let every page use a visitor's rights`)
		}
	}
	cfg.MaxBody = cmp.Or(cfg.MaxBody, 16<<20)
	cfg.MaxStreams = cmp.Or(cfg.MaxStreams, 1000)
	cfg.Rate = cmp.Or(cfg.Rate, 100)
	cfg.Burst = cmp.Or(cfg.Burst, int(math.Ceil(2*cfg.Rate)))
	cfg.Heartbeat = cmp.Or(cfg.Heartbeat, 5*time.Second)
	cfg.WriteTimeout = cmp.Or(cfg.WriteTimeout, 30*time.Second)
	cfg.ReadTimeout = cmp.Or(cfg.ReadTimeout, 30*time.Second)
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	ctx, stop := context.WithCancel(context.Background())
	s := &Server{cfg: cfg, bodies: bodyReader{cfg.MaxBody, cfg.ReadTimeout},
		openStreams: &streamCount{most: cfg.MaxStreams, by: map[string]int{}},
		metrics:     &requestCounts{requests: map[requestKind]*requestCount{}}, listingMost: listingMost, stop: stop}
	if !cfg.Auth.open && cfg.Rate > 0 {
		s.rates = &rates{per: rate.Limit(cfg.Rate), burst: cfg.Burst, most: usersMost}
	}
	if f, ok := cfg.Saver.(interface{ Follows() bool }); ok {
		s.follows = f.Follows()
	}
	if w, ok := cfg.Saver.(watched); ok {
		r := w.Health().Replica
		s.losesTail = r != nil && r.Mode != "sync"
	}
	s.assemble(ctx)
	if err := s.addRoutes(); err != nil {
		stop()
		return nil, err
	}
	s.operator.routes = s.routes
	if cfg.ReadOnly || s.follows {
		s.index(ctx)
		return s, nil
	}
	if err := errors.Join(s.assistants.makeOwn(ctx), s.crons.crons.indexAll(ctx)); err != nil {
		stop()
		return nil, err
	}
	if s.threads.withStore != nil { // no other server makes a thread
		if err := s.threads.removeAllUnfinished(ctx, now().Add(longest)); err != nil {
			cfg.Logger.Error("remove what is left of threads", "error", err)
		}
	}
	s.begin(ctx)
	return s, nil
}

// begin starts the background work.
func (s *Server) begin(ctx context.Context) {
	s.index(ctx)
	if s.cfg.Workers >= 0 && len(s.cfg.Graphs) > 0 {
		w := &runs.Worker{Queue: s.cfg.Queue, Saver: s.cfg.Saver, Graphs: s.cfg.Graphs, Concurrency: s.cfg.Workers, Context: s.cfg.Context,
			Begin: s.cfg.Begin, Final: final, DrainTimeout: s.cfg.DrainTimeout, Logger: s.cfg.Logger}
		s.stopped.Go(func() {
			if err := w.Run(ctx); err != nil {
				s.cfg.Logger.Error("the worker ended", "error", err)
			}
		})
	}
	s.stopped.Go(func() { s.deferred.run(ctx) })
	s.stopped.Go(func() { s.unmoved.look(ctx) })
}

// index begins to make the index of threads.
func (s *Server) index(ctx context.Context) {
	if x := s.threads.index; x != nil {
		s.stopped.Go(func() { x.run(ctx) })
	}
}

// do does one thing, or says when to look at it again.
func (s *Server) do(ctx context.Context, a deferredAction) (again time.Time, err error) {
	switch a.Kind {
	case deferredTTL:
		return s.threads.expire(ctx, a)
	case deferredCron:
		return s.crons.fire(ctx, a)
	case deferredUnfinished:
		if err := s.threads.removeUnfinished(ctx, a.Thread); err != nil {
			if !errors.Is(err, saver.ErrConflict) { // else another request makes it
				s.deferred.logUnlessEnding(ctx, "remove what is left of a thread", err)
			}
			return now().Add(undoPause), nil
		}
		return time.Time{}, nil
	case deferredUndo:
		if err := s.runs.takeBack(ctx, a); err != nil {
			s.deferred.logUnlessEnding(ctx, "take a run back", err)
			return now().Add(undoPause), nil
		}
		return time.Time{}, nil
	case deferredWebhook, deferredTemporary:
	default: // a newer version stored it, and will do it
		return now().Add(24 * time.Hour), nil
	}
	r, err := s.cfg.Queue.Get(ctx, a.Run)
	switch {
	case errors.Is(err, runs.ErrNotFound): // removed by itself, or before its thread by a server that was killed
		t, _, err := s.threads.records.get(ctx, a.Thread)
		if err == nil && t.Temporary {
			err = s.threads.remove(ctx, a.Thread)
		}
		return s.deferred.done(ctx, a, err)
	case err != nil:
		return time.Time{}, err
	case !r.Status.Ended():
		return now().Add(runPoll), nil
	case a.Kind == deferredWebhook:
		return s.runs.callHook(ctx, a, r)
	case now().Before(r.Ended.Add(grace)):
		return r.Ended.Add(grace), nil
	}
	return s.deferred.done(ctx, a, s.threads.remove(ctx, a.Thread))
}

// final reports whether a run ends with the error of an attempt. As in LangGraph, what a
// node returns ends it; a store that cannot be reached does not.
func final(err error) bool { return !errors.Is(err, pregel.ErrPersist) || runs.Final(err) }

// Close stops the worker, which gives its runs back to the queue after their superstep, and
// returns when it has. Requests under way are not waited for: shut the http.Server down first.
func (s *Server) Close() error {
	if !s.made() {
		return errNotMade
	}
	s.stop()
	s.stopped.Wait()
	return nil
}

// made reports whether New made the server: a zero one serves nothing.
func (s *Server) made() bool { return s != nil && s.stop != nil }

var errNotMade = errors.New("server: a Server is made by New")

// Routes lists the operations that the server has, as "GET /threads/{thread_id}", in the
// patterns of net/http.
func (s *Server) Routes() []string {
	if !s.made() {
		return nil
	}
	list := make([]string, len(s.routes))
	for i, rt := range s.routes {
		list[i] = rt.method + " " + rt.path
	}
	return list
}
