package runstest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/store"
)

// Torture is a program whose processes may be killed, stopped and cut off at any moment.
// Work is what a worker process does, Drive submits the runs, in any process, and Check
// tells at the end whether a guarantee of package runs was broken.
//
// A run goes through a fan-out by Send, a graph inside, a question, a sleep and a signal. Each task has an
// effect outside under its pregel.IdempotencyKey: a file in Dir, which a second one with the
// same key does not change. A log in Dir says, in one order for all processes, which tasks
// began and which had their writes acknowledged.
type Torture struct {
	Dir   string
	Queue runs.Queue
	Saver saver.Saver
	Store store.Store // has the signals
	// Threads and Runs are how many threads there are, and runs on each.
	Threads, Runs int
	// Seed makes the tasks take different times.
	Seed uint64
	// Version is that of the graph, 1 to 3; 0 is 1. The second has a field more, and another name for the node
	// that asks; the third has another type of that field. Each has migrations from the versions before it.
	Version int
}

// paid is the signal that ends a run.
var paid = pregel.NewSignal[int]("paid")

// items is how many tasks a run fans out to.
const items = 3

// effects is how many effects a run has: of its items, of the graph inside, at the end.
const effects = items + 2

func threadName(i int) string { return fmt.Sprintf("thread-%03d", i) }

// said returns the expected state of a thread at the end.
func (x *Torture) said() []string {
	var log []string
	for k := range x.Runs {
		log = append(log, fmt.Sprint("in ", k))
		for i := range items {
			log = append(log, fmt.Sprintf("item %d of %d", i, k))
		}
		log = append(log, fmt.Sprint("inside ", k), fmt.Sprintf("answer %d to %d", k, k), fmt.Sprint("done ", k))
	}
	return log
}

