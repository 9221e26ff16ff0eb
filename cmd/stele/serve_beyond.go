package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/pflag"

	"github.com/stele-go/stele/base/metrics"
	steleprom "github.com/stele-go/stele/ops/prometheus"
	"github.com/stele-go/stele/postgres"
	"github.com/stele-go/stele/postgres/pgstore"
	"github.com/stele-go/stele/store"
)

// serveBeyond are the flags of serve for a database in place of a directory, and for metrics.
type serveBeyond struct {
	metrics, postgres, schema string
	setup                     bool
}

func (f *serveBeyond) register(p *pflag.FlagSet) {
	p.StringVar(&f.metrics, "metrics", "", "HOST:PORT for Prometheus (/metrics) and health checks (/healthz)")
	p.StringVar(&f.postgres, "postgres", "", "serve the saver and the store of this database, a connection string, instead of a directory; --listen is needed")
	p.StringVar(&f.schema, "schema", "", "schema that has the tables (default: the first of the search path); for --postgres")
	p.BoolVar(&f.setup, "setup", false, "make the tables of the saver and the store first; for --postgres")
}

// open opens the database of --postgres; nil without.
func (f *serveBeyond) open(ctx context.Context, dir string, sf *serveFlags, log *slog.Logger) (*servedStore, error) {
	if f.postgres == "" {
		return nil, nil
	}
	if dir != "" {
		return nil, errors.New("--postgres: a directory is given, too")
	}
	o := postgres.Options{Schema: f.schema, DefaultTTL: sf.ttl}
	if f.setup {
		if err := errors.Join(postgres.Setup(ctx, f.postgres, o), pgstore.Setup(ctx, f.postgres, o, nil)); err != nil {
			return nil, err
		}
	}
	s, err := postgres.Open(ctx, f.postgres, o)
	if err != nil {
		return nil, err
	}
	st := &servedStore{saver: s, kind: "postgres", close: s.Close}
	items, err := pgstore.Open(ctx, f.postgres, o, store.Options{SweepEvery: itemSweep, Logger: log})
	switch {
	case errors.Is(err, postgres.ErrNotSetUp):
		log.Warn("the database has no long-term store", "error", err)
		return st, nil
	case err != nil:
		return nil, errors.Join(err, s.Close())
	}
	st.items, st.close = items, func() error { return errors.Join(items.Close(), s.Close()) }
	return st, nil
}

// observe serves metrics and health, if they are asked for, until the function that it
// returns is called.
func (f *serveBeyond) observe(st *servedStore, log *slog.Logger) (func(), error) {
	if f.metrics == "" {
		return func() {}, nil
	}
	if st.disk == nil {
		return nil, fmt.Errorf("--metrics: there are none of a %s store", st.kind)
	}
	reg := prometheus.NewRegistry()
	reg.MustRegister(steleprom.NewCollector(st.disk), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), collectors.NewGoCollector())
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{}))
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) {
		h := st.disk.Health()
		if h.Status == metrics.StatusFailed {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = fmt.Fprintln(w, h.Status) // whoever asked is gone
	})
	l, err := net.Listen("tcp", f.metrics)
	if err != nil {
		return nil, fmt.Errorf("%w; --metrics names another address", err)
	}
	log.Info("metrics", "address", l.Addr().String())
	hs := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		if err := hs.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			log.Error("metrics", "error", err)
		}
	}()
	return func() { _ = hs.Close() }, nil // nothing is lost with it
}
