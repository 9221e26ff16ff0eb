// Command durability shows what each durability mode stores, and when. It prints every call of
// the saver and every node that runs. The same graph runs in each mode, and the last time
// with a question in the middle.
//
//	go run ./examples/durability
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/memory"
)

// telling is a saver that prints what it stores. With a gate it stores nothing before the gate
// is closed, like a disk that is slower than the run. The tasks of a superstep end in any
// order, so their writes are printed in the order of the channels.
type telling struct {
	*memory.Saver
	out  io.Writer
	gate chan struct{}

	mu     sync.Mutex
	writes []string // not told yet
}

// tell tells what tasks wrote.
func (s *telling) tell() {
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.Sort(s.writes)
	for _, w := range s.writes {
		fmt.Fprintln(s.out, "put_writes called with writes", w)
	}
	s.writes = nil
}

// PutRequest stores a checkpoint, and with it the writes of the task that ended last, and
// tells of them.
func (s *telling) PutRequest(ctx context.Context, req saver.PutRequest) (saver.Config, error) {
	s.wait()
	s.tell()
	with := ""
	for _, w := range req.Writes {
		told, err := tellOf(w.Writes)
		if err != nil {
			return saver.Config{}, err
		}
		with += ", with writes " + told
	}
	fmt.Fprintf(s.out, "put called with checkpoint for step %v%s\n", req.Metadata["step"], with)
	return s.Saver.PutRequest(ctx, req)
}

// PutWrites stores writes and tells of them.
func (s *telling) PutWrites(ctx context.Context, cfg saver.Config, writes []saver.Write, taskID, path string) error {
	s.wait()
	told, err := tellOf(writes)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.writes = append(s.writes, told)
	s.mu.Unlock()
	return s.Saver.PutWrites(ctx, cfg, writes, taskID, path)
}

// tellOf is what a task wrote, as text.
func tellOf(writes []saver.Write) (string, error) {
	var told []string
	for _, w := range writes {
		v, err := w.Value.Any()
		if err != nil {
			return "", err
		}
		if w.Channel == "__interrupt__" {
			v = "…"
		}
		told = append(told, fmt.Sprintf("%s: %v", w.Channel, v))
	}
	return strings.Join(told, ", "), nil
}

func (s *telling) wait() {
	if s.gate != nil {
		<-s.gate
	}
}

func main() {
	for _, d := range []pregel.Durability{pregel.Sync, pregel.Async, pregel.Exit} {
		if err := run(os.Stdout, d, false); err != nil {
			log.Fatal(err)
		}
	}
	if err := run(os.Stdout, pregel.Exit, true); err != nil {
		log.Fatal(err)
	}
}

// run runs foo1 and foo2, then bar1 and bar2. asks makes bar1 ask.
func run(out io.Writer, d pregel.Durability, asks bool) error {
	s := &telling{Saver: memory.New(memory.Options{}), out: out}
	if d == pregel.Async {
		s.gate = make(chan struct{})
	}
	says := func(name string) pregel.Func {
		return func(ctx context.Context, _ any) (any, error) {
			fmt.Fprintf(out, "node '%s' is called.\n", name)
			if name == "bar2" && s.gate != nil {
				close(s.gate)
			}
			if name == "bar1" && asks {
				return pregel.Ask(ctx, "manual interrupt")
			}
			return []string{name}, nil
		}
	}
	spec := pregel.Spec{Input: pregel.Many("foo"), Output: pregel.Many("output"), Channels: map[string]channel.Channel{
		"foo": channel.LastValue[string](), "bar1": channel.LastValue[[]string](), "bar2": channel.LastValue[[]string](),
		"output": channel.Reduce(channel.Append[string]),
	}}
	for _, n := range [][3]string{{"foo1", "foo", "bar1"}, {"foo2", "foo", "bar2"}, {"bar1", "bar1", "output"}, {"bar2", "bar2", "output"}} {
		node, err := pregel.NewNode(n[0]).TriggerOn(n[1]).Do(says(n[0])).WriteTo(n[2]).Build()
		if err != nil {
			return err
		}
		spec.Nodes = append(spec.Nodes, node)
	}
	app, err := pregel.New(spec, pregel.Options{Saver: s})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "-- %s, asks: %v\n", d, asks)
	at, opts := pregel.Thread("123"), pregel.RunOptions{Durability: d, MaxConcurrency: 1}
	res, err := app.Invoke(context.Background(), at, map[string]any{"foo": "start"}, opts)
	if err != nil {
		return err
	}
	s.tell()
	fmt.Fprintln(out, "result:", res.Map()["output"], "waiting:", len(res.Interrupts))
	return nil
}
