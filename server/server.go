package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math"
	"net/http"
	"net/url"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/server/internal/streamv2"
	"github.com/stele-go/stele/store"
)

// Config is what New makes a server of.
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
	// Burst is how many requests a user may make at once; 0 is twice the Rate.
	Burst int
	// Heartbeat is how often a stream without events says that it lives; 0 is 5 seconds.
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
type Server struct {
	cfg         Config
	mux         *http.ServeMux
	routes      []route
	bodies      bodyReader
	streams     *streamCount
	rates       *rates // nil if there is no limit
	metrics     *requestCounts
	credentials bool
	listingMost int

	threads    *threadAPI
	runs       *runAPI
	assistants *assistantAPI
	crons      *cronAPI
	items      *itemAPI
	protocol   *protocolAPI
	tools      *toolAPI
	operator   *operatorAPI
	joins      *streamAPI

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
		return nil, errors.New("server: no Auth; use NoAuth to serve everybody on this machine")
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
	s := &Server{cfg: cfg, bodies: bodyReader{cfg.MaxBody, cfg.ReadTimeout}, streams: &streamCount{most: cfg.MaxStreams, by: map[string]int{}}, metrics: &requestCounts{requests: map[requestKind]*requestCount{}},
		credentials: !cfg.Auth.open, listingMost: listingMost, stop: stop}
	if !cfg.Auth.open && cfg.Rate > 0 {
		s.rates = &rates{per: rate.Limit(cfg.Rate), burst: cfg.Burst, most: usersMost}
	}
	s.assemble(ctx.Done())
	if err := s.addRoutes(); err != nil {
		stop()
		return nil, err
	}
	s.operator.routes = s.routes
	if cfg.ReadOnly {
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

// assemble makes what has the operations, from what the others stand on upwards. done is closed when the server
// closes.
func (s *Server) assemble(done <-chan struct{}) {
	cfg, log, locks := s.cfg, s.cfg.Logger, &locks{held: map[string]*lock{}}
	var withStore queueWithStore
	if q, ok := cfg.Queue.(queueWithStore); ok && store.Store(q.Items()) == cfg.Store {
		withStore = q
	}
	graphs := &graphSet{by: cfg.Graphs, names: slices.Sorted(maps.Keys(cfg.Graphs)), contexts: cfg.Contexts}
	view := &runView{queue: cfg.Queue, graphs: graphs, log: log}
	s.deferred = &deferredActions{records: newRecords[deferredAction](cfg.Store, log, "after"), store: cfg.Store, log: log, do: s.do,
		wake: make(chan struct{}, 1), settling: make(chan struct{}, 16), calling: make(chan struct{}, 16)}
	s.unmoved = &unmovedItems{settled: newRecords[struct{}](cfg.Store, log, settledKind), store: cfg.Store, auth: cfg.Auth, log: log, looked: make(chan struct{})}
	removed := newRecords[removedRuns](cfg.Store, log, "protocol")
	events := &streamv2.Threads{Queue: cfg.Queue, Closing: done, Removed: func(ctx context.Context, thread string) (map[string]streamv2.Removed, error) {
		r, _, err := removed.get(ctx, thread)
		return r.Runs, err
	}}
	threads := newRecords[thread](cfg.Store, log, "threads")
	threads.kept, threads.keeps = &decoded[thread]{}, thread.isFlat
	assistants := newRecords[assistant](cfg.Store, log, "assistants")
	assistants.kept = &decoded[assistant]{} // each run names one
	crons := &cronStore{records: newRecords[cron](cfg.Store, log, "crons"), indexed: newRecords[struct{}](cfg.Store, log, "thread_crons"),
		threads: threads, store: cfg.Store, saver: cfg.Saver, locks: locks}
	s.threads = &threadAPI{records: threads, unfinished: newRecords[unfinishedThread](cfg.Store, log, "halves"), saver: cfg.Saver, queue: cfg.Queue,
		store: cfg.Store, withStore: withStore, graphs: graphs, view: view, crons: crons, deferred: s.deferred, removed: removed, locks: locks, log: log}
	s.deferred.rescan = s.threads.removeAllUnfinished
	s.assistants = &assistantAPI{records: assistants, graphs: graphs, threads: s.threads, locks: locks, open: cfg.Auth.open, log: log}
	s.joins = &streamAPI{queue: cfg.Queue, view: view, events: events, locks: locks, heartbeat: cfg.Heartbeat, done: done, log: log}
	s.runs = &runAPI{queue: cfg.Queue, saver: cfg.Saver, store: cfg.Store, withStore: withStore, graphs: graphs, threads: s.threads, assistants: s.assistants,
		view: view, streams: s.joins, openStreams: s.streams, events: events, deferred: s.deferred, hooks: hookClient(cfg.AllowPrivateWebhooks),
		attempts: cfg.Attempts, trace: cfg.Trace, locks: locks, log: log}
	s.crons = &cronAPI{crons: crons, threads: s.threads, assistants: s.assistants, runs: s.runs, deferred: s.deferred, auth: cfg.Auth, locks: locks, log: log}
	s.items = &itemAPI{store: cfg.Store}
	s.protocol = &protocolAPI{graphs: graphs, threads: s.threads, assistants: s.assistants, runs: s.runs, events: events, rates: s.rates,
		bodies: s.bodies, heartbeat: cfg.Heartbeat, writeTimeout: cfg.WriteTimeout, log: log}
	s.tools = &toolAPI{graphs: graphs, assistants: s.assistants, runs: s.runs, view: view, streams: s.joins, heartbeat: cfg.Heartbeat, log: log}
	s.operator = &operatorAPI{queue: cfg.Queue, saver: cfg.Saver, threads: s.threads, view: view, crons: crons, unmoved: s.unmoved, metrics: s.metrics,
		openStreams: s.streams, readOnly: cfg.ReadOnly, backupDir: cfg.BackupDir, log: log}
}

// queueWithStore is a queue in the Store: a run and what the server keeps of it are one write. An unsynced
// run is durable only when it was asked for. As the queue knows the newest run of a thread, most runs change
// nothing of the thread's record.
type queueWithStore interface {
	Items() *store.Local
	Newest(threadID string) string
	SubmitWith(ctx context.Context, req runs.Request, beside func(runs.Run) ([]store.Op, error), unsynced bool) (runs.Run, error)
}

// begin starts what goes on beside requests.
func (s *Server) begin(ctx context.Context) {
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

// final reports whether a run ends with the error of an attempt. As in LangGraph, what a
// node returns ends it; a store that cannot be reached does not.
func final(err error) bool { return !errors.Is(err, pregel.ErrPersist) || runs.Final(err) }

// Close stops the worker, which gives its runs back to the queue after their superstep, and
// returns when it has. Requests under way are not waited for: shut the http.Server down first.
func (s *Server) Close() error {
	s.stop()
	s.stopped.Wait()
	return nil
}

// call is a request on its way through a handler: what came, who sent it, and what that user may see.
type call struct {
	w     http.ResponseWriter
	r     *http.Request
	ctx   context.Context
	route *route
	auth  *Auth
	user  *User
	grant Grant
	in    any  // the JSON of the request
	body  body // the same, if it is an object
	// untold: the run that the request makes may not be durable when it was submitted. Whoever
	// tells the client of it asks the queue for it before.
	untold      bool
	listingMost int // see listing
}

// path is a part of the request's path.
func (c *call) path(name string) string { return c.r.PathValue(name) }

// query is a parameter of the request's address.
func (c *call) query(name string) string { return c.r.URL.Query().Get(name) }

// isTrue reports whether a parameter of the request's address is true, as several languages write it.
func (c *call) isTrue(name string) bool {
	v := c.query(name)
	return v == "1" || strings.EqualFold(v, "true")
}

// json answers with a value.
func (c *call) json(v any) error { return writeJSON(c.w, http.StatusOK, v) }

// answer is json, unless there is an error.
func (c *call) answer(v any, err error) error {
	if err != nil {
		return err
	}
	return c.json(v)
}

// none answers with nothing, unless there is an error.
func (c *call) none(err error) error {
	if err != nil {
		return err
	}
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}

// access is the grant for something else than what the route is about.
func (c *call) access(resource, action string) (Grant, error) {
	if resource == c.route.resource && action == c.route.action {
		return c.grant, nil
	}
	return c.auth.grant(c.ctx, c.user, Access{resource, action, c.value()})
}

// value is the request as Authorize sees it.
func (c *call) value() map[string]any {
	v := merged(c.body)
	for _, name := range []string{"assistant_id", "thread_id", "run_id", "cron_id"} {
		if p := c.r.PathValue(name); p != "" {
			v[name] = p
		} else if given, ok := v[name].(string); ok && name != "thread_id" { // which prepare has read
			v[name] = usual(given) // so that it is known again, whatever its form
		}
	}
	if c.route.resource == "store" && c.route.in == nil { // its address names the item
		labels := []any{}
		for _, l := range strings.Split(c.query("namespace"), ".") {
			labels = append(labels, l)
		}
		v["namespace"], v["key"] = labels, c.query("key")
	}
	return v
}

// asked is the call for a run that the request asks for and is not itself: one of a batch, or that of a
// command or a tool. Authorize is asked about it as if it had come alone.
func (c *call) asked(in body) (*call, error) {
	one := *c
	one.body, one.in = in, map[string]any(in)
	var err error
	one.grant, err = c.auth.grant(c.ctx, c.user, Access{"threads", "create_run", one.value()})
	return &one, err
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	counted := &counter{ResponseWriter: w, rc: http.NewResponseController(w), timeout: s.cfg.WriteTimeout}
	begin := time.Now()
	if hasBody(r) { // also of one that nobody reads: net/http looks for its end
		_ = counted.rc.SetReadDeadline(begin.Add(s.cfg.ReadTimeout))
	}
	defer func() { s.metrics.request(r, counted.status, time.Since(begin)) }()
	defer counted.more() // for what net/http sends behind the last Write
	if !s.guard(counted, r) {
		return
	}
	h, pattern := s.mux.Handler(r)
	if _, ok := h.(http.HandlerFunc); pattern == "" || !ok { // the mux sends other paths to an absolute one
		if !s.redirected(counted, r) {
			missing(counted, r, h)
		}
		return
	}
	s.mux.ServeHTTP(counted, r)
}

// redirected sends a request whose path has slashes too much to the one without, if that is of a route.
// The address is relative, as the server may be mounted below another path.
func (s *Server) redirected(w http.ResponseWriter, r *http.Request) bool {
	path := r.URL.EscapedPath()
	parts := strings.FieldsFunc(path, func(c rune) bool { return c == '/' })
	clean := strings.Join(parts, "/")
	plain, err := url.PathUnescape(clean)
	if err != nil || "/"+clean == path || slices.Contains(parts, ".") || slices.Contains(parts, "..") {
		return false
	}
	without := r.Clone(r.Context())
	without.URL.Path, without.URL.RawPath = "/"+plain, "/"+clean
	if _, pattern := s.mux.Handler(without); pattern == "" {
		return false
	}
	to := strings.Repeat("../", strings.Count(path, "/")-1) + clean
	if r.URL.RawQuery != "" {
		to += "?" + r.URL.RawQuery
	}
	w.Header().Set("Location", to)
	w.WriteHeader(http.StatusTemporaryRedirect)
	return true
}

// missing answers a request that no route is for. h is the mux's own answer.
func missing(w http.ResponseWriter, r *http.Request, h http.Handler) {
	own := &discarded{header: http.Header{}}
	h.ServeHTTP(own, r)
	if own.status == http.StatusMethodNotAllowed {
		w.Header().Set("Allow", own.header.Get("Allow"))
		writeFailure(w, &failure{http.StatusMethodNotAllowed, "Method Not Allowed"})
		return
	}
	writeFailure(w, errNotFound)
}

// serve makes a handler of a route.
func (s *Server) serve(rt *route) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c := &call{auth: s.cfg.Auth, listingMost: s.listingMost, w: w, r: r, ctx: r.Context(), route: rt}
		err := s.answer(c)
		if err == nil {
			return
		}
		f, logged := failureOf(err)
		if logged {
			s.cfg.Logger.Error("a request failed", "method", r.Method, "path", r.URL.Path, "error", err)
		}
		writeFailure(w, f)
	}
}

// answer does all for a request. A panic, which may be one of a graph's functions, is an error, unless
// the answer has begun: then the connection is cut off.
func (s *Server) answer(c *call) (err error) {
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		if counted, ok := c.w.(*counter); p == http.ErrAbortHandler || ok && counted.status != 0 {
			panic(p)
		}
		err = &pregel.PanicError{Value: p, Stack: debug.Stack()}
	}()
	if err := s.prepare(c); err != nil {
		return err
	}
	return s.handle(c)
}

