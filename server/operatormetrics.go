package server

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stele-go/stele/runs"
)

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

// getMetrics answers in Prometheus's text format. LangGraph's server has another one, of JSON.
func (s *operatorAPI) getMetrics(c *call) error {
	if _, err := c.word("format", "prometheus"); err != nil {
		return err
	}
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
		n, err := s.queue.Count(c.ctx, runs.Query{Status: status})
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "stele_server_runs{status=%q} %d\n", status, n)
	}
	leads := 1
	if s.follows {
		leads = 0
	}
	b.WriteString("# HELP stele_server_leads 0 if the server follows another one and takes no changes.\n# TYPE stele_server_leads gauge\n")
	fmt.Fprintf(&b, "stele_server_leads %d\n", leads)
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
