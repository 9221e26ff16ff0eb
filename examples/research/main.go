// Command research reads hundreds of sources side by side. One node sends a packet for each
// source, workers read them, at most sixteen at a time, and a reducer collects what they found in
// the order of the packets. A source that is busy is asked again; one that is gone is noted, and
// harms no other. What has been read is stored at once: the run is cancelled in the middle, and
// the one that goes on reads only what is left.
//
//	go run ./examples/research
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stele-go/stele/agent/model"
	"github.com/stele-go/stele/message"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver/memory"
)

// Research is the state.
type Research struct {
	Question string   `json:"question"`
	Sources  int      `json:"sources"`
	Findings []string `json:"findings" state:"append"`
	Gone     []int    `json:"gone" state:"append"`
	Report   string   `json:"report"`
}

var (
	errBusy = errors.New("busy")
	errGone = errors.New("gone")
)

// web is where the sources are. Every tenth is busy at the first time, every hundredth is gone.
type web struct {
	asked sync.Map
	reads atomic.Int64
}

func (w *web) get(source int) (string, error) {
	if source%100 == 99 {
		return "", errGone
	}
	if _, again := w.asked.LoadOrStore(source, true); source%10 == 0 && !again {
		return "", errBusy
	}
	w.reads.Add(1)
	return fmt.Sprintf("Source %d says %d.", source, source%7), nil
}

// build makes the graph: plan, read each source, write the report. read is told of each source
// that was read.
func build(w *web, m model.Model, read func(n int64)) (*graph.Graph[Research], error) {
	b := graph.For[Research]()
	reader := graph.Worker(b, "read", func(ctx context.Context, source int, r *Research) (graph.Update, error) {
		text, err := w.get(source)
		if errors.Is(err, errGone) {
			return graph.Write(&r.Gone, []int{source}), nil
		}
		if err != nil {
			return nil, err
		}
		finding, err := model.Collect(ctx, m, model.Request{Messages: []message.Message{message.System("Shorten."), message.Human(text)}})
		if err != nil {
			return nil, err
		}
		read(w.reads.Load())
		return graph.Write(&r.Findings, []string{finding.Text()}), nil
	}, graph.NodeOptions{Retry: []pregel.RetryPolicy{{RetryOn: pregel.RetryOnErrors(errBusy), InitialInterval: time.Millisecond, NoJitter: true}}})
	return b.
		Node("plan", func(_ context.Context, r *Research) (graph.Update, error) {
			sources := make([]int, r.Sources)
			for i := range sources {
				sources[i] = i
			}
			return reader.Send(sources...), nil
		}).
		Node("report", func(_ context.Context, r *Research) (graph.Update, error) {
			return graph.Write(&r.Report, fmt.Sprintf("%s %d findings, from %q to %q; gone: %v",
				r.Question, len(r.Findings), r.Findings[0], r.Findings[len(r.Findings)-1], r.Gone)), nil
		}).
		Edge(graph.Start, "plan").Edge("read", "report").Edge("report", graph.End).
		Compile(graph.Options{Saver: memory.New(memory.Options{})})
}

func run(ctx context.Context, sources int, out io.Writer) error {
	shorten := model.NewScriptedFunc(func(_ context.Context, r model.Request) (model.Answer, error) {
		words := strings.Fields(r.Messages[1].Text())
		return model.Text(words[len(words)-1]), nil
	})
	w := &web{}
	first, cancel := context.WithCancel(ctx)
	g, err := build(w, shorten, func(n int64) {
		if n >= int64(sources)/2 {
			cancel()
		}
	})
	if err != nil {
		return err
	}
	at, opts := pregel.Thread("research"), pregel.RunOptions{MaxConcurrency: 16}
	_, err = g.Run(first, at, Research{Question: "What do they say?", Sources: sources}, opts)
	fmt.Fprintf(out, "%v\n", err)
	if !errors.Is(err, context.Canceled) {
		return fmt.Errorf("the run was not cancelled: %w", err)
	}
	before := w.reads.Load()
	res, err := g.Continue(ctx, at, opts)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "read %d sources before, and %d after\n%s\n", before, w.reads.Load()-before, res.State.Report)
	return nil
}

func main() {
	sources := flag.Int("sources", 400, "how many sources to read")
	flag.Parse()
	if err := run(context.Background(), *sources, os.Stdout); err != nil {
		log.Fatal(err)
	}
}
