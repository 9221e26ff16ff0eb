package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"
)

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	venv := flags.String("venv", "", "a Python environment with langgraph-cli[inmem]")
	span := flags.Duration("span", 5*time.Second, "how long each number of clients works")
	streams := flags.Int("streams", 200, "how many streams are begun")
	threads := flags.Int("threads", 1000, "how many threads the server has at last")
	given := flags.String("clients", "1,16,64", "numbers of clients")
	each := flags.Int("runs", 10, "how many runs a client makes on a thread before it takes a new one")
	profile := flags.String("cpuprofile", "", "where stele's server writes a profile of its CPU under load")
	serving := flags.String("serve", "", "serve the graph from this directory; the benchmark starts itself with it")
	addr := flags.String("addr", "", "where to serve")
	direct := flags.Bool("alone", false, "measure net/http and the graph too, without package server")
	if err := flags.Parse(args); err != nil {
		return err
	}
	var clients []int
	for n := range strings.SplitSeq(*given, ",") {
		c, err := strconv.Atoi(n)
		if err != nil || c < 1 {
			return fmt.Errorf("-clients: %q is no number of clients", n)
		}
		clients = append(clients, c)
	}
	if *serving != "" {
		return serve(ctx, *serving, *addr, *profile, *direct)
	}
	starts := []func(context.Context, string) (*target, error){
		func(ctx context.Context, addr string) (*target, error) { return startStele(ctx, addr, *profile) },
	}
	if *direct {
		starts = append(starts, startAlone)
	}
	if *venv != "" {
		starts = append(starts, func(ctx context.Context, addr string) (*target, error) { return startDev(ctx, *venv, addr) })
	}
	var found []figures
	for _, start := range starts {
		var f figures
		// Memory first, of a server that has made no other runs: how many it makes under load
		// depends on how fast it is.
		for _, measure := range []func(t *target) error{
			func(t *target) error { return f.hold(ctx, t, *threads) },
			func(t *target) error { return f.load(ctx, t, clients, *span, *each, *streams) },
		} {
			t, err := begin(ctx, start)
			if err != nil {
				return err
			}
			f.name = t.name
			if err := errors.Join(measure(t), t.stop()); err != nil {
				return err
			}
		}
		found = append(found, f)
	}
	return table(out, clients, found)
}

// fillers is how many clients make the threads of hold.
const fillers = 16

// figures are those of one server.
type figures struct {
	name             string
	rate, cpu        []float64 // by clients: runs in a second, CPU seconds of a run
	first50, first99 time.Duration
	rest, full       int64 // bytes
}

// begin starts a server at an address of its own.
func begin(ctx context.Context, start func(context.Context, string) (*target, error)) (*target, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	addr := l.Addr().String()
	if err := l.Close(); err != nil { // the server listens there
		return nil, err
	}
	return start(ctx, addr)
}

// load measures the runs and the streams of a server.
func (f *figures) load(ctx context.Context, t *target, clients []int, span time.Duration, each, streams int) error {
	if _, err := t.work(ctx, 1, each, time.Second); err != nil { // so that nothing is done for the first time
		return err
	}
	for _, n := range clients {
		before, err := t.cpu()
		if err != nil {
			return err
		}
		begin := time.Now()
		done, err := t.work(ctx, n, each, span)
		if err != nil {
			return err
		}
		took := time.Since(begin)
		after, err := t.cpu()
		if err != nil {
			return err
		}
		f.rate = append(f.rate, float64(done)/took.Seconds())
		f.cpu = append(f.cpu, (after-before).Seconds()/float64(done))
	}
	var waits []time.Duration
	for range streams {
		d, err := t.firstEvent(ctx)
		if err != nil {
			return err
		}
		waits = append(waits, d)
	}
	slices.Sort(waits)
	f.first50, f.first99 = waits[len(waits)/2], waits[len(waits)*99/100]
	return nil
}

// hold measures the memory of a server, at rest and when it has threads.
func (f *figures) hold(ctx context.Context, t *target, threads int) (err error) {
	if f.rest, err = t.memory(); err != nil {
		return err
	}
	if err := t.fill(ctx, threads); err != nil {
		return err
	}
	f.full, err = t.memory()
	return err
}

