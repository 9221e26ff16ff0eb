package prometheus

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stele-go/stele/base/metrics"
	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/saver"
)

// QueueSource is a queue of runs whose metrics are collected. *runs.Local and *pgqueue.Queue implement
// it. Metrics is called concurrently, and may be called after the queue was closed.
type QueueSource interface {
	// Metrics says what the queue holds.
	Metrics(ctx context.Context) (metrics.Queue, error)
}

// queueTime is how long a scrape waits for a queue.
const queueTime = 5 * time.Second

// QueueCollector implements prometheus.Collector for a queue of runs, and for the attempts of the workers
// of this process that have its Begin. It is safe for concurrent use. What the queue holds is the same in
// every process on it: collect it in one, or take the maximum. Of graphs the first 200 names have series
// of their own; all others share the name "other". So it is with versions.
type QueueCollector struct {
	src          QueueSource
	graphs       names
	versions     names
	claims, lost *prometheus.CounterVec
}

var _ prometheus.Collector = (*QueueCollector)(nil)

var (
	queueReadable = prometheus.NewDesc("stele_queue_readable", "1 if the queue said what it holds, 0 if it could not.", nil, nil)
	queueRuns     = prometheus.NewDesc("stele_queue_runs", "Runs that have not ended, by graph and status.", []string{"graph", "status"}, nil)
	queueOldest   = prometheus.NewDesc("stele_queue_oldest_seconds",
		"How long the oldest run of a graph and status has been under way, or due.", []string{"graph", "status"}, nil)
	versionLabels = []string{"graph", "version"}
	versionRuns   = prometheus.NewDesc("stele_queue_version_runs", "Runs that have not ended, by graph and the version that they have.", versionLabels, nil)
	versionPinned = prometheus.NewDesc("stele_queue_version_pinned", "Of these, those that wait for a worker of the version.", versionLabels, nil)
	versionWorker = prometheus.NewDesc("stele_queue_version_workers", "Workers alive, by graph and version.", versionLabels, nil)
)

// NewQueueCollector returns a collector for src. With nil it only counts what its Begin sees.
func NewQueueCollector(src QueueSource) *QueueCollector {
	counter := func(name, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{"graph"})
	}
	return &QueueCollector{src: src,
		claims: counter("stele_queue_claims_total", "Runs that a worker of this process claimed and began an attempt at."),
		lost:   counter("stele_queue_lost_leases_total", "Of these attempts, those that ended because the claim, or the lease of the thread, was void."),
	}
}

// Begin is for runs.Worker.Begin, and that of a server: it counts attempts, and then calls next, if that
// is not nil.
func (c *QueueCollector) Begin(next func(context.Context, runs.Run) (context.Context, func(error))) func(context.Context,
	runs.Run) (context.Context, func(error)) {
	return func(ctx context.Context, r runs.Run) (context.Context, func(error)) {
		graph := c.graphs.of(r.Graph)
		c.claims.WithLabelValues(graph).Inc()
		inside, end := ctx, func(error) {}
		if next != nil {
			inside, end = next(ctx, r)
		}
		return inside, func(err error) {
			if void := errors.Is(context.Cause(ctx), runs.ErrFenced) || errors.Is(err, runs.ErrFenced) || errors.Is(err, saver.ErrFenced); void {
				c.lost.WithLabelValues(graph).Inc()
			}
			end(err)
		}
	}
}

// Describe implements prometheus.Collector.
func (c *QueueCollector) Describe(ch chan<- *prometheus.Desc) {
	c.claims.Describe(ch)
	c.lost.Describe(ch)
	for _, d := range []*prometheus.Desc{queueReadable, queueRuns, queueOldest, versionRuns, versionPinned, versionWorker} {
		ch <- d
	}
}

