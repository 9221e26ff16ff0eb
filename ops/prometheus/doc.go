// Package prometheus shows what a stele store, and graphs on it, do to Prometheus.
//
//	reg := prometheus.NewRegistry()
//	reg.MustRegister(steleprom.NewCollector(disk), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
//	http.Handle("/metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{}))
//
// A GraphCollector counts runs, supersteps, nodes, and calls and tokens of models, a QueueCollector what
// a queue of runs holds and what workers claim, and a DatabaseCollector the pool of a saver on PostgreSQL.
//
// A scrape reads counters in memory, the free space of the device, and, of a queue on PostgreSQL, a bounded
// number of rows. No metric has a
// label whose values grow with the data: none by thread, run, or namespace.
//
// The directory also has dashboard.json, for Grafana, and alerts.yml, for Prometheus. Both need
// the process collector for the memory of the process. In the main module, docs/metrics.md
// lists the metrics, and docs/operations.md says what to do about an alert.
package prometheus