// handle does what is asked. A stream is counted before anything is done, so that one that
// is refused has made no run.
func (s *Server) handle(c *call) error {
	if c.route.stream {
		leave, err := s.streams.enter(c.user.Identity)
		if err != nil {
			return err
		}
		defer leave()
	}
	return c.route.handle(c)
}

// prepare authenticates a request, reads it and authorizes it, in this order.
func (s *Server) prepare(c *call) (err error) {
	if c.route.open {
		return nil
	}
	if c.user, err = s.cfg.Auth.authenticate(c.r); err != nil {
		return err
	}
	if err := s.rates.limit(c); err != nil {
		return err
	}
	if s.cfg.ReadOnly && c.route.changes() {
		return fail(http.StatusForbidden, "This server is read-only.")
	}
	for _, name := range []string{"assistant_id", "thread_id", "run_id", "cron_id"} {
		if id := c.r.PathValue(name); id != "" && !isUUID(id) && (name != "thread_id" || !s.threads.anyThread(c)) && (!c.route.byName || s.cfg.Graphs[id] == nil) {
			return fail(422, "Invalid %s ID: must be a UUID", name[:len(name)-3])
		}
		if err := s.readID(c, name); err != nil {
			return err
		}
	}
	if c.route.in != nil {
		if err := s.bodies.read(c); err != nil {
			return err
		}
		if given := c.body.text("thread_id"); given != "" {
			if c.body["thread_id"], err = s.threads.id(c.ctx, given); err != nil {
				return err
			}
		}
	}
	c.grant, err = c.auth.grant(c.ctx, c.user, Access{c.route.resource, c.route.action, c.value()})
	if err == nil && c.route.allUsers && !c.grant.all() {
		return fail(http.StatusForbidden, "This is about the things of all users: Authorize must grant it without a filter.")
	}
	return err
}