// Collect implements prometheus.Collector. Where the queue gives no answer within 5 seconds, the rest is
// collected.
func (c *QueueCollector) Collect(ch chan<- prometheus.Metric) {
	c.claims.Collect(ch)
	c.lost.Collect(ch)
	if c.src == nil {
		return
	}
	ctx, done := context.WithTimeout(context.Background(), queueTime)
	defer done()
	held, err := c.src.Metrics(ctx)
	ch <- prometheus.MustNewConstMetric(queueReadable, prometheus.GaugeValue, truth(err == nil))
	type series struct{ graph, status string }
	sums := map[series]metrics.QueueRuns{}
	for _, r := range held.Runs { // several graphs may be "other"
		s := series{c.graphs.of(r.Graph), r.Status}
		sum := sums[s]
		sum.Count += r.Count
		sum.Oldest = max(sum.Oldest, r.Oldest)
		sums[s] = sum
	}
	for s, sum := range sums {
		ch <- prometheus.MustNewConstMetric(queueRuns, prometheus.GaugeValue, float64(sum.Count), s.graph, s.status)
		ch <- prometheus.MustNewConstMetric(queueOldest, prometheus.GaugeValue, sum.Oldest.Seconds(), s.graph, s.status)
	}
	byVersion := map[[2]string]metrics.QueueVersion{}
	for _, v := range held.Versions {
		k := [2]string{c.graphs.of(v.Graph), c.versions.of(v.Version)}
		sum := byVersion[k]
		byVersion[k] = metrics.QueueVersion{Runs: sum.Runs + v.Runs, Pinned: sum.Pinned + v.Pinned, Workers: sum.Workers + v.Workers}
	}
	for k, v := range byVersion {
		for d, n := range map[*prometheus.Desc]int64{versionRuns: v.Runs, versionPinned: v.Pinned, versionWorker: v.Workers} {
			ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n), k[0], k[1])
		}
	}
}

// DatabaseSource is a program's pool of connections. *postgres.Saver implements it. Metrics is called
// concurrently, and may be called after it was closed.
type DatabaseSource interface {
	// Metrics are those of the pool. They ask no server.
	Metrics() metrics.Database
}

// DatabaseCollector implements prometheus.Collector for a pool of connections to PostgreSQL. It is safe
// for concurrent use.
type DatabaseCollector struct{ src DatabaseSource }

var _ prometheus.Collector = (*DatabaseCollector)(nil)

// NewDatabaseCollector returns a collector for src.
func NewDatabaseCollector(src DatabaseSource) *DatabaseCollector { return &DatabaseCollector{src} }

var (
	poolConnections = prometheus.NewDesc("stele_postgres_connections", "Connections of the pool, by state.", []string{"state"}, nil)
	poolMost        = prometheus.NewDesc("stele_postgres_connections_limit", "How many connections the pool may have.", nil, nil)
	poolAcquired    = prometheus.NewDesc("stele_postgres_acquires_total", "How often a call was given a connection.", nil, nil)
	poolWaited      = prometheus.NewDesc("stele_postgres_acquires_waited_total", "How often none was idle.", nil, nil)
	poolGivenUp     = prometheus.NewDesc("stele_postgres_acquires_cancelled_total", "How often the caller's context ended before there was one.", nil, nil)
	poolWait        = prometheus.NewDesc("stele_postgres_acquire_wait_seconds_total", "How long calls waited for a connection, together.", nil, nil)
	poolFailures    = prometheus.NewDesc("stele_postgres_errors_total",
		"Statements and transactions that failed, each try on its own, by reason.", []string{"reason"}, nil)
)

// Describe implements prometheus.Collector.
func (c *DatabaseCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{poolConnections, poolMost, poolAcquired, poolWaited, poolGivenUp, poolWait, poolFailures} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *DatabaseCollector) Collect(ch chan<- prometheus.Metric) {
	m := c.src.Metrics()
	gauge := func(d *prometheus.Desc, v int64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v), labels...)
	}
	counter := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
	}
	gauge(poolConnections, m.Used, "used")
	gauge(poolConnections, m.Idle, "idle")
	gauge(poolConnections, m.Connecting, "connecting")
	gauge(poolMost, m.Max)
	counter(poolAcquired, float64(m.Acquired))
	counter(poolWaited, float64(m.Waited))
	counter(poolGivenUp, float64(m.GivenUp))
	counter(poolWait, m.Wait.Seconds())
	for i, reason := range metrics.FailureNames {
		counter(poolFailures, float64(m.Failures[i]), reason)
	}
}
