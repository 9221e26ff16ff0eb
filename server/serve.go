package server

import (
	"net/http"
	"net/url"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/stele-go/stele/pregel"
)

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.made() {
		http.Error(w, errNotMade.Error(), http.StatusInternalServerError)
		return
	}
	counted := &statusWriter{ResponseWriter: w, rc: http.NewResponseController(w), timeout: s.cfg.WriteTimeout}
	begin := time.Now()
	if hasBody(r) { // also of a body that no handler reads: net/http reads it to its end
		_ = counted.rc.SetReadDeadline(begin.Add(s.cfg.ReadTimeout))
	}
	own, linger := lingering(counted, r, s.cfg.ReadTimeout, s.cfg.MaxBody)
	defer func() {
		r.Pattern = own.Pattern // for handlers around this one, such as tracing
		s.metrics.request(r, counted.status, time.Since(begin))
	}()
	s.pass(counted, own)
	counted.more() // for the bytes that net/http sends after the last Write
	linger()
}

// pass gives a request that may come in to the handler of its route.
func (s *Server) pass(counted *statusWriter, r *http.Request) {
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
			s.cfg.Logger.Error("a request failed", "method", r.Method, "path", r.URL.Path, pregel.LogError(err))
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
		if counted, ok := c.w.(*statusWriter); p == http.ErrAbortHandler || ok && counted.status != 0 {
			panic(p)
		}
		err = &pregel.PanicError{Value: p, Stack: debug.Stack()}
	}()
	if err := s.prepare(c); err != nil {
		return err
	}
	if c.route.stream { // it is counted before anything is done: one that is refused has made no run
		leave, err := s.openStreams.enter(c.user.Identity)
		if err != nil {
			return err
		}
		defer leave()
	}
	return c.route.handle(c)
}

// prepare authenticates a request, reads it and authorizes it, in this order.
func (s *Server) prepare(c *call) (err error) {
	if c.r.URL.RawQuery != "" {
		c.ignore(unknownIn(c.r.URL.Query(), func(name string) bool { return slices.Contains(c.route.query, name) }))
	}
	if c.route.open {
		return c.once()
	}
	if c.user, err = s.cfg.Auth.authenticate(c.r); err != nil {
		return err
	}
	if err := s.rates.limit(c); err != nil {
		return err
	}
	if s.follows && c.route.changes() {
		return errFollower
	}
	if s.cfg.ReadOnly && c.route.changes() {
		return fail(http.StatusForbidden, "This server is read-only.")
	}
	if err := c.once(); err != nil {
		return err
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