// work lets clients run the graph for a time, each so many times on a thread, and says how many
// runs they had.
func (t *target) work(ctx context.Context, clients, each int, span time.Duration) (int, error) {
	var mu sync.Mutex
	var done int
	var failed error
	var working sync.WaitGroup
	end := time.Now().Add(span)
	for range clients {
		working.Go(func() {
			var id string
			var err error
			n := 0
			for ; time.Now().Before(end); n++ {
				if n%each == 0 {
					if id, err = t.thread(ctx); err != nil {
						break
					}
				}
				if err = t.wait(ctx, id); err != nil {
					break
				}
			}
			mu.Lock()
			defer mu.Unlock()
			done += n
			failed = errors.Join(failed, err)
		})
	}
	working.Wait()
	return done, failed
}

// fill makes threads of one run.
func (t *target) fill(ctx context.Context, threads int) error {
	var left atomic.Int64
	left.Store(int64(threads))
	ended := make(chan error)
	for range fillers {
		go func() {
			var err error
			for err == nil && left.Add(-1) >= 0 {
				var id string
				if id, err = t.thread(ctx); err == nil {
					err = t.wait(ctx, id)
				}
			}
			ended <- err
		}()
	}
	var failed error
	for range fillers {
		failed = errors.Join(failed, <-ended)
	}
	return failed
}

func (t *target) post(ctx context.Context, path string, body any) (*http.Response, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, t.url+path, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	res, err := t.client.Do(r)
	if err == nil && res.StatusCode != http.StatusOK {
		why, _ := io.ReadAll(res.Body)
		err = errors.Join(fmt.Errorf("POST %s: %s %s", path, res.Status, why), res.Body.Close())
	}
	return res, err
}

// thread makes a thread.
func (t *target) thread(ctx context.Context) (string, error) {
	res, err := t.post(ctx, "/threads", map[string]any{})
	if err != nil {
		return "", err
	}
	var made struct {
		ID string `json:"thread_id"`
	}
	err = json.NewDecoder(res.Body).Decode(&made)
	return made.ID, errors.Join(err, res.Body.Close())
}

var input = map[string]any{"assistant_id": "graph", "input": map[string]any{"text": "x", "log": []string{}}}

// wait runs the graph and looks at what came of it.
func (t *target) wait(ctx context.Context, thread string) error {
	res, err := t.post(ctx, "/threads/"+thread+"/runs/wait", input)
	if err != nil {
		return err
	}
	var values struct {
		Log []string `json:"log"`
	}
	err = errors.Join(json.NewDecoder(res.Body).Decode(&values), res.Body.Close())
	if err == nil && (len(values.Log) < 3 || len(values.Log)%3 != 0) {
		err = fmt.Errorf("a run ended with %v", values.Log)
	}
	return err
}

// firstEvent is how long a stream takes to its first event, on a new thread.
func (t *target) firstEvent(ctx context.Context) (time.Duration, error) {
	id, err := t.thread(ctx)
	if err != nil {
		return 0, err
	}
	begin := time.Now()
	res, err := t.post(ctx, "/threads/"+id+"/runs/stream", input)
	if err != nil {
		return 0, err
	}
	var one [1]byte
	_, err = io.ReadFull(res.Body, one[:])
	took := time.Since(begin)
	_, rest := io.Copy(io.Discard, res.Body)
	return took, errors.Join(err, rest, res.Body.Close())
}

func table(out io.Writer, clients []int, found []figures) error {
	w := tabwriter.NewWriter(out, 0, 0, 1, ' ', 0)
	line := func(what string, of func(f figures) string) {
		fmt.Fprintf(w, "| %s\t|", what)
		for _, f := range found {
			fmt.Fprintf(w, " %s\t|", of(f))
		}
		fmt.Fprintln(w)
	}
	line("", func(f figures) string { return f.name })
	line("---", func(figures) string { return "---:" })
	for i, n := range clients {
		line(fmt.Sprintf("runs in a second, clients: %d", n), func(f figures) string { return fmt.Sprintf("%.0f", f.rate[i]) })
	}
	for i, n := range clients {
		line(fmt.Sprintf("CPU of a run, clients: %d", n), func(f figures) string { return fmt.Sprintf("%.2f ms", f.cpu[i]*1e3) })
	}
	line("first event, p50", func(f figures) string { return fmt.Sprintf("%.1f ms", f.first50.Seconds()*1e3) })
	line("first event, p99", func(f figures) string { return fmt.Sprintf("%.1f ms", f.first99.Seconds()*1e3) })
	line("memory at rest", func(f figures) string { return fmt.Sprintf("%d MiB", f.rest>>20) })
	line("memory with the threads", func(f figures) string { return fmt.Sprintf("%d MiB", f.full>>20) })
	return w.Flush()
}
