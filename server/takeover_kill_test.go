package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/replica"
	"github.com/stele-go/stele/replica/bucket"
	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/server"
	"github.com/stele-go/stele/store"
)

// pairPlace, if it is set, makes the test binary one of the servers of a bucket: its name, and the directory of all. It says
// where it listens, and serves until it is killed.
const pairPlace = "STELE_SERVER_PAIR"

func pairChild(place string) {
	name, root, _ := strings.Cut(place, " ")
	ctx := context.Background()
	b := must(bucket.Dir(ctx, filepath.Join(root, "bucket")))
	effects := must(os.OpenFile(filepath.Join(root, "effects"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600))
	var front server.Front
	l := must(listen())
	fmt.Println(l.Addr())
	go func() { panic(http.Serve(l, &front)) }()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	panic(disk.LeadOrFollow(ctx, filepath.Join(root, name), disk.Options{Logger: log, Replica: disk.Replica{Bucket: b, Mode: replica.Sync, Interval: 20 * time.Millisecond, TTL: 300 * time.Millisecond}},
		func(ctx context.Context, d *disk.Saver) error {
			items, err := store.On(d, store.Options{})
			if err != nil {
				return err
			}
			defer items.Close()
			queue, err := runs.NewLocal(ctx, items, runs.LocalOptions{})
			if err != nil {
				return err
			}
			b, from := builder(), graph.Start
			for i := range steps {
				name := fmt.Sprint("n", i)
				b = b.Node(name, func(ctx context.Context, in any) (any, error) {
					key, err := pregel.IdempotencyKey(ctx, "effect")
					if err == nil {
						_, err = fmt.Fprintf(effects, "%s %s %s\n", in.(object)["text"], name, key)
					}
					return object{"log": []string{name}}, err
				}).Edge(from, name)
				from = name
			}
			g, err := b.Compile(graph.Options{Name: "long", Saver: d, Store: items})
			if err != nil {
				return err
			}
			api, err := server.New(server.Config{Graphs: map[string]*pregel.Graph{"long": g}, Saver: d, Store: items, Queue: queue, Auth: server.NoAuth(), Attempts: 1 << 20, MaxStreams: 1 << 20, Logger: log})
			if err != nil {
				return err
			}
			front.Set(api)
			<-ctx.Done()
			front.Set(nil)
			return api.Close()
		}))
}

// pair is two servers of one bucket.
type pair struct {
	*testing.T
	root  string
	mu    sync.Mutex
	bases [2]string // where each server answers
	procs [2]*exec.Cmd
	http  *http.Client
	seen  atomic.Int64 // events that clients have seen
	asked atomic.Int64 // requests
}

func (p *pair) start(i int) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d %s", pairPlace, i, p.root))
	cmd.Stderr = must(os.OpenFile(filepath.Join(p.root, fmt.Sprint("log", i)), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600))
	out := must(cmd.StdoutPipe())
	if err := cmd.Start(); err != nil {
		p.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		p.Fatalf("server %d: %v", i, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.procs[i], p.bases[i] = cmd, "http://"+strings.TrimSpace(line)
}

func (p *pair) kill(i int) {
	if p.procs[i] == nil {
		return
	}
	_ = p.procs[i].Process.Kill()
	_ = p.procs[i].Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bases[i] = "" // another process may get its port
}

// answers reports whether a server answers a path with 200.
func (p *pair) answers(i int, path string) bool {
	p.mu.Lock()
	base := p.bases[i]
	p.mu.Unlock()
	res, err := p.http.Get(base + path)
	if err != nil {
		return false
	}
	_ = res.Body.Close()
	return res.StatusCode == http.StatusOK
}

func (p *pair) until(what string, done func() bool) {
	for end := time.Now().Add(2 * patience); !done(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			for i := range 2 {
				log, _ := os.ReadFile(filepath.Join(p.root, fmt.Sprint("log", i)))
				p.Logf("server %d:\n%s", i, log[max(0, len(log)-4000):])
			}
			p.Fatalf("not in %v: %s", 2*patience, what)
		}
	}
}

// leader is the server that leads; -1 if it is none.
func (p *pair) leader() int {
	for i := range 2 {
		if p.answers(i, "/ok?leads=1") {
			return i
		}
	}
	return -1
}

// try asks both servers in turn until one does what is asked: 503 says that the other is to be asked, and 404 that a follower does not
// have it yet. A request whose answer is lost may have made a run: each has another number in place of #.
func (p *pair) try(method, path, body string, header ...string) *http.Response {
	for i := 0; ; i++ {
		p.mu.Lock()
		base := p.bases[i%2]
		p.mu.Unlock()
		named := strings.ReplaceAll(body, "#", strconv.FormatInt(p.asked.Add(1), 10))
		req := must(http.NewRequestWithContext(p.Context(), method, base+path, strings.NewReader(named)))
		req.Header.Set("Content-Type", "application/json")
		for j := 0; j+1 < len(header); j += 2 {
			req.Header.Set(header[j], header[j+1])
		}
		res, err := p.http.Do(req)
		switch {
		case err == nil && res.StatusCode == http.StatusOK:
			return res
		case err == nil && res.StatusCode != http.StatusServiceUnavailable && res.StatusCode != http.StatusNotFound:
			text, _ := io.ReadAll(res.Body)
			p.Errorf("%s %s: %d %s", method, path, res.StatusCode, text)
		case p.Context().Err() != nil:
			return nil
		}
		if err == nil {
			if res.StatusCode == http.StatusServiceUnavailable && res.Header.Get("Retry-After") == "" {
				p.Errorf("%s %s: 503 without Retry-After", method, path)
			}
			_ = res.Body.Close()
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// stream runs the graph on a new thread, rejoins the stream wherever it is cut off, and compares all that it saw with what is stored
// at the end.
func (p *pair) stream(client, n int) {
	thread := fmt.Sprintf("11111111-1111-4111-8%03d-%012d", client, n)
	_ = p.try("POST", "/threads", `{"thread_id":"`+thread+`","if_exists":"do_nothing"}`).Body.Close()
	place, res := "", (*http.Response)(nil)
	for place == "" {
		res = p.try("POST", "/threads/"+thread+"/runs/stream", `{"assistant_id":"long","input":{"text":"#"},"stream_resumable":true,"multitask_strategy":"rollback"}`)
		place = res.Header.Get("Location")
	}
	var saw []frame
	complete := func(list []frame) bool { return len(list) > 0 && strings.Contains(list[len(list)-1].data, whole) }
	for last := 0; ; {
		_ = frames(res.Body, func(f frame) bool { // it ends with the run, with its server, or in the middle of an event
			id, err := strconv.Atoi(f.id)
			if err != nil || id <= last {
				p.Errorf("thread %s: %v behind %d", thread, f, last)
				return false
			}
			last, saw = id, append(saw, f)
			p.seen.Add(1)
			return true
		})
		_ = res.Body.Close()
		if complete(saw) || p.Failed() {
			break
		}
		if run := p.read("GET", strings.TrimSuffix(place, "/stream")); run["status"] != "pending" && run["status"] != "running" && run["status"] != "success" && run["status"] != nil {
			p.Errorf("thread %s: %v", thread, run)
			return
		}
		res = p.try("GET", place, "", "Last-Event-ID", strconv.Itoa(last))
	}
	for !p.Failed() {
		var all []frame
		res = p.try("GET", place, "", "Last-Event-ID", "0")
		_ = frames(res.Body, func(f frame) bool { all = append(all, f); return true })
		_ = res.Body.Close()
		if !complete(all) || len(all) < len(saw) { // it was cut off, or is of a follower
			continue
		}
		if fmt.Sprint(saw) != fmt.Sprint(all[:len(saw)]) {
			p.Errorf("thread %s saw\n%v\nand stored is\n%v", thread, saw, all)
		}
		return
	}
}

// read is the object that a request is answered with; nil if the answer is cut off.
func (p *pair) read(method, path string) (m object) {
	res := p.try(method, path, "")
	defer res.Body.Close()
	_ = json.NewDecoder(res.Body).Decode(&m)
	return m
}

// TestTakeOverKills kills the server that leads again and again under clients that stream, and the other one takes over. Each
// client goes on
// where it was, at either server: it sees no event twice, misses none, and none that it saw is another one afterwards. Each run ends, and
// each effect has one key.
func TestTakeOverKills(t *testing.T) {
	kills, clients := 2, 4
	if n, err := strconv.Atoi(os.Getenv("TAKE_OVERS")); err == nil {
		kills, clients = n, 16
	}
	p := &pair{T: t, root: t.TempDir(), http: &http.Client{}}
	if err := os.Mkdir(filepath.Join(p.root, "bucket"), 0o700); err != nil {
		t.Fatal(err)
	}
	defer func() {
		for i := range 2 {
			p.kill(i)
		}
	}()
	p.start(0)
	p.until("one leads", func() bool { return p.leader() == 0 })
	p.start(1)
	p.until("one follows", func() bool { return p.answers(1, "/ok") })
	var stop atomic.Bool
	var done sync.WaitGroup
	var streams atomic.Int64
	for i := range clients {
		done.Go(func() {
			for n := 0; !stop.Load() && !t.Failed(); n++ {
				p.stream(i, n)
				streams.Add(1)
			}
		})
	}
	for n := 0; n < kills && !t.Failed(); n++ {
		begun := p.seen.Load()
		p.until("clients see events", func() bool { return p.seen.Load() > begun+int64(clients+n%7) || t.Failed() })
		lost := -1
		p.until("one leads", func() bool { lost = p.leader(); return lost >= 0 })
		p.kill(lost)
		p.until("the other takes over", func() bool { return p.answers(1-lost, "/ok?leads=1") })
		p.start(lost)
		p.until("it answers", func() bool { return p.answers(lost, "/ok") })
	}
	stop.Store(true)
	done.Wait()
	p.until("every run ends", func() bool {
		open := 0
		for _, status := range []string{"pending", "running"} {
			list, ok := p.read("GET", "/stele/runs?status="+status)["runs"].([]any)
			if !ok {
				return false
			}
			open += len(list)
		}
		return open == 0
	})
	keys := map[string]string{}
	for line := range strings.Lines(string(must(os.ReadFile(filepath.Join(p.root, "effects"))))) {
		of := strings.Fields(line)
		if at := of[0] + " " + of[1]; keys[at] == "" {
			keys[at] = of[2]
		} else if keys[at] != of[2] {
			t.Errorf("effect %s has the keys %s and %s", at, keys[at], of[2])
		}
	}
	t.Logf("killed %d leaders under %d clients: %d streams, %d events, %d effects", kills, clients, streams.Load(), p.seen.Load(), len(keys))
}
