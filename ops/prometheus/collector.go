package prometheus

import (
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stele-go/stele/base/metrics"
)

// Source is a store whose metrics are collected. *disk.Saver implements it. The methods are
// called concurrently, and may be called after the store was closed.
type Source interface {
	// Stats says what the store holds.
	Stats() metrics.Stats
	// Metrics are its counters.
	Metrics() metrics.Metrics
	// Health is its state.
	Health() metrics.Health
}

// Collector implements prometheus.Collector for one store. It is safe for concurrent
// use. For several stores in one process register each with
// prometheus.WrapRegistererWith and a label of your own that tells them apart.
type Collector struct{ src Source }

var _ prometheus.Collector = (*Collector)(nil)

// NewCollector returns a collector for src.
func NewCollector(src Source) *Collector { return &Collector{src} }

// Describe implements prometheus.Collector.
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	for i := range numbers {
		ch <- numbers[i].desc
	}
	for i := range histograms {
		ch <- histograms[i].desc
	}
	ch <- healthDesc
	ch <- troubleDesc
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	s := &sample{stats: c.src.Stats(), metrics: c.src.Metrics(), health: c.src.Health()}
	for i := range numbers {
		n := &numbers[i]
		if v, known := n.value(s); known {
			ch <- prometheus.MustNewConstMetric(n.desc, n.kind, v, n.labels...)
		}
	}
	for i := range histograms {
		h := &histograms[i]
		count, sum, buckets := h.read(s)
		ch <- prometheus.MustNewConstHistogram(h.desc, count, sum, buckets, h.labels...)
	}
	collectHealth(ch, s.health)
}

// sample is what one scrape reads from a store.
type sample struct {
	stats   metrics.Stats
	metrics metrics.Metrics
	health  metrics.Health
}

// number is a counter or a gauge.
type number struct {
	desc   *prometheus.Desc
	kind   prometheus.ValueType
	labels []string
	// value is false if the number is not known now.
	value func(*sample) (float64, bool)
}

// histogram is a distribution.
type histogram struct {
	desc   *prometheus.Desc
	labels []string
	read   func(*sample) (count uint64, sum float64, buckets map[float64]uint64)
}

// latencies is the distribution of h in seconds.
func latencies(h metrics.Histogram) (count uint64, sum float64, buckets map[float64]uint64) {
	bounds := metrics.LatencyBounds()
	buckets = make(map[float64]uint64, len(bounds))
	for i, n := range h.Counts {
		count += n
		if i < len(bounds) {
			buckets[bounds[i].Seconds()] = count
		}
	}
	return count, h.Sum.Seconds(), buckets
}

// doubling is a distribution over buckets whose bounds double, beginning with least. If open is
// set, the last bucket has no bound.
func doubling(counts []int64, least float64, open bool) (count uint64, buckets map[float64]uint64) {
	buckets = make(map[float64]uint64, len(counts))
	for i, n := range counts {
		count += uint64(n)
		if i < len(counts)-1 || !open {
			buckets[math.Ldexp(least, i)] = count
		}
	}
	return count, buckets
}

const microsecond = float64(time.Microsecond) / float64(time.Second)
