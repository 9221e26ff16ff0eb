package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/replica"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/store"
	"github.com/stele-go/stele/wire/server"
)

// tokenVariable is the environment variable that has the token, unless --token-file is given.
const tokenVariable = "STELE_TOKEN"

// itemSweep is how often expired items of the long-term store are removed.
const itemSweep = 5 * time.Minute

// serveFlags say how to serve, as they are typed.
type serveFlags struct {
	listen, tokenFile, cert, key, log, sync, replicaMode string
	idle, idleExit, grace, ttl                           time.Duration
	replica                                              disk.Replica // its times
	follow, takeOver, acceptLoss                         bool
	beyond                                               serveBeyond
}

func (a *app) serveCmd() *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use: "serve DIR", Short: "Serve a store to programs in Python, JavaScript and Go",
		Long: `Serve the store in DIR, which is made if it is missing, to other processes: to LangGraph in
Python and JavaScript, and to Go programs. It opens the store for writing, so there is one
server for a directory. Clients on this machine find it by DIR, and connect by a unix socket
there: who may not read DIR may not connect.

When it is ready it prints one line, "ready ADDRESS". SIGTERM or SIGINT ends it: calls that
have begun are finished and answered. Killed, it loses nothing that it acknowledged.`,
		Example: `  stele serve store
  stele serve store --listen tls::7171 --token-file token --tls-cert cert.pem --tls-key key.pem
  stele serve cache --replica s3://agents/prod --follow
  stele serve store --replica s3://agents/prod --replica-mode sync --take-over`,
		Args: cobra.MaximumNArgs(1), ValidArgsFunction: dirArg,
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := ""
			if len(args) > 0 {
				dir = args[0]
			}
			if err := a.checkReplicaFlags(cmd, &f); err != nil {
				return err
			}
			return a.serve(cmd.Context(), dir, &f)
		},
	}
	p := cmd.Flags()
	p.StringVar(&f.listen, "listen", "", "where to listen instead of in DIR: unix:PATH, tcp:HOST:PORT or tls:HOST:PORT")
	p.StringVar(&f.tokenFile, "token-file", "", "file with the token that clients send (default: the variable "+tokenVariable+"); tcp and tls need one")
	p.StringVar(&f.cert, "tls-cert", "", "file with the certificate for tls, PEM")
	p.StringVar(&f.key, "tls-key", "", "file with the key of the certificate, PEM")
	p.DurationVar(&f.idle, "idle", time.Hour, "close connections that were not used for this long")
	p.DurationVar(&f.idleExit, "idle-exit", 0, "end when no connection was open for this long (default: never)")
	p.DurationVar(&f.grace, "grace", 10*time.Second, "time for calls that have begun when the server is told to end")
	p.StringVar(&f.log, "log", "warn", "what to log to stderr: error, warn, info, debug, or access, which is every call")
	p.StringVar(&f.sync, "sync", "always", "when a call is durable: always, interval (within a second), or never (when the system writes it)")
	p.DurationVar(&f.ttl, "ttl", 0, "delete threads that were not written to for this long (default: never)")
	p.StringVar(&f.replicaMode, "replica-mode", "async", "when a call is acknowledged with --replica: async, which the bucket follows within about a second; bounded, which waits while it is further behind than 10 s; or sync, when the bucket has it")
	p.DurationVar(&f.replica.Interval, "replica-interval", 0, "least time between two uploads in the modes async and bounded (default: 1s)")
	p.DurationVar(&f.replica.MaxLag, "replica-max-lag", 0, "how far behind the bucket may be in mode bounded before calls wait (default: 10s)")
	p.DurationVar(&f.replica.TTL, "replica-ttl", 0, "how long the leader's beat must stand still before another machine takes over, the same on all (default: 15s)")
	p.DurationVar(&f.replica.Keep, "replica-keep", 0, "for how long any moment can be restored from the bucket; each start says it anew (default: 168h)")
	p.BoolVar(&f.follow, "follow", false, "serve reads alone, of what the leader of the store keeps in the bucket of --replica, about a second behind it; DIR is made of the bucket")
	p.BoolVar(&f.takeOver, "take-over", false, "on each of several machines: lead, if nobody does, and else serve reads alone, as --follow does, until the leader is lost, and then take over")
	p.BoolVar(&f.acceptLoss, "accept-loss", false, "with --take-over, or in the directory of a follower: take over from a leader that is lost, though it may have acknowledged what the bucket of --replica lacks")
	f.beyond.register(p)
	return cmd
}

var (
	logLevels = map[string]slog.Level{"error": slog.LevelError, "warn": slog.LevelWarn, "info": slog.LevelInfo, "debug": slog.LevelDebug,
		"access": server.LevelAccess}
	replicaModes = map[string]replica.Mode{"async": replica.Async, "bounded": replica.Bounded, "sync": replica.Sync}
	syncModes    = map[string]disk.SyncMode{"always": disk.SyncAlways, "interval": disk.SyncInterval, "never": disk.SyncNever}
)

