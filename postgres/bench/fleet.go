//go:build linux

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stele-go/stele/postgres"
	"github.com/stele-go/stele/postgres/pgqueue"
	"github.com/stele-go/stele/postgres/pgtest"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/runs"
)

// worker is a worker with connections of its own, as a process has.
type worker struct {
	saver *postgres.Saver
	queue *pgqueue.Queue
	stop  func()
}

// nap is the state of a graph that sleeps until an instant.
type nap struct{ Until time.Time }

// startWorker starts a worker of two graphs: one of three nodes, whose first ones begun is told of, and one that
// sleeps, whose ends it is told of. A lease of 0 is the default.
func startWorker(ctx context.Context, url string, lease time.Duration, begun func(thread string)) (*worker, error) {
	s, err := postgres.Open(ctx, url+" default_query_exec_mode=cache_statement", postgres.Options{LeaseTime: lease})
	if err != nil {
		return nil, err
	}
	w := &worker{saver: s, queue: pgqueue.Open(s, pgqueue.Options{LeaseTime: lease})}
	step := func(first bool) pregel.Func {
		return func(ctx context.Context, _ any) (any, error) {
			if info, _ := pregel.Task(ctx); first {
				begun(info.ThreadID)
			}
			return map[string]any{"sum": 1}, nil
		}
	}
	g, err := graph.New(graph.Key("sum", channel.Reduce(channel.Add[int]))).
		Node("a", step(true)).Node("b", step(false)).Node("c", step(false)).
		Sequence(graph.Start, "a", "b", "c").Compile(graph.Options{Name: "three", Saver: s})
	if err != nil {
		return nil, err
	}
	naps, err := graph.For[nap]().Node("nap", func(ctx context.Context, n *nap) (graph.Update, error) {
		if err := pregel.SleepUntil(ctx, n.Until); err != nil {
			return nil, err
		}
		info, _ := pregel.Task(ctx)
		begun(info.ThreadID)
		return nil, nil
	}).Edge(graph.Start, "nap").Compile(graph.Options{Name: "nap", Saver: s})
	if err != nil {
		return nil, err
	}
	working, end := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = (&runs.Worker{Queue: w.queue, Saver: s, Graphs: map[string]*pregel.Graph{"three": g, "nap": naps.Untyped()}, Concurrency: 8,
			Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}).Run(working)
	}()
	w.stop = func() {
		end()
		<-ended
		w.queue.Close()
		s.Close()
	}
	return w, nil
}

// cluster starts a server with these settings, and a saver on it. end stops both.
func cluster(ctx context.Context, settings ...string) (s *postgres.Saver, url string, end func(), err error) {
	server, err := pgtest.New(settings...)
	if err != nil {
		return nil, "", nil, err
	}
	url = server.URL("postgres")
	if err = postgres.Setup(ctx, url, postgres.Options{}); err == nil {
		s, err = postgres.Open(ctx, url, postgres.Options{})
	}
	if err != nil {
		server.Close()
		return nil, "", nil, err
	}
	return s, url, func() { s.Close(); server.Close() }, nil
}

// fleet prints how many runs workers do, and how soon one begins.
func fleet() error {
	ctx := context.Background()
	s, url, end, err := cluster(ctx, "fsync=on", "synchronous_commit=on", "full_page_writes=on", "shared_buffers=256MB")
	if err != nil {
		return err
	}
	defer end()
	q := pgqueue.Open(s, pgqueue.Options{})
	defer q.Close()
	submit := func(thread string) (runs.Run, error) {
		return q.Submit(ctx, runs.Request{Spec: runs.Spec{ThreadID: thread, Graph: "three"}, Input: map[string]any{"sum": 0}})
	}
	fmt.Println("workers  runs/s")
	for _, n := range []int{1, 2, 4, 8} {
		const many = 400
		var last runs.Run
		for i := range many {
			if last, err = submit(fmt.Sprint("many-", n, "-", i)); err != nil {
				return err
			}
		}
		var workers []*worker
		begin := time.Now()
		for range n {
			w, err := startWorker(ctx, url, 15*time.Second, func(string) {})
			if err != nil {
				return err
			}
			workers = append(workers, w)
		}
		for left := true; left; {
			if _, err := runs.Wait(ctx, q, last.ID); err != nil {
				return err
			}
			left = false
			for _, status := range []runs.Status{runs.Pending, runs.Running} {
				for range q.List(ctx, runs.Query{Status: status, Limit: 1}) {
					left = true
				}
			}
		}
		fmt.Printf("%7d  %6.0f\n", n, many/time.Since(begin).Seconds())
		for _, w := range workers {
			w.stop()
		}
	}

	for _, load := range []struct {
		name    string
		clients int
	}{{"idle", 1}, {"eight clients", 8}} {
		if err := firstNodes(ctx, url, q, load.name, load.clients, submit); err != nil {
			return err
		}
	}
	if err := afterDeath(ctx, url, submit); err != nil {
		return err
	}
	return asleep(ctx, url, q)
}

