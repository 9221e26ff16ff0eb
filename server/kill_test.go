package server_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/server"
	"github.com/stele-go/stele/store"
)

// childDir, if it is set, makes the test binary a server on the directory. It says where it
// listens, and serves until it is killed.
const childDir = "STELE_SERVER_CHILD"

// steps is how many nodes the graph of the child has, and whole what they write at last: a request that was
// taken and not answered is made again, so that the log may have it twice.
const (
	steps = 8
	whole = `"n0","n1","n2","n3","n4","n5","n6","n7"]`
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		child(dir)
	}
	if place := os.Getenv(pairPlace); place != "" {
		pairChild(place)
	}
	os.Exit(m.Run())
}

func child(dir string) {
	d := must(disk.Open(dir, disk.Options{}))
	items := must(store.On(d, store.Options{}))
	queue := must(runs.NewLocal(context.Background(), items, runs.LocalOptions{}))
	b, from := builder(), graph.Start
	for i := range steps {
		name := fmt.Sprint("n", i)
		b = b.Node(name, func(ctx context.Context, _ any) (any, error) {
			if u, ok := server.UserOf(ctx); !ok || !reflect.DeepEqual(u, known) { // also a run that another process has taken
				return nil, fmt.Errorf("the run is of %+v", u)
			}
			time.Sleep(time.Millisecond) // so that kills fall into runs
			return object{"log": []string{name}}, nil
		}).Edge(from, name)
		from = name
	}
	g := must(b.Compile(graph.Options{Name: "long", Saver: d, Store: items}))
	auth := &server.Auth{ // everybody is the same user, who may do everything
		Authenticate: func(*http.Request) (*server.User, error) { return claimed(), nil },
		Authorize:    func(context.Context, *server.User, server.Access) (server.Grant, error) { return server.Grant{}, nil },
	}
	api := must(server.New(server.Config{Graphs: map[string]*pregel.Graph{"long": g}, Saver: d, Store: items, Queue: queue, Auth: auth, Rate: -1, Attempts: 1 << 20, MaxStreams: 1 << 20}))
	l := must(listen())
	fmt.Println(l.Addr())
	panic(http.Serve(l, api))
}

// TestKill kills a server again and again under clients that stream. Each client goes on where
// it was, sees no number twice, and its run ends as if nothing had been.
func TestKill(t *testing.T) {
	kills, clients := 6, 4
	if n, err := strconv.Atoi(os.Getenv("SERVER_KILLS")); err == nil {
		kills, clients = n, 32
	}
	seed := rand.Uint64()
	if s := os.Getenv("SERVER_SEED"); s != "" {
		seed = must(strconv.ParseUint(s, 10, 64))
	}
	t.Logf("go test ./server -run TestKill: SERVER_SEED=%d SERVER_KILLS=%d", seed, kills)
	dir := t.TempDir()
	var mu sync.Mutex
	url := ""
	where := func() string {
		mu.Lock()
		defer mu.Unlock()
		return url
	}
	stop, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		rnd := rand.New(rand.NewPCG(seed, 0))
		for n := 0; ; n++ {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), childDir+"="+dir)
			cmd.Stderr = io.Discard
			out := must(cmd.StdoutPipe())
			if err := cmd.Start(); err != nil {
				t.Error(err)
				return
			}
			line, _ := bufio.NewReader(out).ReadString('\n')
			mu.Lock()
			url = "http://" + strings.TrimSpace(line)
			mu.Unlock()
			if n < kills {
				time.Sleep(time.Duration(10+rnd.IntN(60)) * time.Millisecond)
			} else {
				<-stop
			}
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			if n >= kills {
				return
			}
			mu.Lock()
			url = "" // another process may get its port
			mu.Unlock()
		}
	}()
	var done sync.WaitGroup
	for i := range clients {
		done.Go(func() { streamThroughKills(t, i, where) })
	}
	done.Wait()
	close(stop)
	<-over
}

// streamThroughKills runs the graph on a thread several times, and resumes its streams.
func streamThroughKills(t *testing.T, i int, where func() string) {
	client := &http.Client{Timeout: patience}
	ctx := t.Context()
	end := time.Now().Add(2 * patience)
	// try makes a request until a server answers it.
	try := func(method, path, body string, header ...string) *http.Response {
		for time.Now().Before(end) {
			req := must(http.NewRequestWithContext(ctx, method, where()+path, strings.NewReader(body)))
			req.Header.Set("Content-Type", "application/json")
			if len(header) > 0 {
				req.Header.Set(header[0], header[1])
			}
			res, err := client.Do(req)
			if err == nil {
				return res
			}
			time.Sleep(5 * time.Millisecond)
		}
		return nil
	}
	for n := range 4 {
		thread := fmt.Sprintf("11111111-1111-4111-8%03d-%012d", n, i)
		res := try("POST", "/threads", `{"thread_id":"`+thread+`","if_exists":"do_nothing"}`)
		if res == nil {
			t.Error("no server answers")
			return
		}
		_ = res.Body.Close()
		place, last, values := "", 0, ""
		for place == "" {
			if res = try("POST", "/threads/"+thread+"/runs/stream", `{"assistant_id":"long","input":{"text":"x"},"stream_resumable":true,"multitask_strategy":"rollback"}`); res == nil {
				t.Error("no server answers")
				return
			}
			place = res.Header.Get("Location")
		}
		for {
			err := frames(res.Body, func(f frame) bool {
				id, err := strconv.Atoi(f.id)
				if err != nil || id <= last || f.event != "metadata" && f.event != "values" {
					t.Errorf("thread %s: %v behind %d", thread, f, last)
					return false
				}
				switch last = id; {
				case f.event == "metadata": // what was not stored when the server was killed is shown again
					values = ""
				case len(f.data) < len(values):
					t.Errorf("thread %s: %s after %s", thread, f.data, values)
				default:
					values = f.data
				}
				return true
			})
			_ = res.Body.Close()
			if err == nil && res.StatusCode == 200 { // a kill cuts the answer off in the middle
				break
			}
			if res = try("GET", place, "", "Last-Event-ID", strconv.Itoa(last)); res == nil {
				t.Errorf("thread %s: no end after %q", thread, values)
				return
			}
		}
		if !strings.Contains(values, whole) && values != "" {
			t.Errorf("thread %s: ends with %s", thread, values)
		}
		res = try("GET", "/threads/"+thread+"/state", "")
		if res == nil {
			t.Error("no server answers")
			return
		}
		text, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err == nil && res.StatusCode == 200 && !strings.Contains(string(text), whole) {
			t.Errorf("thread %s: %s", thread, text)
		}
	}
}