// choose is the meaning of a flag that has one of a few values.
func choose[T any](flag, value string, of map[string]T) (T, error) {
	v, ok := of[value]
	if !ok {
		var names []string
		for name := range of {
			names = append(names, name)
		}
		slices.Sort(names)
		return v, fmt.Errorf("--%s %q: use %s", flag, value, strings.Join(names, ", "))
	}
	return v, nil
}

// servedStore is a store that is open to be served.
type servedStore struct {
	saver saver.Saver
	disk  *disk.Saver // nil if it is another one
	items store.Store
	kind  string
	id    string // of the store
	alive func() error
	close func() error
}

// serve is the life of a server. It has the lock of the store before it touches a file by
// which clients find it, and until these files are gone.
func (a *app) serve(ctx context.Context, dir string, f *serveFlags) (err error) {
	signal.Ignore(syscall.SIGPIPE) // whoever started it, and read its output, may be gone
	level, err := choose("log", f.log, logLevels)
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(a.err, &slog.HandlerOptions{Level: level}))
	token, err := f.token()
	if err != nil {
		return err
	}
	if !f.takeOver {
		st, err := a.openServed(ctx, dir, f, log)
		if err != nil {
			return err
		}
		return a.serveStore(ctx, dir, st, f, token, log, a.out)
	}
	if dir == "" || f.follow {
		return errors.New("--take-over: it is for a directory, and without --follow")
	}
	o, err := a.servedOptions(f, log)
	if err != nil {
		return err
	}
	if o.Replica.Bucket == nil {
		return errors.New("--take-over: --replica is missing: name the bucket that the machines share")
	}
	ready := a.out
	return disk.LeadOrFollow(ctx, dir, o, func(ctx context.Context, d *disk.Saver) error {
		st, err := onDisk(dir, d, log)
		if err != nil {
			return err
		}
		tell := ready
		ready = io.Discard // whoever started it reads one line
		return a.serveStore(ctx, dir, st, f, token, log, tell)
	})
}

// serveStore serves a store until ctx ends, and closes it. It tells ready when clients may come.
func (a *app) serveStore(ctx context.Context, dir string, st *servedStore, f *serveFlags, token string, log *slog.Logger, ready io.Writer) (err error) {
	defer func() { err = errors.Join(err, st.close()) }()
	at, err := f.endpoint(dir, token)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, at.Close()) }()
	stop, err := f.beyond.observe(st, log)
	if err != nil {
		return err
	}
	defer stop()
	info, _ := debug.ReadBuildInfo() // nil without
	s := server.New(server.Options{
		Saver: st.saver, Items: st.items, Store: st.kind, StoreID: st.id, Version: buildOf(info).Version, Token: at.Token, Alive: st.alive, Stats: st.figures(),
		Idle: f.idle, IdleExit: f.idleExit, Grace: f.grace, Logger: log,
	})
	if _, err := fmt.Fprintf(ready, "ready %s\n", at.Address); err != nil {
		return err
	}
	if err := s.Serve(ctx, at.Listener); !errors.Is(err, server.ErrIdle) {
		return err
	}
	log.Info("end", "reason", server.ErrIdle)
	return nil
}

// token returns the token that clients must send; "" if there is none.
func (f *serveFlags) token() (string, error) {
	if f.tokenFile == "" {
		return strings.TrimSpace(os.Getenv(tokenVariable)), nil
	}
	b, err := os.ReadFile(f.tokenFile)
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(string(b))
	if token == "" {
		return "", fmt.Errorf("--token-file %s: it is empty", f.tokenFile)
	}
	return token, nil
}

func (a *app) openServed(ctx context.Context, dir string, f *serveFlags, log *slog.Logger) (*servedStore, error) {
	if st, err := f.beyond.open(ctx, dir, f, log); st != nil || err != nil {
		return st, err
	}
	if dir == "" {
		return nil, errors.New("no directory is given")
	}
	o, err := a.servedOptions(f, log)
	if err != nil {
		return nil, err
	}
	open := disk.Open
	if f.follow {
		if o.Replica.Bucket == nil {
			return nil, errors.New("--follow: --replica is missing: name the bucket of the leader")
		}
		open = disk.OpenFollower
	}
	d, err := open(dir, o)
	if err != nil {
		return nil, err
	}
	return onDisk(dir, d, log)
}