// asleep prints the processor time that a worker and the server take in a minute in which 100,000 runs sleep,
// and how long it takes until 100 more have run that fall due at one instant.
func asleep(ctx context.Context, url string, q runs.Queue) error {
	c, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer c.Close(ctx)
	var dir string
	if err := c.QueryRow(ctx, "SHOW data_directory").Scan(&dir); err != nil {
		return err
	}
	if _, err := c.Exec(ctx, `INSERT INTO stele_runs (id, thread_id, graph, status, priority, attempts, spec, due_at, after_at, created_at)
		SELECT 'z' || i, 'z' || i, 'three', 'pending', 0, 3, '{"graph": "three"}', due, due, now() FROM generate_series(1, 100000) i, (SELECT now() + interval '1 day') AS d (due)`); err != nil {
		return err
	}
	const due = 100
	woke := make(chan struct{}, due)
	w, err := startWorker(ctx, url, 0, func(string) { woke <- struct{}{} })
	if err != nil {
		return err
	}
	defer w.stop()
	if _, err := c.Exec(ctx, "VACUUM ANALYZE stele_runs"); err != nil {
		return err
	}
	time.Sleep(10 * time.Second)
	pid, err := os.ReadFile(filepath.Join(dir, "postmaster.pid"))
	if err != nil {
		return err
	}
	first, _, _ := strings.Cut(string(pid), "\n")
	const rest = 60
	client, server := processorTime(strconv.Itoa(os.Getpid()), ""), processorTime("", first)
	time.Sleep(rest * time.Second)
	client, server = processorTime(strconv.Itoa(os.Getpid()), "")-client, processorTime("", first)-server
	fmt.Printf("\n100,000 asleep: a worker takes %.2f ms of a processor a second, the server %.2f\n",
		float64(client.Milliseconds())/rest, float64(server.Milliseconds())/rest)
	at := time.Now().Add(20 * time.Second)
	for i := range due {
		r := runs.Request{Spec: runs.Spec{ThreadID: fmt.Sprint("nap-", i), Graph: "nap"}, Input: nap{at}}
		if _, err := q.Submit(ctx, r); err != nil {
			return err
		}
	}
	for range due {
		<-woke
	}
	fmt.Printf("%d of them that fall due at one instant have run %v after it\n", due, time.Since(at).Round(10*time.Millisecond))
	return nil
}

// processorTime is what a process, or the children of a parent, have used; in steps of 10 ms.
func processorTime(pid, parent string) (sum time.Duration) {
	all, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, name := range all {
		b, _ := os.ReadFile(name)
		at := strings.LastIndexByte(string(b), ')') // behind the name
		if f := strings.Fields(string(b[at+1:])); len(f) > 12 && (filepath.Base(filepath.Dir(name)) == pid || f[1] == parent) {
			user, _ := strconv.Atoi(f[11])
			system, _ := strconv.Atoi(f[12])
			sum += time.Duration(user+system) * 10 * time.Millisecond
		}
	}
	return sum
}

// firstNodes prints how long it takes from Submit to the first node, while clients each submit a
// run when their last one has ended.
func firstNodes(ctx context.Context, url string, q runs.Queue, name string, clients int, submit func(thread string) (runs.Run, error)) error {
	var mu sync.Mutex
	begun := map[string]time.Time{}
	w, err := startWorker(ctx, url, time.Second, func(thread string) {
		mu.Lock()
		defer mu.Unlock()
		begun[thread] = time.Now()
	})
	if err != nil {
		return err
	}
	defer w.stop()
	var took []time.Duration
	var all sync.WaitGroup
	errs := make([]error, clients)
	for k := range clients {
		all.Go(func() {
			for i := range 300 / clients {
				if clients == 1 {
					time.Sleep(20 * time.Millisecond) // what ended the last run is over
				}
				thread := fmt.Sprint(name, "-", k, "-", i)
				at := time.Now()
				r, err := submit(thread)
				if err == nil {
					_, err = runs.Wait(ctx, q, r.ID)
				}
				if err != nil {
					errs[k] = err
					return
				}
				mu.Lock()
				took = append(took, begun[thread].Sub(at))
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	slices.Sort(took)
	fmt.Printf("\nfrom Submit to the first node, %s: p50 %v, p99 %v\n", name, took[len(took)/2].Round(10*time.Microsecond),
		took[len(took)*99/100].Round(10*time.Microsecond))
	return nil
}

// hang is a worker that never leaves its first node.
func hang(url string) error {
	_, err := startWorker(context.Background(), url, 0, func(string) {
		fmt.Println("begun")
		select {}
	})
	if err != nil {
		return err
	}
	select {}
}

// afterDeath prints how long it takes from the death of a worker until another goes on with its
// run, with leases of the default length.
func afterDeath(ctx context.Context, url string, submit func(thread string) (runs.Run, error)) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	begun := make(chan time.Time, 1)
	for i := range 3 {
		victim := exec.Command(self, "-victim", url)
		victim.Stderr = os.Stderr
		out, err := victim.StdoutPipe()
		if err != nil {
			return err
		}
		if err := victim.Start(); err != nil {
			return err
		}
		if _, err := submit(fmt.Sprint("orphan-", i)); err != nil {
			return err
		}
		if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
			return fmt.Errorf("the worker that is to be killed: %w", err)
		}
		w, err := startWorker(ctx, url, 0, func(string) { begun <- time.Now() })
		if err != nil {
			return err
		}
		time.Sleep(time.Duration(i) * 3 * time.Second) // at another time after a renewal
		at := time.Now()
		if err := victim.Process.Kill(); err != nil {
			return err
		}
		_ = victim.Wait()
		fmt.Printf("from the death of a worker until its run goes on: %.1f s\n", (<-begun).Sub(at).Seconds())
		w.stop()
	}
	return nil
}
