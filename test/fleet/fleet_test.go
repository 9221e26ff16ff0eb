//go:build unix

package fleet

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stele-go/stele/base/port"
	"github.com/stele-go/stele/postgres"
	"github.com/stele-go/stele/postgres/pgqueue"
	"github.com/stele-go/stele/postgres/pgstore"
	"github.com/stele-go/stele/postgres/pgtest"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/server"
	"github.com/stele-go/stele/store"
)

// Variables that make of the test binary a server of the fleet: the database, and where to
// listen.
const (
	fleetURL  = "STELE_FLEET_URL"
	fleetAddr = "STELE_FLEET_ADDR"
)

func TestMain(m *testing.M) {
	if url := os.Getenv(fleetURL); url != "" {
		fmt.Fprintln(os.Stderr, serve(context.Background(), url, os.Getenv(fleetAddr)))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// steps is how many nodes the graph "long" has.
const steps = 8

// serve is a server of the fleet. It ends when it is killed.
func serve(ctx context.Context, url, addr string) error {
	s, err := postgres.Open(ctx, url, postgres.Options{LeaseTime: time.Second})
	if err != nil {
		return err
	}
	items, err := pgstore.On(ctx, s, store.Options{})
	if err != nil {
		return err
	}
	builder := func() *graph.Builder {
		return graph.New(graph.Key("text", channel.LastValue[string]()), graph.Key("log", channel.Reduce(channel.Append[string])))
	}
	long, from := builder(), graph.Start
	for i := range steps {
		name := fmt.Sprint("n", i)
		long = long.Node(name, func(context.Context, any) (any, error) {
			time.Sleep(10 * time.Millisecond) // so that kills fall into runs
			return map[string]any{"log": []string{name}}, nil
		}).Edge(from, name)
		from = name
	}
	asker := builder().Node("ask", func(ctx context.Context, _ any) (any, error) {
		answer, err := pregel.Ask(ctx, "ok?")
		return map[string]any{"log": []string{fmt.Sprint(answer)}}, err
	}).Edge(graph.Start, "ask")
	graphs := map[string]*pregel.Graph{}
	for name, b := range map[string]*graph.Builder{"long": long, "asker": asker} {
		if graphs[name], err = b.Compile(graph.Options{Name: name, Saver: s, Store: items}); err != nil {
			return err
		}
	}
	queue := pgqueue.Open(s, pgqueue.Options{LeaseTime: time.Second})
	api, err := server.New(server.Config{Graphs: graphs, Saver: s, Store: items, Queue: queue, Auth: server.NoAuth(), Attempts: 1 << 20})
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	fmt.Println("serving")
	return http.Serve(l, api)
}

// servers are the three of the fleet. One that is killed is started again at its address.
type servers struct {
	t     *testing.T
	url   string
	addrs []string

	mu   sync.Mutex
	cmds []*exec.Cmd
}

func (s *servers) start(i int) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), fleetURL+"="+s.url, fleetAddr+"="+s.addrs[i])
	cmd.Stderr = os.Stderr
	out := must(cmd.StdoutPipe())
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	_, _ = bufio.NewReader(out).ReadString('\n')
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cmds[i] = cmd
}

func (s *servers) kill(i int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.cmds[i].Process.Kill()
	_ = s.cmds[i].Wait()
}

// try makes a request of any server, until one answers it. A kill may cut its answer off.
func (s *servers) try(method, path, body, last string) (*http.Response, error) {
	client := http.Client{Timeout: time.Minute}
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		r := must(http.NewRequestWithContext(s.t.Context(), method, "http://"+s.addrs[rand.IntN(len(s.addrs))]+path, strings.NewReader(body)))
		r.Header.Set("Content-Type", "application/json")
		if last != "" {
			r.Header.Set("Last-Event-ID", last)
		}
		res, err := client.Do(r)
		if err == nil && res.StatusCode/100 == 5 {
			text, _ := io.ReadAll(res.Body)
			err = errors.Join(fmt.Errorf("%s %s: %s %s", method, path, res.Status, text), res.Body.Close())
		}
		if err == nil || time.Now().After(end) {
			return res, err
		}
	}
}

// read makes a request until its whole answer is there.
func (s *servers) read(method, path, body string) string {
	for {
		res, err := s.try(method, path, body, "")
		if err != nil {
			s.t.Error(err)
			return ""
		}
		text, err := io.ReadAll(res.Body)
		if _ = res.Body.Close(); err == nil {
			return string(text)
		}
	}
}

