//go:build linux

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/stele-go/stele/postgres"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver"
)

// request asks a side for one measurement, or, with Chat, for one chat of so many steps, or,
// with Prune, to keep the newest checkpoint of the chat alone. A side opens its connections with
// the first request, and keeps them.
type request struct {
	URL     string  `json:"url"`
	Threads int     `json:"threads,omitempty"`
	Seconds float64 `json:"seconds,omitempty"`
	Nodes   int     `json:"nodes,omitempty"`
	Chat    int     `json:"chat,omitempty"`
	Prune   bool    `json:"prune,omitempty"`
}

// answer is what a side did.
type answer struct {
	Seconds    float64 `json:"seconds"`
	CPU        float64 `json:"cpu"` // of the client's process
	Supersteps int64   `json:"supersteps"`
}

// serve is stele's side: it answers requests, one a line, until in ends.
func serve(in io.Reader, out io.Writer) error {
	lines, answers := bufio.NewScanner(in), json.NewEncoder(out)
	ctx := context.Background()
	var s *postgres.Saver
	for lines.Scan() {
		var r request
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return err
		}
		if s == nil {
			var err error
			if s, err = openSaver(ctx, r.URL); err != nil {
				return err
			}
			defer s.Close()
		}
		a, err := r.measure(ctx, s)
		if err != nil {
			return err
		}
		if err := answers.Encode(a); err != nil {
			return err
		}
	}
	return lines.Err()
}

func openSaver(ctx context.Context, url string) (*postgres.Saver, error) {
	url += " pool_max_conns=16 default_query_exec_mode=cache_statement"
	if err := postgres.Setup(ctx, url, postgres.Options{}); err != nil {
		return nil, err
	}
	return postgres.Open(ctx, url, postgres.Options{})
}

func (r request) measure(ctx context.Context, s *postgres.Saver) (a answer, err error) {
	if r.Chat > 0 {
		return answer{Supersteps: int64(r.Chat)}, chat(ctx, s, r.Chat)
	}
	if r.Prune {
		_, err := s.Prune(ctx, []string{"chat"}, saver.KeepLatest)
		return answer{}, err
	}
	g, err := line(s, r.Nodes)
	if err != nil {
		return a, err
	}
	begin, computed := time.Now(), cpuSeconds()
	var done atomic.Int64
	var all sync.WaitGroup
	errs := make([]error, r.Threads)
	for k := range r.Threads {
		all.Go(func() {
			for n := 0; time.Since(begin).Seconds() < r.Seconds && errs[k] == nil; n++ {
				at := pregel.Thread(fmt.Sprint(begin.UnixNano(), "-", k, "-", n))
				res, err := g.Invoke(ctx, at, map[string]any{"sum": 0})
				if err == nil && res.Map()["sum"] != r.Nodes {
					err = fmt.Errorf("the sum is %v", res.Map()["sum"])
				}
				errs[k] = err
				done.Add(int64(r.Nodes) + 1)
			}
		})
	}
	all.Wait()
	return answer{time.Since(begin).Seconds(), cpuSeconds() - computed, done.Load()}, errors.Join(errs...)
}

// line is a graph of n nodes, one after another.
func line(s saver.Saver, n int) (*pregel.Graph, error) {
	b := graph.New(graph.Key("sum", channel.Reduce(channel.Add[int])))
	last := graph.Start
	for i := range n {
		name := fmt.Sprintf("node%02d", i)
		b = b.Node(name, func(context.Context, any) (any, error) { return map[string]any{"sum": 1}, nil }).Edge(last, name)
		last = name
	}
	return b.Compile(graph.Options{Saver: s})
}

// chat has a chat of so many steps: the list of messages grows by 400 bytes with each.
func chat(ctx context.Context, s saver.Saver, steps int) error {
	text := strings.Repeat("words and ", 40)
	g, err := graph.New(graph.Key("messages", channel.Reduce(channel.Append[string]))).
		Node("model", func(context.Context, any) (any, error) { return map[string]any{"messages": []string{text}}, nil }).
		Edge(graph.Start, "model").Compile(graph.Options{Saver: s})
	for range steps / 2 {
		if err == nil {
			_, err = g.Invoke(ctx, pregel.Thread("chat"), map[string]any{"messages": []string{text}})
		}
	}
	return err
}

func cpuSeconds() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}
