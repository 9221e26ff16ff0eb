package prometheus

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/stele-go/stele/base/metrics"
)

var (
	healthDesc = prometheus.NewDesc("stele_health",
		"The verdict of Saver.Health: 1 for the status the store has, 0 for the others.", []string{"status"}, nil)
	troubleDesc = prometheus.NewDesc("stele_trouble",
		"1 for each kind of problem that Saver.Health reports, 0 for those it does not.", []string{"kind"}, nil)
)

func collectHealth(ch chan<- prometheus.Metric, h metrics.Health) {
	for _, s := range []metrics.Status{metrics.StatusOK, metrics.StatusDegraded, metrics.StatusFailed} {
		ch <- prometheus.MustNewConstMetric(healthDesc, prometheus.GaugeValue, truth(h.Status == s), s.String())
	}
	have := map[metrics.Trouble]bool{}
	for _, p := range h.Problems {
		have[p.Kind] = true
	}
	for _, kind := range metrics.Troubles() {
		ch <- prometheus.MustNewConstMetric(troubleDesc, prometheus.GaugeValue, truth(have[kind]), string(kind))
	}
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