// TestFleet kills any of three servers again and again, under clients that stream. Each client
// goes on at another server behind the last event that it saw: the numbers of what it sees grow,
// its run ends as if nothing had been, and a second reading of the whole stream has every
// number that it saw. A thread that waits for an answer goes on waiting, and gets it at last.
// SERVER_KILLS makes it longer, SERVER_SEED repeats the kills.
func TestFleet(t *testing.T) {
	pg, err := pgtest.New()
	if err != nil {
		pgtest.Need(t, err)
	}
	t.Cleanup(pg.Close)
	kills, clients := 4, 4
	if n, err := strconv.Atoi(os.Getenv("SERVER_KILLS")); err == nil {
		kills, clients = n, 16
	}
	seed := rand.Uint64()
	if n, err := strconv.ParseUint(os.Getenv("SERVER_SEED"), 10, 64); err == nil {
		seed = n
	}
	t.Logf("SERVER_SEED=%d SERVER_KILLS=%d", seed, kills)
	url := pg.Database(t)
	if err := errors.Join(postgres.Setup(t.Context(), url, postgres.Options{}), pgstore.Setup(t.Context(), url, postgres.Options{}, nil)); err != nil {
		t.Fatal(err)
	}
	s := &servers{t: t, url: url, addrs: make([]string, 3), cmds: make([]*exec.Cmd, 3)}
	for i := range s.addrs {
		s.addrs[i] = fmt.Sprint("127.0.0.1:", must(port.Free()))
		s.start(i)
	}
	defer func() {
		for i := range s.cmds {
			s.kill(i)
		}
	}()
	const waiting = "22222222-2222-4222-8222-222222222222"
	s.read("POST", "/threads", `{"thread_id":"`+waiting+`"}`)
	s.read("POST", "/threads/"+waiting+"/runs/wait", `{"assistant_id":"asker","input":{"text":"x"}}`)

	var streaming sync.WaitGroup
	over := make(chan struct{})
	for i := range clients {
		streaming.Go(func() { s.streams(i, over) })
	}
	random := rand.New(rand.NewPCG(seed, 0))
	for range kills {
		time.Sleep(time.Duration(50+random.IntN(300)) * time.Millisecond)
		i := random.IntN(len(s.addrs))
		s.kill(i)
		s.start(i)
	}
	close(over)
	streaming.Wait()
	if text := s.read("GET", "/threads/"+waiting, ""); !strings.Contains(text, `"status":"interrupted"`) {
		t.Errorf("the thread that waits: %s", text)
	}
	if text := s.read("POST", "/threads/"+waiting+"/runs/wait", `{"assistant_id":"asker","command":{"resume":"yes"}}`); !strings.Contains(text, `"log":["yes"]`) {
		t.Errorf("the answer: %s", text)
	}
}

// streams runs the graph on threads until over is closed, and at least once.
func (s *servers) streams(client int, over <-chan struct{}) {
	for n := 0; ; n++ {
		thread := fmt.Sprintf("11111111-1111-4111-8%03d-%012d", n, client)
		s.read("POST", "/threads", `{"thread_id":"`+thread+`","if_exists":"do_nothing"}`)
		s.stream(thread)
		select {
		case <-over:
			return
		default:
		}
	}
}

// event is one of a stream.
type event struct {
	id         int
	name, data string
}

// events reads those of an answer. whole is false if it was cut off.
func events(r io.Reader) (list []event, whole bool) {
	in := bufio.NewReader(r)
	var e event
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return list, err == io.EOF
		}
		name, value, _ := strings.Cut(strings.TrimRight(line, "\r\n"), ": ")
		switch name {
		case "event":
			e.name = value
		case "data":
			e.data = value
		case "id":
			e.id, _ = strconv.Atoi(value)
		case "":
			if e.name != "" {
				list = append(list, e)
			}
			e = event{}
		}
	}
}

func (s *servers) stream(thread string) {
	t := s.t
	place, last := "", ""
	var res *http.Response
	var err error
	for place == "" {
		// A request whose answer was lost is made again: of the first run nothing must be left.
		if res, err = s.try("POST", "/threads/"+thread+"/runs/stream", `{"assistant_id":"long","input":{"text":"x"},"stream_resumable":true,"multitask_strategy":"rollback"}`, ""); err != nil {
			t.Error(err)
			return
		}
		place = res.Header.Get("Location")
	}
	var seen []event
	for {
		list, whole := events(res.Body)
		_ = res.Body.Close()
		seen = append(seen, list...)
		if whole {
			break
		}
		last = "0"
		if len(seen) > 0 {
			last = strconv.Itoa(seen[len(seen)-1].id)
		}
		if res, err = s.try("GET", place, "", last); err != nil {
			t.Error(err)
			return
		}
	}
	for i := 1; i < len(seen); i++ {
		if seen[i].id <= seen[i-1].id {
			t.Errorf("thread %s: %v after %v", thread, seen[i], seen[i-1])
		}
	}
	full := s.replay(place)
	if a, b := ids(seen), ids(full); !slices.Equal(a, b) {
		t.Errorf("thread %s: the client saw the events %v of %v", thread, a, b)
	}
	var state struct {
		Values struct {
			Log []string `json:"log"`
		} `json:"values"`
		Next []string `json:"next"`
	}
	text := s.read("GET", "/threads/"+thread+"/state", "")
	if err := json.Unmarshal([]byte(text), &state); err != nil || len(state.Next) > 0 || len(state.Values.Log) == 0 || len(state.Values.Log)%steps != 0 {
		t.Errorf("thread %s ends with %s", thread, text)
	}
}

// replay reads a stream from its beginning, in one piece.
func (s *servers) replay(place string) []event {
	for {
		res, err := s.try("GET", place, "", "0")
		if err != nil {
			s.t.Error(err)
			return nil
		}
		list, whole := events(res.Body)
		if _ = res.Body.Close(); whole {
			return list
		}
	}
}

func ids(list []event) (out []int) {
	for _, e := range list {
		out = append(out, e.id)
	}
	return out
}
