// Command metrics runs a small agent repeatedly on a durable saver, and serves the metrics of both,
// and the health of the saver:
//
//	go run ./examples/metrics -listen localhost:9464
//	curl localhost:9464/metrics
//	curl localhost:9464/healthz
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"time"

	steleprom "github.com/stele-go/stele/ops/prometheus"
	"github.com/stele-go/stele/saver/disk"
)

func main() {
	listen := flag.String("listen", "localhost:9464", "address to serve on")
	dir := flag.String("dir", "", "store to open or create; none: one that is removed at the end")
	every := flag.Duration("every", 50*time.Millisecond, "time between two runs of the graph")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *listen, *dir, *every, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run serves until ctx ends.
func run(ctx context.Context, listen, dir string, every time.Duration, out io.Writer) (err error) {
	if every <= 0 {
		return fmt.Errorf("-every %v: a run needs some time", every)
	}
	if dir == "" {
		if dir, err = os.MkdirTemp("", "stele-metrics-"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	}
	d, err := disk.Open(dir, disk.Options{Logger: slog.New(slog.NewTextHandler(out, nil))})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return fmt.Errorf("%w; -listen names another address", err)
	}
	fmt.Fprintf(out, "serving http://%s/metrics and /healthz of %s\n", l.Addr(), dir)
	graphs := steleprom.NewGraphCollector()
	srv := &http.Server{Handler: handler(d, graphs), ReadHeaderTimeout: 5 * time.Second}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	err = work(ctx, d, graphs, every)
	if serr := <-closed(srv, served); !errors.Is(serr, http.ErrServerClosed) {
		err = errors.Join(err, serr)
	}
	return err
}

// closed ends srv, and returns served.
func closed(srv *http.Server, served chan error) chan error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := srv.Shutdown(ctx); err != nil {
		_ = srv.Close()
	}
	return served
}
