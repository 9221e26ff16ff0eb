package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"runtime/pprof"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/server"
	"github.com/stele-go/stele/store"
)

// graphPy is the graph for Python; build has it for Go.
//
//go:embed graph.py
var graphPy []byte

func build(o graph.Options) (*pregel.Graph, error) {
	node := func(name string) pregel.Func {
		return func(context.Context, any) (any, error) { return map[string]any{"log": []string{name}}, nil }
	}
	return graph.New(graph.Key("text", channel.LastValue[string]()), graph.Key("log", channel.Reduce(channel.Append[string]))).
		Node("a", node("a")).Node("b", node("b")).Node("c", node("c")).Sequence(graph.Start, "a", "b", "c").Compile(o)
}

// serve serves the graph until the process is killed, or interrupted if it writes a profile. It
// collects garbage as docs/server.md advises.
func serve(ctx context.Context, dir, addr, profile string, direct bool) error {
	debug.SetGCPercent(400)
	if profile != "" {
		f, err := os.Create(profile)
		if err != nil {
			return err
		}
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		stop := make(chan os.Signal, 1)
		signal.Notify(stop, os.Interrupt)
		go func() {
			<-stop
			pprof.StopCPUProfile()
			os.Exit(0)
		}()
	}
	s, err := disk.Open(dir, disk.Options{})
	if err != nil {
		return err
	}
	items, err := store.On(s, store.Options{})
	if err != nil {
		return err
	}
	queue, err := runs.NewLocal(ctx, items, runs.LocalOptions{})
	if err != nil {
		return err
	}
	g, err := build(graph.Options{Name: "graph", Saver: s, Store: items})
	if err != nil {
		return err
	}
	if direct {
		return http.ListenAndServe(addr, alone(g, s))
	}
	api, err := server.New(server.Config{Graphs: map[string]*pregel.Graph{"graph": g}, Saver: s, Store: items, Queue: queue, Auth: server.NoAuth()})
	if err != nil {
		return err
	}
	return http.ListenAndServe(addr, api)
}

// alone serves what the benchmark asks for with net/http and the graph alone, as a program would
// that has no queue: its runs are stored, but nobody goes on with one when it is killed, and there
// are no events of it that a client could come back to.
func alone(g *pregel.Graph, s *disk.Saver) http.Handler {
	mux := http.NewServeMux()
	answer := func(w http.ResponseWriter, v any, err error) {
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(v) // the client may be gone
	}
	mux.HandleFunc("GET /ok", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("POST /threads", func(w http.ResponseWriter, r *http.Request) {
		answer(w, map[string]any{"thread_id": uuid.NewString()}, nil)
	})
	run := func(w http.ResponseWriter, r *http.Request) {
		var in struct {
			Input struct {
				Text string   `json:"text"`
				Log  []string `json:"log"`
			} `json:"input"`
		}
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		res, err := g.Invoke(r.Context(), pregel.Thread(r.PathValue("id")), map[string]any{"text": in.Input.Text, "log": in.Input.Log},
			pregel.RunOptions{DeferSync: true})
		if err == nil {
			err = s.Sync(r.Context())
		}
		if err != nil {
			answer(w, nil, err)
			return
		}
		answer(w, res.Value, nil)
	}
	mux.HandleFunc("POST /threads/{id}/runs/wait", run)
	mux.HandleFunc("POST /threads/{id}/runs/stream", run)
	return mux
}

// target is a server that is measured, a process of its own.
type target struct {
	name, url string
	dir       string
	cmd       *exec.Cmd
	client    *http.Client
}

// startStele starts this program as a server.
func startStele(ctx context.Context, addr, profile string) (*target, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return start(ctx, "stele", addr, func(dir string) *exec.Cmd {
		return exec.Command(self, "-serve", dir, "-addr", addr, "-cpuprofile", profile)
	})
}

// startAlone starts this program as a server without package server.
func startAlone(ctx context.Context, addr string) (*target, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return start(ctx, "net/http and the graph", addr, func(dir string) *exec.Cmd {
		return exec.Command(self, "-serve", dir, "-addr", addr, "-alone")
	})
}

// startDev starts langgraph dev.
func startDev(ctx context.Context, venv, addr string) (*target, error) {
	_, port, _ := strings.Cut(addr, ":")
	return start(ctx, "langgraph dev", addr, func(dir string) *exec.Cmd {
		cmd := exec.Command(filepath.Join(venv, "bin", "langgraph"), "dev", "--no-browser", "--no-reload", "--port", port, "--n-jobs-per-worker", "16")
		cmd.Env = append(os.Environ(), "LANGSMITH_TRACING=false", "LANGGRAPH_CLI_NO_ANALYTICS=1", "LOG_LEVEL=ERROR")
		return cmd
	})
}

func start(ctx context.Context, name, addr string, command func(dir string) *exec.Cmd) (*target, error) {
	dir, err := os.MkdirTemp("", "serverbench")
	if err != nil {
		return nil, err
	}
	t := &target{name: name, url: "http://" + addr, dir: dir, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}}}
	err = errors.Join(os.WriteFile(filepath.Join(dir, "graph.py"), graphPy, 0o600),
		os.WriteFile(filepath.Join(dir, "langgraph.json"), []byte(`{"dependencies":["."],"graphs":{"graph":"./graph.py:graph"}}`), 0o600))
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	var said bytes.Buffer
	t.cmd = command(filepath.Join(dir, "store"))
	t.cmd.Dir, t.cmd.Stderr, t.cmd.Stdout = dir, &said, io.Discard
	if err := t.cmd.Start(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, t.url+"/ok", nil)
		if err != nil {
			return nil, errors.Join(err, t.stop())
		}
		if res, err := t.client.Do(r); err == nil {
			return t, res.Body.Close()
		}
	}
	return nil, errors.Join(fmt.Errorf("%s does not answer: %s", name, said.String()), t.stop())
}

func (t *target) stop() error {
	err := t.cmd.Process.Signal(os.Interrupt) // a profile is written
	ended := time.AfterFunc(5*time.Second, func() { _ = t.cmd.Process.Kill() })
	_ = t.cmd.Wait() // it was stopped
	ended.Stop()
	return errors.Join(err, os.RemoveAll(t.dir))
}

func (t *target) proc(file string) (string, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", t.cmd.Process.Pid, file))
	return string(text), err
}

// tick is the unit of times in /proc.
const tick = 10 * time.Millisecond

// cpu is the time that the server has used.
func (t *target) cpu() (time.Duration, error) {
	text, err := t.proc("stat")
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:]) // from the third field on
	total := int64(0)
	for _, f := range fields[11:13] { // utime and stime
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0, err
		}
		total += n
	}
	return time.Duration(total) * tick, nil
}

// memory is what is resident, in bytes.
func (t *target) memory() (int64, error) {
	text, err := t.proc("status")
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(text, "VmRSS:")
	kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	return kib << 10, err
}
