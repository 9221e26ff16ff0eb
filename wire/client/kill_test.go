package client_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/admin"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/store"
	"github.com/stele-go/stele/wire/client"
	"github.com/stele-go/stele/wire/server"
)

// servedDir is the variable that makes this test binary a server of the directory it names.
const servedDir = "STELE_TEST_SERVE"

func TestMain(m *testing.M) {
	if dir := os.Getenv(servedDir); dir != "" {
		if err := serveDir(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// serveDir serves a directory until it is killed.
func serveDir(dir string) error {
	d, err := disk.Open(dir, disk.Options{Sync: disk.SyncInterval}) // a kill is no power failure
	if err != nil {
		return err
	}
	items, err := store.On(d, store.Options{})
	if err != nil {
		return err
	}
	at, err := server.ListenDir(dir)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	return server.New(server.Options{Saver: d, Items: items, Store: "disk"}).Serve(context.Background(), at.Listener)
}

// serverProcess is a server that is killed again and again.
type serverProcess struct {
	t   *testing.T
	dir string
	cmd *exec.Cmd
}

func (p *serverProcess) start() {
	p.t.Helper()
	exe, err := os.Executable()
	if err != nil {
		p.t.Fatal(err)
	}
	p.cmd = exec.Command(exe)
	p.cmd.Env = append(os.Environ(), servedDir+"="+p.dir)
	p.cmd.Stderr = os.Stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		p.t.Fatalf("the server says %q, %v", line, err)
	}
}

func (p *serverProcess) kill() {
	p.t.Helper()
	if err := p.cmd.Process.Kill(); err != nil {
		p.t.Fatal(err)
	}
	_ = p.cmd.Wait() // it was killed
}

// kills is how often the server is killed; STELE_KILLS changes it.
const kills = 12

// TestKilledServer kills the server at random while clients write. What was acknowledged is
// there, and nothing was done twice:
//
//   - A chain of checkpoints, each put with the head that its client knows. A put that is done
//     twice meets another head than it expects; one that is lost leaves the next one without
//     it.
//   - A thread that is deleted, copied or pruned, and made anew with other checkpoints: a
//     removal or copy that is done twice removes what was made since, or fails.
//   - A counter of attempts, which is the number of calls.
func TestKilledServer(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("STELE_SEED"); s != "" {
		seed, _ = strconv.ParseUint(s, 10, 64)
	}
	rounds := kills
	if s := os.Getenv("STELE_KILLS"); s != "" {
		rounds, _ = strconv.Atoi(s)
	}
	defer func() {
		if t.Failed() {
			t.Logf("STELE_SEED=%d STELE_KILLS=%d go test -run TestKilledServer ./server/client", seed, rounds)
		}
	}()
	random := rand.New(rand.NewPCG(seed, 0))
	p := &serverProcess{t: t, dir: t.TempDir()}
	p.start()
	var stop atomic.Bool
	var done atomic.Int64
	var wg sync.WaitGroup
	const clients = 4
	for i := range clients {
		wg.Go(func() {
			c := client.Dir(p.dir, client.Options{Retry: time.Minute})
			w := &worker{c: c, name: fmt.Sprint(i), done: &done}
			for !stop.Load() {
				if err := w.round(); err != nil {
					t.Errorf("client %d, round %d: %v", i, w.n, err)
					break
				}
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	for range rounds {
		// Some calls are done before each kill, so that each meets calls under way.
		for want := done.Load() + random.Int64N(40); done.Load() < want && !t.Failed(); {
			time.Sleep(time.Millisecond)
		}
		p.kill()
		p.start()
	}
	stop.Store(true)
	wg.Wait()
	p.kill()
	if rep, err := admin.Verify(context.Background(), p.dir, admin.VerifyOptions{}); err != nil || len(rep.Damage) > 0 {
		t.Errorf("verify: %v, %+v", err, rep)
	}
	t.Logf("%d calls, %d kills", done.Load(), rounds)
}

// worker makes the calls of one client, on threads of its own.
type worker struct {
	c    *client.Client
	name string
	n    int
	done *atomic.Int64
}

func (w *worker) thread(kind string) string { return kind + " of " + w.name }

func (w *worker) put(thread, id, parent string, md saver.Metadata) error {
	defer w.done.Add(1)
	cfg := saver.Config{ThreadID: thread, CheckpointID: parent, ExpectHead: saver.Head(parent)}
	_, err := w.c.Put(context.Background(), cfg, saver.Checkpoint{V: 4, ID: id}, md, nil)
	return err
}

func (w *worker) heads(thread string) ([]string, error) {
	var ids []string
	for {
		ids = nil
		var failed error
		for tup, err := range w.c.List(context.Background(), saver.Query{ThreadID: thread}) {
			if failed = err; err == nil {
				ids = append(ids, tup.Config.CheckpointID)
			}
		}
		if failed == nil {
			return ids, nil
		}
		if !errors.Is(failed, client.ErrInterrupted) {
			return nil, failed
		}
	}
}

func (w *worker) is(thread string, want ...string) error {
	got, err := w.heads(thread)
	if err == nil && !slices.Equal(got, want) {
		err = fmt.Errorf("thread %q has %v, want %v", thread, got, want)
	}
	return err
}

// round makes each call once, and checks what it did.
func (w *worker) round() error {
	ctx := context.Background()
	w.n++
	id := func(n int) string { return fmt.Sprintf("%08d", n) }
	parent := ""
	if w.n > 1 {
		parent = id(w.n - 1)
	}
	if err := w.put(w.thread("chain"), id(w.n), parent, nil); err != nil {
		return err
	}
	got, err := w.heads(w.thread("chain"))
	if err == nil && len(got) != w.n {
		err = fmt.Errorf("the chain has %d checkpoints of %d", len(got), w.n)
	}
	if err != nil {
		return err
	}
	count, err := w.c.CountAttempt(ctx, saver.Config{ThreadID: w.thread("chain"), CheckpointID: id(1)})
	if w.done.Add(1); err != nil || count != w.n {
		return fmt.Errorf("%d attempts of %d: %w", count, w.n, err)
	}
	old, copied := w.thread("old"), w.thread("copy")
	run := fmt.Sprintf("run %s %d", w.name, w.n)
	for i, step := range []func() error{
		func() error { return w.put(old, id(w.n*10), "", saver.Metadata{"run_id": run}) },
		func() error { return w.put(old, id(w.n*10+1), id(w.n*10), nil) },
		func() error { return w.c.CopyThread(ctx, old, copied) },
		func() error { return w.is(copied, id(w.n*10+1), id(w.n*10)) },
		func() error {
			rem, err := w.c.DeleteForRuns(ctx, []string{run}, nil) // of both threads
			if err == nil && rem.Checkpoints != 2 {
				err = fmt.Errorf("removed %+v", rem)
			}
			return err
		},
		func() error { return w.is(copied, id(w.n*10+1)) },
		func() error { return w.c.DeleteThread(ctx, copied) },
		func() error { return w.put(old, id(w.n*10+2), id(w.n*10+1), nil) },
		func() error {
			rem, err := w.c.Prune(ctx, []string{old}, saver.KeepLatest)
			if err == nil && rem.Checkpoints != 1 {
				err = fmt.Errorf("removed %+v", rem)
			}
			return err
		},
		func() error { return w.is(old, id(w.n*10+2)) },
		func() error { return w.c.DeleteThread(ctx, old) },
	} {
		if err := step(); err != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
		w.done.Add(1)
	}
	return nil
}
