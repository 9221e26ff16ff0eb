package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stele-go/stele/base/metrics"
	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
)

// operatorAPI has the operations about the server itself, and those for its operators.
type operatorAPI struct {
	queue       runs.Queue
	saver       saver.Saver
	threads     *threadAPI
	view        *runView
	crons       *cronStore
	unmoved     *unmovedItems
	metrics     *requestCounts
	openStreams *streamCount
	routes      []route // of the server
	readOnly    bool
	backupDir   string
	upkeep      sync.Mutex // one check or backup at a time
	log         *slog.Logger
}

// Version is the version of LangGraph's server whose API this server speaks.
const Version = "0.16.7"

// ok says that the process answers and, if it is asked, whether its store is healthy.
func (s *operatorAPI) ok(c *call) error {
	status, services := http.StatusOK, map[string]string{}
	if c.isTrue("check_db") {
		services["database"] = "healthy"
		if err := s.checkStore(c.ctx); err != nil {
			s.log.Error("the store is not healthy", "error", err)
			status, services["database"] = http.StatusInternalServerError, "unhealthy"
		}
	}
	return writeJSON(c.w, status, map[string]any{"ok": status == http.StatusOK, "services": services})
}

// storeTimeout bounds how long a check waits for the store.
const storeTimeout = 5 * time.Second

// checkStore is an error if the store cannot be read, or takes no writes though the server changes things.
func (s *operatorAPI) checkStore(ctx context.Context) error {
	ctx, stop := context.WithTimeout(ctx, storeTimeout)
	defer stop()
	if _, _, err := s.crons.indexed.get(ctx, allIndexed); err != nil {
		return err
	}
	if w, ok := s.saver.(watched); ok && !s.readOnly {
		for _, p := range w.Health().Problems {
			if p.Status == metrics.StatusFailed {
				return fmt.Errorf("%s: %s", p.Kind, p.Detail)
			}
		}
	}
	return nil
}

// info answers with what the server can do. Clients look at the flags.
func (s *operatorAPI) info(c *call) error {
	_, watched := s.saver.(watched)
	_, embedded := s.saver.(*disk.Saver)
	change := !s.readOnly
	stele := map[string]any{"readonly": s.readOnly, "lazy_history": true, "thread_status": true, "thread_prefix": true, "brief_values": true, "task_inputs": true, "runs": true, "tasks": true, "health": watched,
		"room": embedded, "verify": embedded && change, "backup": embedded && change && s.backupDir != ""}
	return c.json(map[string]any{"version": Version, "stele": stele, "langgraph_py_version": "1.2.22",
		"flags": map[string]any{"assistants": true, "crons": true, "langsmith": false, "langsmith_tracing_replicas": false, "langsmith_tracing_session_on_runs": false},
		"host":  map[string]any{"kind": "self-hosted", "project_id": nil, "host_revision_id": nil, "revision_id": nil, "tenant_id": nil}})
}

// requestCounts counts requests.
type requestCounts struct {
	mu       sync.Mutex
	requests map[requestKind]*requestCount
}

type requestKind struct {
	method, pattern string
	status          int
}

type requestCount struct {
	count   int64
	seconds float64
}

// request counts a request that was answered.
func (m *requestCounts) request(r *http.Request, status int, took time.Duration) {
	k := requestKind{r.Method, strings.TrimPrefix(r.Pattern, r.Method+" "), status}
	if r.Pattern == "" {
		k.method, k.pattern = "", "" // so that clients cannot make up names
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.requests[k]
	if c == nil {
		c = &requestCount{}
		m.requests[k] = c
	}
	c.count++
	c.seconds += took.Seconds()
}

// getMetrics answers in Prometheus's text format.
func (s *operatorAPI) getMetrics(c *call) error {
	var b strings.Builder
	b.WriteString("# HELP stele_server_requests_total Requests that were answered.\n# TYPE stele_server_requests_total counter\n")
	m := s.metrics
	m.mu.Lock()
	var lines, times []string
	for k, n := range m.requests {
		labels := fmt.Sprintf(`{method=%q,path=%q,status="%d"}`, k.method, k.pattern, k.status)
		lines = append(lines, fmt.Sprintf("stele_server_requests_total%s %d\n", labels, n.count))
		times = append(times, fmt.Sprintf("stele_server_request_seconds_total%s %g\n", labels, n.seconds))
	}
	m.mu.Unlock()
	slices.Sort(lines)
	slices.Sort(times)
	b.WriteString(strings.Join(lines, ""))
	b.WriteString("# HELP stele_server_request_seconds_total Time that requests took, streams included.\n# TYPE stele_server_request_seconds_total counter\n")
	b.WriteString(strings.Join(times, ""))
	b.WriteString("# HELP stele_server_streams Streams and waits that are open.\n# TYPE stele_server_streams gauge\n")
	fmt.Fprintf(&b, "stele_server_streams %d\n", s.openStreams.open())
	b.WriteString("# HELP stele_server_runs Runs that have not ended.\n# TYPE stele_server_runs gauge\n")
	for _, status := range []runs.Status{runs.Pending, runs.Running} {
		n := 0
		for _, err := range s.queue.List(c.ctx, runs.Query{Status: status}) {
			if err != nil && !errors.Is(err, runs.ErrUnreadable) {
				return err
			}
			n++
		}
		fmt.Fprintf(&b, "stele_server_runs{status=%q} %d\n", status, n)
	}
	unmoved := 0
	if s.unmoved.any(c.ctx) {
		unmoved = 1
	}
	b.WriteString("# HELP stele_server_items_unmoved 1 if items of users are where an earlier version kept them.\n# TYPE stele_server_items_unmoved gauge\n")
	fmt.Fprintf(&b, "stele_server_items_unmoved %d\n", unmoved)
	c.w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_, err := c.w.Write([]byte(b.String()))
	return err
}

// watched is what an embedded store tells about itself.
type watched interface {
	Health() metrics.Health
	Stats() metrics.Stats
}