// checkReplicaFlags refuses flags that say something about a bucket and would do nothing.
func (a *app) checkReplicaFlags(cmd *cobra.Command, f *serveFlags) error {
	follows := f.follow || f.takeOver
	for _, flag := range []struct {
		name  string
		value time.Duration
		idle  bool
		where string
	}{
		{"replica-interval", f.replica.Interval, f.replicaMode == string(replica.Sync) && !follows, "in mode sync, but with --follow and --take-over"},
		{"replica-max-lag", f.replica.MaxLag, f.replicaMode != string(replica.Bounded), "but in mode bounded"},
		{"replica-ttl", f.replica.TTL, false, ""},
		{"replica-keep", f.replica.Keep, false, ""},
	} {
		switch {
		case !cmd.Flags().Changed(flag.name):
		case a.flags.replica == "":
			return fmt.Errorf("--%s: --replica is missing: name the bucket", flag.name)
		case flag.value <= 0:
			return fmt.Errorf("--%s %v: it must be more than 0", flag.name, flag.value)
		case flag.idle:
			return fmt.Errorf("--%s does nothing %s", flag.name, flag.where)
		}
	}
	return nil
}

// servedOptions are those of a store in a directory.
func (a *app) servedOptions(f *serveFlags, log *slog.Logger) (o disk.Options, err error) {
	access, err := a.flags.access()
	if err != nil {
		return o, err
	}
	o = access.Options
	o.CacheBytes, o.Logger, o.DefaultTTL = 0, log, f.ttl // the cache is the store's own
	if o.Sync, err = choose("sync", f.sync, syncModes); err != nil {
		return o, err
	}
	times := f.replica
	times.Bucket, times.AcceptLoss = o.Replica.Bucket, f.acceptLoss
	times.Mode, err = choose("replica-mode", f.replicaMode, replicaModes)
	o.Replica = times
	return o, err
}

// onDisk is an open store in a directory, which it closes if it fails.
func onDisk(dir string, d *disk.Saver, log *slog.Logger) (*servedStore, error) {
	items, err := store.On(d, store.Options{SweepEvery: itemSweep, Logger: log})
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	place, err := inPlace(dir, os.Stat, log)
	if err != nil {
		return nil, errors.Join(err, items.Close(), d.Close())
	}
	alive := func() error { // started again, a follower is made anew, and a leader that was deposed follows
		select {
		case <-d.Fenced():
			return fault.ErrFenced
		default:
			return errors.Join(place(), d.Following())
		}
	}
	return &servedStore{saver: d, disk: d, items: items, kind: "disk", id: fmt.Sprintf("%016x", d.Inside().Engine.StoreID()), alive: alive,
		close: func() error { return errors.Join(items.Close(), d.Close()) }}, nil
}

// unclearTime is how long it may be unknown whether the store is in its directory.
const unclearTime = 10 * time.Second

// inPlace returns a function that fails when the store is no longer in its directory, or when stat has
// not been able to say for unclearTime: a network's file system fails now and then.
func inPlace(dir string, stat func(string) (os.FileInfo, error), log *slog.Logger) (func() error, error) {
	lock := filepath.Join(dir, lockName)
	was, err := stat(lock)
	var mu sync.Mutex
	var unclear time.Time // since when; zero if it is clear
	return func() error {
		is, err := stat(lock)
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err == nil && os.SameFile(is, was):
			unclear = time.Time{}
			return nil
		case err == nil:
			err = errors.New("it is another file")
		case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR):
			if unclear.IsZero() {
				unclear = time.Now()
				log.Warn("cannot see whether the store is in its directory", "dir", dir, "error", err)
			}
			if time.Since(unclear) < unclearTime {
				return nil
			}
			return fmt.Errorf("whether the store is in %s is unknown for %v: %w", dir, unclearTime, err)
		}
		return fmt.Errorf("the store is no longer in %s: %w", dir, err)
	}, err
}

// lockName is the file that whoever has a store open for writing holds.
const lockName = "LOCK"

// figures returns a function that makes the answer of the method stats.
func (st *servedStore) figures() func() map[string]int64 {
	if st.disk == nil {
		return nil
	}
	return func() map[string]int64 {
		s, m := st.disk.Stats(), st.disk.Metrics()
		return map[string]int64{
			"partitions": int64(s.Threads), "commits": m.Log.Records, "batches": m.Log.Batches, "syncs": m.Log.Syncs,
			"log_bytes": s.LogBytes, "segments": int64(s.Segments), "bytes": s.SegmentBytes, "dead_bytes": s.DeadBytes,
		}
	}
}

// endpoint listens at the address of the flags.
func (f *serveFlags) endpoint(dir, token string) (*server.Endpoint, error) {
	if f.listen == "" {
		if dir == "" {
			return nil, errors.New("--listen is missing: there is no directory to listen in")
		}
		return server.ListenDir(dir)
	}
	var config *tls.Config
	if strings.HasPrefix(f.listen, "tls:") {
		pair, err := tls.LoadX509KeyPair(f.cert, f.key)
		if err != nil {
			return nil, fmt.Errorf("--tls-cert, --tls-key: %w", err)
		}
		config = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	}
	at, err := server.ListenAt(f.listen, token, config)
	if err != nil {
		return nil, fmt.Errorf("--listen %s: %w", f.listen, err)
	}
	if dir == "" {
		return at, nil
	}
	if err := at.Announce(dir); err != nil {
		return nil, errors.Join(err, at.Close())
	}
	return at, nil
}