// readID makes a UUID of the path one as those of the server are.
func (s *Server) readID(c *call, name string) error {
	id := c.r.PathValue(name)
	small := usual(id)
	if small == id {
		return nil
	}
	if name == "thread_id" {
		var err error
		if small, err = s.threads.id(c.ctx, id); err != nil {
			return err
		}
	}
	c.r.SetPathValue(name, small)
	return nil
}

// id is the id of the thread that a request names by a UUID: the same in its usual form, unless
// another program has made a thread of just this id.
func (s *threadAPI) id(ctx context.Context, given string) (string, error) {
	small := usual(given)
	if small == given {
		return given, nil
	}
	_, stored, err := s.infoOf(ctx, given)
	if stored {
		return given, err
	}
	return small, err
}

// bodyReader reads the bodies of requests: most bytes, which begin to come within a time.
type bodyReader struct {
	most    int64
	timeout time.Duration
}

// read reads the body of a request, and checks that it has the shape of its route.
func (s bodyReader) read(c *call) error {
	if c.r.ContentLength > s.most { // also for a client that asks first, by Expect
		return errLargeBody(s.most)
	}
	rc := http.NewResponseController(c.w)
	until := time.Now().Add(s.timeout)
	_ = rc.SetReadDeadline(until) // Authenticate may have taken long
	text, err := io.ReadAll(&timed{Reader: http.MaxBytesReader(c.w, c.r.Body, s.most), rc: rc, until: until})
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return fail(http.StatusRequestTimeout, "The body took too long to come")
	}
	_ = rc.SetReadDeadline(time.Time{}) // that the client leaves is noticed by a read
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		return errLargeBody(large.Limit)
	}
	if err != nil {
		return fail(http.StatusBadRequest, "The body could not be read")
	}
	if len(text) == 0 && c.route.optional {
		return nil
	}
	if c.in, err = decode(text); err != nil {
		return err
	}
	if err := c.route.in.check(c.in); err != nil {
		return err
	}
	if m, ok := c.in.(map[string]any); ok {
		c.body = m
	}
	return nil
}

