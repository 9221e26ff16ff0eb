package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/server"
	"github.com/stele-go/stele/server/studio"
	"github.com/stele-go/stele/store"
)

// studioFlags are the flags of stele studio.
type studioFlags struct {
	listen, backup, prices string
	hosts                  []string
	write, demo            bool
	credentials
}

// studioCmd serves Studio: for a store, for a server of LangGraph's API, or for an agent to try it with.
func (a *app) studioCmd() *cobra.Command {
	var f studioFlags
	cmd := &cobra.Command{
		Use: "studio [DIR | URL]", Short: "Show threads in a browser: those of a store, or of a LangGraph server",
		Long: `Show threads in a browser, until a signal ends it: those of the store in DIR, or of the LangGraph server at URL.

A store is read, also beside its writer, and followed as it changes; with --write nobody else may have it open,
and threads and items can be deleted, copied and edited, and with --backup the store backed up. To run graphs, and to answer their questions, a
program that has them must serve them: see package server. With --demo it begins with an agent and threads of its own, which end with it.
The page loads nothing from elsewhere. It has no login: it answers on loopback, under the names of this machine
and those of --host.`,
		Args: func(_ *cobra.Command, args []string) error {
			if f.backup != "" && !f.write {
				return errors.New("--backup: a store is backed up from the page with --write; beside its writer use stele backup")
			}
			if want := 1; f.demo {
				want = 0
				if len(args) != want {
					return errors.New("--demo takes no store and no server")
				}
			} else if len(args) != want {
				return errors.New("name the directory of a store, or the URL of a server; or try --demo")
			}
			return nil
		},
		ValidArgsFunction: dirArg,
		RunE: func(cmd *cobra.Command, args []string) error {
			prices, err := readPrices(f.prices)
			if err != nil {
				return err
			}
			api, end, err := a.studioAPI(cmd.Context(), f, args)
			if err != nil {
				return err
			}
			err = a.serveStudio(cmd.Context(), f.listen, studio.New(api, studio.Options{Hosts: f.hosts, Prices: prices}))
			return errors.Join(err, end())
		},
	}
	p := cmd.Flags()
	p.StringVar(&f.listen, "listen", "localhost:2025", "address to answer on")
	p.StringSliceVar(&f.hosts, "host", nil, "further names under which the page may be asked for")
	f.register(cmd)
	p.BoolVar(&f.write, "write", false, "open the store for writing")
	p.StringVar(&f.backup, "backup", "", "directory to which the page may back up the store; with --write")
	p.StringVar(&f.prices, "prices", "", "file of JSON with the prices of models, to show money beside tokens")
	p.BoolVar(&f.demo, "demo", false, "begin with an agent to try")
	return cmd
}

// readPrices reads a file of prices; nil if none is named.
func readPrices(file string) (*studio.Prices, error) {
	if file == "" {
		return nil, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var prices studio.Prices
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&prices); err != nil {
		return nil, fmt.Errorf("--prices: %s: %w", file, err)
	}
	if prices.Currency == "" || len(prices.Models) == 0 {
		return nil, fmt.Errorf(`--prices: %s: want {"currency": "USD", "models": {"NAME": {"input": 3, "output": 15}}}, of a million tokens`, file)
	}
	return &prices, nil
}

// studioAPI returns the handler that the page calls, and a function that closes it.
func (a *app) studioAPI(ctx context.Context, f studioFlags, args []string) (http.Handler, func() error, error) {
	none := func() error { return nil }
	switch {
	case f.demo:
		return demo(ctx)
	case strings.Contains(args[0], "://"):
		to, err := url.Parse(args[0])
		if err != nil || to.Host == "" || to.Scheme != "http" && to.Scheme != "https" {
			return nil, nil, fmt.Errorf("%q is not the URL of a server, such as http://localhost:2024", args[0])
		}
		if err := reach(ctx, args[0]); err != nil && ctx.Err() == nil {
			fmt.Fprintf(a.err, "stele: %v; the page shows threads as soon as a server does\n", err)
		}
		return studio.Remote(to, f.header()), none, nil
	case f.write:
		access, err := a.flags.access()
		if err != nil {
			return nil, nil, err
		}
		if _, err := os.Stat(args[0]); err != nil {
			return nil, nil, err // Open would make a store
		}
		d, err := disk.Open(args[0], access.Options)
		if err != nil {
			return nil, nil, err
		}
		return serveStore(ctx, d, func(c *server.Config) { c.BackupDir = f.backup })
	}
	v := &view{dir: args[0], open: func() (http.Handler, func() error, error) {
		d, err := a.flags.open(args[0])
		if err != nil {
			return nil, nil, err
		}
		return serveStore(ctx, d, func(c *server.Config) { c.ReadOnly = true })
	}}
	if err := v.refresh(); err != nil {
		return nil, nil, err
	}
	return v, v.close, nil
}

// serveStore is the API of a store, without graphs unless change adds some. The function it
// returns closes the store too.
func serveStore(ctx context.Context, d *disk.Saver, change func(*server.Config)) (http.Handler, func() error, error) {
	items, err := store.On(d, store.Options{})
	if err != nil {
		return nil, nil, errors.Join(err, d.Close())
	}
	end := func() error { return errors.Join(items.Close(), d.Close()) }
	queue, err := runs.NewLocal(ctx, items, runs.LocalOptions{})
	if err != nil {
		return nil, nil, errors.Join(err, end())
	}
	cfg := server.Config{Graphs: map[string]*pregel.Graph{}, Saver: d, Store: items, Queue: queue, Auth: server.NoAuth(), Logger: slog.New(slog.DiscardHandler)}
	if change != nil {
		change(&cfg)
	}
	api, err := server.New(cfg)
	if err != nil {
		return nil, nil, errors.Join(err, end())
	}
	return api, func() error { return errors.Join(api.Close(), end()) }, nil
}

// serveStudio serves until ctx ends. What is under way has a moment to end; streams are cut.
func (a *app) serveStudio(ctx context.Context, listen string, h http.Handler) error {
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return fmt.Errorf("%w; --listen names another address for the page, such as localhost:2026", err)
	}
	s := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	fmt.Fprintf(a.out, "studio at http://%s\n", l.Addr())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 300*time.Millisecond)
	defer cancel()
	if err := s.Shutdown(last); err != nil {
		_ = s.Close()
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
