package prometheus

import (
	"context"
	"errors"
	"iter"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stele-go/stele/agent/model"
	"github.com/stele-go/stele/message"
	"github.com/stele-go/stele/pregel"
)

// maxNames is how many graphs, nodes and models have series of their own, each.
const maxNames = 200

// GraphCollector implements prometheus.Collector for runs of graphs that have its Hooks and calls of
// models that Model returned. It is safe for concurrent use, and one is enough for a process. Labels
// are names of graphs, versions, nodes and models. Of each the first 200 have series of their own; all others
// share the name "other", so that names made at run time do no harm.
type GraphCollector struct {
	running                                         *prometheus.GaugeVec
	runs, versions, steps, nodes, retries           *prometheus.CounterVec
	calls, tokens                                   *prometheus.CounterVec
	runSeconds, nodeSeconds, callSeconds            *prometheus.HistogramVec
	graphNames, versionNames, nodeNames, modelNames names
}

var _ prometheus.Collector = (*GraphCollector)(nil)

// seconds are the buckets of runs, nodes and calls of models: a millisecond to ten minutes.
var seconds = []float64{.001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 20, 60, 120, 300, 600}

// NewGraphCollector returns a collector.
func NewGraphCollector() *GraphCollector {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	histogram := func(name, help string, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: seconds}, labels)
	}
	return &GraphCollector{
		running:     prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "stele_runs_active", Help: "Runs under way."}, []string{"graph"}),
		runs:        counter("stele_runs_total", "Runs that ended, by outcome.", "graph", "outcome"),
		versions:    counter("stele_run_versions_total", "Runs that began, by the version of their graph.", "graph", "version"),
		runSeconds:  histogram("stele_run_duration_seconds", "Runs that ended.", "graph"),
		steps:       counter("stele_supersteps_total", "Supersteps that ended.", "graph"),
		nodes:       counter("stele_node_runs_total", "Tasks that ended, with all their attempts, by outcome.", "graph", "node", "outcome"),
		nodeSeconds: histogram("stele_node_duration_seconds", "Tasks that ended, with all their attempts.", "graph", "node"),
		retries:     counter("stele_node_retries_total", "Attempts after the first.", "graph", "node"),
		calls:       counter("stele_model_calls_total", "Calls of models that ended, by outcome.", "model", "outcome"),
		callSeconds: histogram("stele_model_call_duration_seconds", "Calls of models that ended, until the last chunk.", "model"),
		tokens:      counter("stele_model_tokens_total", "Tokens as the models report them: input, output.", "model", "kind"),
	}
}

func (c *GraphCollector) all() []prometheus.Collector {
	return []prometheus.Collector{c.running, c.runs, c.versions, c.runSeconds, c.steps, c.nodes, c.nodeSeconds, c.retries, c.calls, c.callSeconds, c.tokens}
}

// Describe implements prometheus.Collector.
func (c *GraphCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, m := range c.all() {
		m.Describe(ch)
	}
}

// Collect implements prometheus.Collector.
func (c *GraphCollector) Collect(ch chan<- prometheus.Metric) {
	for _, m := range c.all() {
		m.Collect(ch)
	}
}

// Hooks returns h with a Span that counts, and then calls h.Span.
func (c *GraphCollector) Hooks(h pregel.Hooks) pregel.Hooks {
	own := h.Span
	h.Span = func(ctx context.Context, s pregel.Span) (context.Context, func(error)) {
		end := c.begin(s)
		if own == nil {
			return nil, end
		}
		inside, ownEnd := own(ctx, s)
		return inside, func(err error) {
			end(err)
			if ownEnd != nil {
				ownEnd(err)
			}
		}
	}
	return h
}

// begin counts the beginning of a span, and returns a function that counts its end.
func (c *GraphCollector) begin(s pregel.Span) func(error) {
	begin, graph := time.Now(), c.graphNames.of(s.Run.Graph)
	switch s.Kind {
	case pregel.SpanRun:
		active := c.running.WithLabelValues(graph)
		active.Inc()
		c.versions.WithLabelValues(graph, c.versionNames.of(s.Run.Version)).Inc()
		return func(err error) {
			active.Dec()
			c.runs.WithLabelValues(graph, outcomeOf(err)).Inc()
			c.runSeconds.WithLabelValues(graph).Observe(time.Since(begin).Seconds())
		}
	case pregel.SpanSuperstep:
		return func(error) { c.steps.WithLabelValues(graph).Inc() }
	case pregel.SpanTask:
		node := c.nodeNames.of(s.Task.Node)
		return func(err error) {
			c.nodes.WithLabelValues(graph, node, outcomeOf(err)).Inc()
			c.nodeSeconds.WithLabelValues(graph, node).Observe(time.Since(begin).Seconds())
		}
	case pregel.SpanAttempt:
		if s.Task.Attempt > 1 {
			c.retries.WithLabelValues(graph, c.nodeNames.of(s.Task.Node)).Inc()
		}
	}
	return func(error) {}
}

// outcomeOf names how something ended.
func outcomeOf(err error) string {
	var command *pregel.ParentCommandError
	switch {
	case err == nil, errors.As(err, &command):
		return "ok"
	case errors.Is(err, pregel.ErrInterrupted):
		return "interrupted"
	case errors.Is(err, pregel.ErrDrained):
		return "drained"
	case errors.Is(err, pregel.ErrConflict):
		return "conflict"
	case errors.Is(err, context.Canceled):
		return "cancelled"
	}
	return "failed"
}

// Model wraps m so that its calls and tokens are counted under a name. A call that is tried again
// counts each time. A call that its caller stops reading is cancelled.
func (c *GraphCollector) Model(name string, m model.Model) model.Model {
	return &countedModel{m, c, c.modelNames.of(name)}
}

type countedModel struct {
	model.Model
	c    *GraphCollector
	name string
}

// Profile implements model.Profiled.
func (m *countedModel) Profile() model.Profile { return model.ProfileOf(m.Model) }

// Stream implements model.Model.
func (m *countedModel) Stream(ctx context.Context, r model.Request) iter.Seq2[message.Chunk, error] {
	return func(yield func(message.Chunk, error) bool) {
		begin, outcome := time.Now(), "failed" // unless it is said otherwise: it may panic
		defer func() {
			m.c.calls.WithLabelValues(m.name, outcome).Inc()
			m.c.callSeconds.WithLabelValues(m.name).Observe(time.Since(begin).Seconds())
		}()
		var failure error
		for part, err := range m.Model.Stream(ctx, r) {
			if u := part.Usage; u != nil {
				m.count("input", u.InputTokens)
				m.count("output", u.OutputTokens)
			}
			failure = err
			if !yield(part, err) && err == nil {
				outcome = "cancelled"
				return
			}
		}
		outcome = outcomeOf(failure)
	}
}

// count counts tokens. What a provider reports may be wrong; a counter never falls.
func (m *countedModel) count(kind string, n int64) {
	m.c.tokens.WithLabelValues(m.name, kind).Add(float64(max(n, 0)))
}

// names bounds the values of a label. The zero value is ready for use.
type names struct {
	mu   sync.Mutex
	seen map[string]bool
}

// of is the label of a name: itself, or "other" if there are too many.
func (n *names) of(name string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.seen[name] {
		return name
	}
	if len(n.seen) == maxNames {
		return "other"
	}
	if n.seen == nil {
		n.seen = map[string]bool{}
	}
	n.seen[name] = true
	return name
}