func errLargeBody(most int64) error {
	return fail(http.StatusRequestEntityTooLarge, "The body has more than %d bytes", most)
}

// timed reads a body that has the more time the more of it has come.
type timed struct {
	io.Reader
	rc    *http.ResponseController
	until time.Time
	grace int // bytes that came since until was moved
}

// bodyRate is how many bytes of a body give it a second more.
const bodyRate = 32 << 10

// Read implements io.Reader.
func (t *timed) Read(p []byte) (int, error) {
	if more := t.grace / bodyRate; more > 0 {
		t.grace -= more * bodyRate
		t.until = t.until.Add(time.Duration(more) * time.Second)
		_ = t.rc.SetReadDeadline(t.until)
	}
	n, err := t.Reader.Read(p)
	t.grace += n
	return n, err
}

// counter notes the status of an answer. It lets the client take a time over each piece of it.
type counter struct {
	http.ResponseWriter
	rc      *http.ResponseController
	timeout time.Duration
	status  int
}

// piece is how much of an answer a client must read in the time.
const piece = 64 << 10

// Write implements http.ResponseWriter.
func (c *counter) Write(b []byte) (n int, err error) {
	if c.status == 0 {
		c.WriteHeader(http.StatusOK)
	}
	for first := true; err == nil && (first || len(b) > 0); first = false {
		c.more()
		var m int
		m, err = c.ResponseWriter.Write(b[:min(len(b), piece)])
		n, b = n+m, b[m:]
	}
	return n, err
}

// more gives the client its time once more. A ResponseWriter of a test, or of a wrapper, may know no
// deadlines.
func (c *counter) more() { _ = c.rc.SetWriteDeadline(time.Now().Add(c.timeout)) }

// WriteHeader implements http.ResponseWriter.
func (c *counter) WriteHeader(status int) {
	if c.status == 0 {
		c.status = status
	}
	c.more()
	c.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (c *counter) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// discarded takes an answer and keeps its head alone.
type discarded struct {
	header http.Header
	status int
}

// Header implements http.ResponseWriter.
func (d *discarded) Header() http.Header { return d.header }

// Write implements http.ResponseWriter.
func (d *discarded) Write(b []byte) (int, error) { return len(b), nil }

// WriteHeader implements http.ResponseWriter.
func (d *discarded) WriteHeader(status int) { d.status = status }

// Routes lists the operations that the server has, as "GET /threads/{thread_id}", in the
// patterns of net/http.
func (s *Server) Routes() []string {
	list := make([]string, len(s.routes))
	for i, rt := range s.routes {
		list[i] = rt.method + " " + rt.path
	}
	return list
}
