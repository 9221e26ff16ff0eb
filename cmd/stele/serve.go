package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/store"
	"github.com/stele-go/stele/wire/server"
)

// tokenVariable is the environment variable that has the token, unless --token-file is given.
const tokenVariable = "STELE_TOKEN"

// serveFlags say how to serve, as they are typed.
type serveFlags struct {
	listen, tokenFile, cert, key, log, sync, metrics, postgres string
	idle, idleExit, grace                                      time.Duration
	ttl                                                        time.Duration
}

func (a *app) serveCmd() *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use: "serve DIR", Short: "Serve a store to programs in Python, JavaScript and Go",
		Long: `Serve the store in DIR, which is made if it is missing, to other processes: to LangGraph in
Python and JavaScript, and to Go programs. It opens the store for writing, so there is one
server for a directory. Clients on this machine find it by DIR, and connect by a unix socket
there; who may not read DIR may not connect.

When it is ready it prints one line, "ready ADDRESS". SIGTERM or SIGINT ends it: calls that
have begun are finished and answered. Killed, it loses nothing that it acknowledged.`,
		Example: `  stele serve store
  STELE_TOKEN=… stele serve store --listen tls::7171 --tls-cert cert.pem --tls-key key.pem`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: dirArg,
		RunE: func(cmd *cobra.Command, args []string) error { return a.serve(cmd.Context(), args[0], &f) },
	}
	p := cmd.Flags()
	p.StringVar(&f.listen, "listen", "", `address to listen at instead of the directory: unix:PATH, tcp:HOST:PORT or tls:HOST:PORT`)
	p.StringVar(&f.tokenFile, "token-file", "", "file with the token that clients send (default: the variable "+tokenVariable+"); for tcp and tls")
	p.StringVar(&f.cert, "tls-cert", "", "file with the certificate, PEM; for tls")
	p.StringVar(&f.key, "tls-key", "", "file with the key of the certificate, PEM; for tls")
	p.DurationVar(&f.idle, "idle", time.Hour, "close connections that were not used for this long")
	p.DurationVar(&f.idleExit, "idle-exit", 0, "end when no connection has been open for this long (default: never)")
	p.DurationVar(&f.grace, "grace", 10*time.Second, "time for calls in progress when the server is told to end")
	p.StringVar(&f.log, "log", "warn", "what to log to stderr: error, warn, info, debug, access (every call)")
	p.StringVar(&f.sync, "sync", "always", "when calls are durable: always, interval (within a second), never (when the system writes it)")
	p.DurationVar(&f.ttl, "ttl", 0, "delete threads that were not written to for this long (default: never)")
	return cmd
}

var logLevels = map[string]slog.Level{"error": slog.LevelError, "warn": slog.LevelWarn, "info": slog.LevelInfo, "debug": slog.LevelDebug, "access": server.LevelAccess}

var syncModes = map[string]disk.SyncMode{"always": disk.SyncAlways, "interval": disk.SyncInterval, "never": disk.SyncNever}

// serve is the whole life of a server: it has the lock of the store before it touches a file
// by which clients find it, and until it has removed them.
func (a *app) serve(ctx context.Context, dir string, f *serveFlags) (err error) {
	level, ok := logLevels[f.log]
	if !ok {
		return fmt.Errorf("--log %q: use error, warn, info, debug or access", f.log)
	}
	log := slog.New(slog.NewTextHandler(a.err, &slog.HandlerOptions{Level: level}))
	o, err := a.serveOptions(f, log)
	if err != nil {
		return err
	}
	d, err := disk.Open(dir, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	items, err := store.On(d, store.Options{SweepEvery: 5 * time.Minute, Logger: log})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, items.Close()) }()
	at, err := f.endpoint(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, at.Close()) }()
	s := server.New(server.Options{Saver: d, Items: items, Store: "disk", Version: moduleVersion(), Token: at.Token, Idle: f.idle, IdleExit: f.idleExit, Grace: f.grace, Logger: log})
	if _, err := fmt.Fprintf(a.out, "ready %s\n", at.Address); err != nil {
		return err
	}
	return serveResult(s.Serve(ctx, at.Listener), log)
}

// serveResult is nil for the ends that are as they should be.
func serveResult(err error, log *slog.Logger) error {
	if errors.Is(err, server.ErrIdle) {
		log.Info("end", "reason", err)
		return nil
	}
	return err
}

func moduleVersion() string {
	info, _ := debug.ReadBuildInfo() // nil without
	return buildOf(info).Version
}

func (a *app) serveOptions(f *serveFlags, log *slog.Logger) (disk.Options, error) {
	access, err := a.flags.access()
	if err != nil {
		return disk.Options{}, err
	}
	o := access.Options
	o.CacheBytes, o.Logger, o.DefaultTTL = 0, log, f.ttl
	o.Sync, err = choose("sync", f.sync, syncModes)
	return o, err
}

func choose[T any](flag, value string, of map[string]T) (T, error) {
	v, ok := of[value]
	if !ok {
		var names []string
		for name := range of {
			names = append(names, name)
		}
		return v, fmt.Errorf("--%s %q: use one of %s", flag, value, strings.Join(names, ", "))
	}
	return v, nil
}

// endpoint listens where the flags say.
func (f *serveFlags) endpoint(dir string) (*server.Endpoint, error) {
	if f.listen == "" {
		return server.ListenDir(dir)
	}
	return nil, errors.New("--listen is not there yet")
}

var _ = []any{io.EOF, net.ErrClosed, os.Args, filepath.Join}