// note appends a line to the log of all processes.
func (x *Torture) note(format string, args ...any) {
	f, err := os.OpenFile(filepath.Join(x.Dir, "log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err == nil {
		_, err = fmt.Fprintf(f, format+"\n", args...)
		f.Close()
	}
	if err != nil {
		panic(err)
	}
}

// effect has a task's effect outside of the store, once for a key.
func (x *Torture) effect(ctx context.Context, name string) error {
	info, _ := pregel.Task(ctx)
	key, err := pregel.IdempotencyKey(ctx, "effect")
	if err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(x.Dir, "effects", key), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = fmt.Fprint(f, info.ThreadID, " ", name)
	return err
}

// work is the time a task takes; the process may die in it.
func work(ctx context.Context, r *rand.Rand) error {
	t := time.NewTimer(time.Duration(r.IntN(8)) * time.Millisecond)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Graph is the graph of the program.
func (x *Torture) Graph() (*pregel.Graph, error) {
	var mu sync.Mutex
	random := rand.New(rand.NewPCG(x.Seed, uint64(os.Getpid())))
	task := func(name string, then func(ctx context.Context, state map[string]any) (string, error)) pregel.Func {
		return func(ctx context.Context, state any) (any, error) {
			info, _ := pregel.Task(ctx)
			x.note("begin %s %s %d", info.TaskID, name, os.Getpid())
			mu.Lock()
			r := rand.New(rand.NewPCG(random.Uint64(), random.Uint64()))
			mu.Unlock()
			if err := work(ctx, r); err != nil {
				return nil, err
			}
			m, _ := state.(map[string]any)
			said, err := then(ctx, m)
			if err != nil {
				return nil, err
			}
			if err := work(ctx, r); err != nil { // between the effect and its writes
				return nil, err
			}
			return map[string]any{"log": []string{said}}, nil
		}
	}
	number := func(state map[string]any) int { n, _ := state["run"].(int); return n }
	fields := func() []graph.Field {
		return []graph.Field{graph.Key("log", channel.Reduce(channel.Append[string])), graph.Key("run", channel.LastValue[int]())}
	}
	outside, ask := fields(), "ask"
	split := func(context.Context, any) (any, error) { return map[string]any{}, nil }
	switch x.Version {
	case 2:
		ask, outside = "question", append(outside, graph.Key("note", channel.LastValue[string]()))
		split = func(_ context.Context, state any) (any, error) {
			return map[string]any{"note": fmt.Sprint(number(state.(map[string]any)))}, nil
		}
	case 3:
		ask, outside = "question", append(outside, graph.Key("note", channel.LastValue[int]()))
		split = func(_ context.Context, state any) (any, error) {
			return map[string]any{"note": number(state.(map[string]any))}, nil
		}
	}
	inside, err := graph.New(fields()...).
		Node("deep", task("deep", func(ctx context.Context, state map[string]any) (string, error) {
			said := fmt.Sprint("inside ", number(state))
			return said, x.effect(ctx, said)
		})).
		Edge(graph.Start, "deep").Compile(graph.Options{})
	if err != nil {
		return nil, err
	}
	return graph.New(outside...).
		Node("split", split).
		Node("item", pregel.NodeOf(func(ctx context.Context, which []int) (any, error) {
			said := fmt.Sprintf("item %d of %d", which[0], which[1])
			return task("item", func(ctx context.Context, _ map[string]any) (string, error) { return said, x.effect(ctx, said) })(ctx, nil)
		})).
		Node("inside", func(ctx context.Context, state any) (any, error) {
			m, _ := state.(map[string]any)
			res, err := inside.Invoke(ctx, pregel.Inside(), map[string]any{"run": number(m)})
			if err != nil {
				return nil, err
			}
			return map[string]any{"log": res.Map()["log"]}, nil
		}).
		Node(ask, task("ask", func(ctx context.Context, state map[string]any) (string, error) {
			answer, err := pregel.AskFor[int](ctx, fmt.Sprint("question ", number(state)))
			return fmt.Sprintf("answer %d to %d", answer, number(state)), err
		})).
		Node("done", task("done", func(ctx context.Context, state map[string]any) (string, error) {
			if err := pregel.Sleep(ctx, 20*time.Millisecond); err != nil {
				return "", err
			}
			if n, err := paid.Receive(ctx); err != nil || n != number(state) {
				return "", cmp.Or(err, fmt.Errorf("run %d has got signal %d", number(state), n))
			}
			said := fmt.Sprint("done ", number(state))
			return said, x.effect(ctx, said)
		})).
		Edge(graph.Start, "split").
		Conditional("split", "fan", func(_ context.Context, state any) (any, error) {
			var sends []pregel.Send
			for i := range items {
				sends = append(sends, pregel.Send{Node: "item", Arg: []int{i, number(state.(map[string]any))}})
			}
			return sends, nil
		}, "item").
		Edge("item", "inside").Edge("inside", ask).Edge(ask, "done").
		Compile(graph.Options{Name: "torture", Saver: &acknowledged{x.Saver, x}, Store: x.Store, Version: strconv.Itoa(max(x.Version, 1)),
			Migrations: tortureMigrations[:max(x.Version-1, 0)]})
}

// tortureMigrations lead from each version of the graph to the next.
var tortureMigrations = []pregel.Migration{
	{From: "1", To: "2", Nodes: map[string]string{"ask": "question"}},
	{From: "2", To: "3",
		Values: func(values map[string]any) (err error) {
			if note, there := values["note"]; there {
				values["note"], err = numbered(note)
			}
			return err
		},
		Write: func(key string, value any) (string, any, error) {
			var err error
			if key == "note" {
				value, err = numbered(value)
			}
			return key, value, err
		}},
}

// numbered is a note as version 3 has it. It may be so already: version 1 leaves it as it is, and what a task of
// version 3 wrote may be stored behind a checkpoint of version 2.
func numbered(note any) (any, error) {
	if text, ok := note.(string); ok {
		return strconv.ParseInt(text, 10, 64)
	}
	return note, nil
}

// acknowledged notes the tasks whose writes the saver has acknowledged.
type acknowledged struct {
	saver.Saver
	x *Torture
}

func (s *acknowledged) note(writes []saver.Write, taskID string) {
	if taskID == saver.NullTaskID || slices.ContainsFunc(writes, func(w saver.Write) bool {
		return slices.Contains([]string{saver.ChannelInterrupt, saver.ChannelError, saver.ChannelResume, saver.ChannelScheduled}, w.Channel)
	}) {
		return // it did not end
	}
	s.x.note("acked %s", taskID)
}

// PutWrites implements saver.Saver.
func (s *acknowledged) PutWrites(ctx context.Context, cfg saver.Config, writes []saver.Write, taskID, path string) error {
	err := s.Saver.PutWrites(ctx, cfg, writes, taskID, path)
	if err == nil && !saver.SyncDeferred(ctx) {
		s.note(writes, taskID)
	}
	return err
}

// PutRequest implements saver.Saver.
func (s *acknowledged) PutRequest(ctx context.Context, req saver.PutRequest) (saver.Config, error) {
	at, err := s.Saver.PutRequest(ctx, req)
	if err == nil {
		for _, w := range req.Writes {
			s.note(w.Writes, w.TaskID)
		}
	}
	return at, err
}

// Work is what a worker process does until ctx ends.
func (x *Torture) Work(ctx context.Context) error {
	if err := os.MkdirAll(filepath.Join(x.Dir, "effects"), 0o755); err != nil {
		return err
	}
	g, err := x.Graph()
	if err != nil {
		return err
	}
	w := &runs.Worker{Queue: x.Queue, Saver: x.Saver, Graphs: map[string]*pregel.Graph{"torture": g}, Concurrency: 8,
		Backoff: func(int) time.Duration { return 20 * time.Millisecond }}
	return w.Run(ctx)
}

// Drive submits all runs, each when the one before it on its thread has ended, answers their
// questions, sends their signals, and returns when the last one has ended. It may be called again, in any
// process: keys make one run of what is submitted twice.
func (x *Torture) Drive(ctx context.Context) error {
	g, err := x.Graph()
	if err != nil {
		return err
	}
	errs := make(chan error, x.Threads)
	for i := range x.Threads {
		go func() { errs <- x.drive(ctx, g, threadName(i)) }()
	}
	var all error
	for range x.Threads {
		all = errors.Join(all, <-errs)
	}
	return all
}

func (x *Torture) drive(ctx context.Context, g *pregel.Graph, thread string) error {
	for k := range x.Runs {
		for what, input := range []any{
			map[string]any{"run": k, "log": []string{fmt.Sprint("in ", k)}},
			pregel.Command{Resume: k},
		} {
			r, err := x.Queue.Submit(ctx, runs.Request{Key: fmt.Sprint(thread, "/", k, "/", what), Input: input,
				Spec: runs.Spec{ThreadID: thread, Graph: "torture", Attempts: 1000}})
			if err == nil && what == 1 {
				err = paid.Send(ctx, g, thread, k, pregel.SignalOptions{Key: strconv.Itoa(k), Queue: x.Queue})
			}
			if err == nil {
				r, err = runs.Wait(ctx, x.Queue, r.ID)
			}
			if err != nil {
				return err
			}
			if r.Status != runs.Success || r.Waiting != (what == 0) {
				return fmt.Errorf("thread %s, run %d/%d (%s) ended as %s, waiting %t, after %d attempts: %s", thread, k, what, r.ID, r.Status,
					r.Waiting, r.Attempt, r.Error)
			}
		}
	}
	return nil
}

// Check returns what was broken: states that are not those of an undisturbed run, chains
// with forks, effects that are missing or came under two keys, tasks that began again after
// their writes were acknowledged.
func (x *Torture) Check(ctx context.Context) error {
	var broken error
	report := func(format string, args ...any) { broken = errors.Join(broken, fmt.Errorf(format, args...)) }
	g, err := x.Graph()
	if err != nil {
		return err
	}
	for i := range x.Threads {
		thread := threadName(i)
		st, err := g.GetState(ctx, pregel.Thread(thread))
		if err != nil {
			return err
		}
		values, _ := st.Values.(map[string]any)
		if log, _ := values["log"].([]string); !slices.Equal(log, x.said()) {
			report("thread %s: state %q, want %q", thread, log, x.said())
		}
		children := map[string]int{}
		root := ""
		for tup, err := range x.Saver.List(ctx, saver.Query{ThreadID: thread, Namespace: &root}) {
			if err != nil {
				return err
			}
			if tup.Parent != nil {
				children[tup.Parent.CheckpointID]++
			}
		}
		for id, n := range children {
			if n > 1 {
				report("thread %s: checkpoint %s has %d children", thread, id, n)
			}
		}
	}
	found, err := effectsIn(x.Dir)
	if err != nil {
		return err
	}
	names := map[string]int{}
	for _, text := range found {
		if names[text]++; names[text] > 1 && text != "" {
			report("effect %q came under two keys", text)
		}
	}
	if want := x.Threads * x.Runs * effects; len(found) != want {
		report("%d effects, want %d", len(found), want)
	}
	log, err := os.ReadFile(filepath.Join(x.Dir, "log"))
	if err != nil {
		return err
	}
	acked := map[string]bool{}
	for line := range strings.Lines(string(log)) {
		switch words := strings.Fields(line); {
		case len(words) >= 2 && words[0] == "acked":
			acked[words[1]] = true
		case len(words) >= 2 && words[0] == "begin" && acked[words[1]]:
			report("a task began after its writes were acknowledged: %s", line)
		}
	}
	return broken
}

// effectsIn are the texts of the effects that programs in a directory have had, one for each key. One whose program was
// killed before it wrote the text is "".
func effectsIn(dir string) (texts []string, err error) {
	dir = filepath.Join(dir, "effects")
	found, err := os.ReadDir(dir)
	for _, f := range found {
		text, rerr := os.ReadFile(filepath.Join(dir, f.Name()))
		texts, err = append(texts, string(text)), errors.Join(err, rerr)
	}
	return texts, err
}
