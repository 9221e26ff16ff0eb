package main

import (
	"encoding/json"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/stele-go/stele/base/metrics"
	steleprom "github.com/stele-go/stele/ops/prometheus"
	"github.com/stele-go/stele/saver/disk"
)

// handler serves the metrics of d and of graphs, and the health of d.
func handler(d *disk.Saver, graphs *steleprom.GraphCollector) http.Handler {
	reg := prometheus.NewRegistry()
	reg.MustRegister(steleprom.NewCollector(d), graphs,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { healthz(w, d.Health()) })
	return mux
}

// healthz answers 503 if writes are refused. Degraded is 200: taking the process out
// of service would help nobody.
func healthz(w http.ResponseWriter, h metrics.Health) {
	w.Header().Set("Content-Type", "application/json")
	if h.Status == metrics.StatusFailed {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	_ = enc.Encode(h) // the client is gone
}
