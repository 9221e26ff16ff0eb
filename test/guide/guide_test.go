package guide

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stele-go/stele/agent"
	"github.com/stele-go/stele/agent/model"
	"github.com/stele-go/stele/agent/tool"
	"github.com/stele-go/stele/message"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/pregel/killtest"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/saver/memory"
	"github.com/stele-go/stele/server"
	"github.com/stele-go/stele/store"
)

// flat is code without the indentation that its place gives it.
func flat(code string) string {
	return regexp.MustCompile(`(?m)^[ \t]+`).ReplaceAllString(code, "")
}

// TestSnippetsAreHere: each declaration of Go in a page stands in a test of this directory, of agents, of changes or of runs,
// so that it runs.
func TestSnippetsAreHere(t *testing.T) {
	var code strings.Builder
	for _, pattern := range []string{"*_test.go", "agents/*_test.go", "changes/*_test.go", "../../runs/guide_test.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatal(pattern, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			code.WriteString(flat(string(text)))
		}
	}
	python, err := os.ReadFile("../../wire/python/README.md") // whose program its own test runs
	if err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob("../../docs/guide/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```")
	declarations := regexp.MustCompile(`\n\n\b|\n\n// `) // what a block is made of; the test has imports of its own
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile("(?s)```python\n(.*?)```").FindAllSubmatch(text, -1) {
			if strings.Contains(string(m[1]), "Stele") && !strings.Contains(string(python), string(m[1])) {
				t.Errorf("%s has Python that does not run:\n%s", page, m[1])
			}
		}
		found := blocks.FindAllSubmatch(text, -1)
		if len(found) == 0 {
			t.Errorf("%s has no code", page)
		}
		for _, m := range found {
			for _, part := range declarations.Split(string(m[1]), -1) {
				if !strings.HasPrefix(part, "import ") && !strings.Contains(code.String(), flat(strings.TrimSpace(part)+"\n")) {
					t.Errorf("%s has code that does not run here:\n%s", page, part)
				}
			}
		}
	}
}

var weather = tool.Must(tool.New("weather", "", tool.Unchecked(`{"type":"object"}`), func(context.Context, struct{ City string }) (string, error) { return "rain", nil }))

func scripted(ctx context.Context, weather tool.Tool) error {
	m := model.NewScripted(
		model.Calls(message.ToolCall{Name: "weather", ID: "1", Args: map[string]any{"city": "Oslo"}}),
		model.Fail(errors.New("busy")), // the third request gets the next answer
		model.Text("It rains."),
	)
	g, err := agent.New(m, agent.Options{
		Tools:    []tool.Tool{weather},
		Defaults: graph.NodeOptions{Retry: []pregel.RetryPolicy{{InitialInterval: time.Nanosecond, NoJitter: true}}},
		Graph:    graph.Options{Saver: memory.New(memory.Options{}), RoundTrip: true},
	})
	if err != nil {
		return err
	}
	res, err := g.Invoke(ctx, pregel.Thread("t"), agent.Say("Oslo?"))
	if err != nil {
		return err
	}
	list, err := agent.Messages(res.Map())
	if err != nil {
		return err
	}
	if last := list[len(list)-1]; last.Text() != "It rains." || len(m.Requests()) != 3 {
		return fmt.Errorf("%q after %d requests", last.Text(), len(m.Requests()))
	}
	return nil
}

type Order struct {
	Item string `json:"item"`
	Sent bool   `json:"sent"`
}

func confirm(ctx context.Context, o *Order) (graph.Update, error) {
	ok, err := pregel.AskFor[bool](ctx, "send "+o.Item+"?")
	if err != nil {
		return nil, err
	}
	return graph.Write(&o.Sent, ok), nil
}

func question(ctx context.Context, orders *graph.Graph[Order]) error {
	res, err := orders.Run(ctx, pregel.Thread("o-1"), Order{Item: "tea"})
	if err != nil {
		return err
	}
	if q := res.Waiting[0].Value; q != "send tea?" {
		return fmt.Errorf("it asks %q", q)
	}
	if res, err = orders.Resume(ctx, pregel.Thread("o-1"), true); err != nil {
		return err
	}
	if !res.State.Sent {
		return errors.New("it was not sent")
	}
	return nil
}

var paid = pregel.NewSignal[bool]("paid")

func remind(ctx context.Context, bill string) (string, error) {
	if _, ok, err := paid.ReceiveFor(ctx, 72*time.Hour); ok || err != nil {
		return "", err
	}
	return "please pay " + bill, nil
}

func threeDays(ctx context.Context) error {
	items, err := store.NewMemory(store.Options{})
	if err != nil {
		return err
	}
	now := time.Now()
	options := pregel.Options{Saver: memory.New(memory.Options{}), Store: items, Env: pregel.Environment{Now: func() time.Time { return now }}}
	g, err := pregel.Entrypoint("remind", remind, pregel.EntrypointOptions{Options: options})
	if err != nil {
		return err
	}
	if _, err := g.Invoke(ctx, pregel.Thread("bill-1"), "bill 1"); err != nil {
		return err // it waits
	}
	now = now.Add(72 * time.Hour)
	if _, err := g.Recover(ctx, pregel.RecoverOptions{}); err != nil {
		return err
	}
	if text, err := g.Output(ctx, "bill-1"); err != nil || text != "please pay bill 1" {
		return fmt.Errorf("%v, %v", text, err)
	}
	return nil
}

// TestTesting runs the page about tests.
func TestTesting(t *testing.T) {
	if err := threeDays(t.Context()); err != nil {
		t.Error(err)
	}
	if err := scripted(t.Context(), weather); err != nil {
		t.Error(err)
	}
	orders, err := graph.For[Order]().Node("confirm", confirm).Sequence(graph.Start, "confirm", graph.End).Compile(graph.Options{Saver: memory.New(memory.Options{})})
	if err != nil {
		t.Fatal(err)
	}
	if err := question(t.Context(), orders); err != nil {
		t.Error(err)
	}
}

// Shipment is the state of the program that is killed.
type Shipment struct {
	Item string `json:"item"`
	Done bool   `json:"done"`
}

// compile makes a graph that ships once: a file named by the key.
func compile(s saver.Saver, hooks pregel.Hooks, dir string) (*graph.Graph[Shipment], error) {
	return graph.For[Shipment]().Node("ship", func(ctx context.Context, s *Shipment) (graph.Update, error) {
		key, err := pregel.IdempotencyKey(ctx, "ship")
		if err != nil {
			return nil, err
		}
		return graph.Write(&s.Done, true), os.WriteFile(filepath.Join(filepath.Dir(dir), filepath.Base(dir)+".shipped."+key), nil, 0o600)
	}).Sequence(graph.Start, "ship", graph.End).Compile(graph.Options{Saver: s, Hooks: hooks})
}

func shippedOnce(dir string) error {
	files, err := filepath.Glob(dir + ".shipped.*")
	if err == nil && len(files) != 1 {
		err = fmt.Errorf("shipped %d times", len(files))
	}
	return err
}

func life(ctx context.Context, dir string) error {
	s, err := disk.Open(dir, disk.Options{})
	if err != nil {
		return err
	}
	defer s.Close()
	g, err := compile(s, killtest.Hooks(pregel.Hooks{}), dir)
	if err != nil {
		return err
	}
	state, err := g.State(ctx, pregel.Thread("o-1"))
	switch {
	case err != nil:
		return err
	case state.Status == "": // nothing is stored yet
		_, err = g.Run(ctx, pregel.Thread("o-1"), Shipment{Item: "tea"})
	default:
		_, err = g.Continue(ctx, pregel.Thread("o-1"))
	}
	return err
}

func TestMain(m *testing.M) {
	killtest.Main(life) // a child process ends here
	os.Exit(m.Run())
}

func TestShippedOnce(t *testing.T) {
	_, err := killtest.Run(t.Context(), killtest.Options{Kills: 12, Dir: t.TempDir(), Check: shippedOnce})
	if err != nil {
		t.Fatal(err) // says which seed repeats it
	}
}

// Chat is the state of the page about memory.
type Chat struct {
	Text  string `json:"text"`
	Reply string `json:"reply"`
}

// Talk is a state of the page about concurrency.
type Talk struct {
	Said []string `json:"said" state:"append"`
}

func remember(ctx context.Context, dir string) error {
	d, err := disk.Open(dir, disk.Options{})
	if err != nil {
		return err
	}
	defer d.Close()
	memories, err := store.On(d, store.Options{}) // in the same directory
	if err != nil {
		return err
	}
	defer memories.Close()
	g, err := graph.For[Chat]().
		Node("answer", func(ctx context.Context, c *Chat) (graph.Update, error) {
			user, ok := server.UserOf(ctx)
			if !ok {
				return nil, errors.New("nobody is logged in")
			}
			task, _ := pregel.Task(ctx)
			facts := append(server.ItemsOf(user.Identity), "facts")
			if err := task.Store.Put(ctx, facts, "last", map[string]any{"text": c.Text}, store.TTL(30*24*time.Hour)); err != nil {
				return nil, err
			}
			return graph.Write(&c.Reply, "noted"), nil
		}).
		Sequence(graph.Start, "answer", graph.End).
		Compile(graph.Options{Saver: d, Store: memories, AtomicStore: true})
	if err != nil {
		return err
	}
	ada := &server.User{Identity: "ada"} // from your login; a server does this by itself
	_, err = g.Run(ctx, pregel.Thread("chat-1"), Chat{Text: "I like soup."}, pregel.RunOptions{Configurable: ada.Configurable()})
	return err
}

func forget(ctx context.Context, d *disk.Saver) error {
	request := disk.EraseRequest{Items: [][]string{server.ItemsOf("ada")}}
	for thread, err := range d.Threads(ctx, saver.ThreadQuery{Metadata: map[string]any{"langgraph_auth_user_id": "ada"}}) {
		if err != nil {
			return err
		}
		request.Threads = append(request.Threads, thread.ThreadID)
	}
	return d.EraseRequest(ctx, request)
}

// TestMemory runs the page about memory. Nothing of the user is left in the end.
func TestMemory(t *testing.T) {
	dir := t.TempDir()
	if err := remember(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	d, err := disk.Open(dir, disk.Options{})
	if err != nil {
		t.Fatal(err)
	}
	memories, err := store.On(d, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	facts := append(server.ItemsOf("ada"), "facts")
	if _, err := memories.Get(t.Context(), facts, "last"); err != nil {
		t.Errorf("before: %v", err)
	}
	if err := forget(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	if _, err := memories.Get(t.Context(), facts, "last"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("after: %v", err)
	}
	if _, err := d.GetTuple(t.Context(), saver.Config{ThreadID: "chat-1"}); !errors.Is(err, saver.ErrNotFound) {
		t.Errorf("the thread: %v", err)
	}
	if err := errors.Join(memories.Close(), d.Close()); err != nil {
		t.Error(err)
	}
}

func inTurn(ctx context.Context, g *graph.Graph[Talk]) error {
	wait := pregel.RunOptions{ConflictRetries: 100}
	errs := make(chan error)
	for _, text := range []string{"one", "two", "three"} {
		go func() {
			_, err := g.Run(ctx, pregel.Thread("ada"), Talk{Said: []string{text}}, wait)
			errs <- err
		}()
	}
	for range 3 {
		if err := <-errs; err != nil {
			return err
		}
	}
	return nil
}

func ifUnchanged(ctx context.Context, s saver.Saver, read saver.Config, next saver.Checkpoint) error {
	read.ExpectHead = saver.Head(read.CheckpointID)
	if _, err := s.Put(ctx, read, next, nil, nil); errors.Is(err, saver.ErrConflict) {
		fmt.Println("another writer was faster: read again")
	} else if err != nil {
		return err
	}
	return nil
}

// TestConcurrency runs the page about concurrency: each of three runs has its turn, and a write
// from an old head changes nothing.
func TestConcurrency(t *testing.T) {
	s := memory.New(memory.Options{})
	g, err := graph.For[Talk]().Node("answer", func(context.Context, *Talk) (graph.Update, error) { return nil, nil }).
		Sequence(graph.Start, "answer", graph.End).Compile(graph.Options{Saver: s})
	if err != nil {
		t.Fatal(err)
	}
	if err := inTurn(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	state, err := g.State(t.Context(), pregel.Thread("ada"))
	if err != nil {
		t.Fatal(err)
	}
	if said := slices.Sorted(slices.Values(state.State.Said)); !slices.Equal(said, []string{"one", "three", "two"}) {
		t.Errorf("said: %v", said)
	}
	first := saver.Config{ThreadID: "other"}
	if _, err := s.Put(t.Context(), first, saver.Checkpoint{V: 4, ID: "c1"}, nil, nil); err != nil {
		t.Fatal(err)
	}
	for _, parent := range []string{"", "c1"} { // the head is c1
		if err := ifUnchanged(t.Context(), s, first.At(parent), saver.Checkpoint{V: 4, ID: "c2" + parent}); err != nil {
			t.Error(err)
		}
	}
	if head, err := s.GetTuple(t.Context(), first); err != nil || head.Checkpoint.ID != "c2c1" {
		t.Errorf("the head is %v, %v", head, err)
	}
}

// Research is the state of the page about concurrency.
type Research struct {
	Sources  []string `json:"sources"`
	Findings []string `json:"findings" state:"append"`
	Report   string   `json:"report"`
}

var errBusy = errors.New("busy")

func research(s saver.Saver, fetch func(ctx context.Context, source string) (string, error)) (*graph.Graph[Research], pregel.RunOptions, error) {
	b := graph.For[Research]()
	read := graph.Worker(b, "read", func(ctx context.Context, source string, r *Research) (graph.Update, error) {
		text, err := fetch(ctx, source)
		if err != nil {
			return nil, err
		}
		return graph.Write(&r.Findings, []string{text}), nil
	}, graph.NodeOptions{Retry: []pregel.RetryPolicy{{RetryOn: pregel.RetryOnErrors(errBusy), MaxAttempts: 5}}})
	g, err := b.
		Node("plan", func(_ context.Context, r *Research) (graph.Update, error) { return read.Send(r.Sources...), nil }).
		Node("report", func(_ context.Context, r *Research) (graph.Update, error) {
			return graph.Write(&r.Report, fmt.Sprint(len(r.Findings), " findings")), nil
		}).
		Edge(graph.Start, "plan").Edge("read", "report").Edge("report", graph.End).
		Compile(graph.Options{Saver: s})
	atMost := pregel.RunOptions{MaxConcurrency: 16}
	return g, atMost, err
}

// counting is a saver that counts the findings that are stored, and calls at each.
type counting struct {
	*memory.Saver
	stored func()
}

// PutWrites stores what a task wrote.
func (s counting) PutWrites(ctx context.Context, cfg saver.Config, writes []saver.Write, taskID, path string) error {
	err := s.Saver.PutWrites(ctx, cfg, writes, taskID, path)
	if err == nil && writes[0].Channel == "findings" {
		s.stored()
	}
	return err
}

// TestResearch: a source that is busy is asked again, findings come in the order of the sources, and what
// was stored before the run was cut off is not read again.
func TestResearch(t *testing.T) {
	var sources []string
	for i := range 100 {
		sources = append(sources, fmt.Sprint("source ", i))
	}
	ctx, cancel := context.WithCancel(t.Context())
	var mu sync.Mutex
	asked, read, stored := map[string]int{}, 0, 0
	s := counting{memory.New(memory.Options{}), func() {
		mu.Lock()
		defer mu.Unlock()
		if stored++; stored == 50 {
			cancel()
		}
	}}
	g, atMost, err := research(s, func(fetching context.Context, source string) (string, error) {
		mu.Lock()
		asked[source]++
		busy := source == "source 7" && asked[source] == 1
		if !busy {
			read++
		}
		late := read > 60 && ctx.Err() == nil
		mu.Unlock()
		switch {
		case busy:
			return "", errBusy
		case late: // the run is cut off before it has read all
			<-fetching.Done()
			return "", fetching.Err()
		}
		return "of " + source, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.Run(ctx, pregel.Thread("t"), Research{Sources: sources}, atMost); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	mu.Lock()
	before, kept := read, stored
	mu.Unlock()
	res, err := g.Continue(t.Context(), pregel.Thread("t"), atMost)
	if err != nil {
		t.Fatal(err)
	}
	if kept < 50 || read-before != 100-kept || asked["source 7"] < 2 {
		t.Errorf("%d findings stored, then %d sources read; the busy one %d times", kept, read-before, asked["source 7"])
	}
	for i, found := range res.State.Findings {
		if found != "of "+sources[i] {
			t.Errorf("finding %d is %q", i, found)
		}
	}
	if res.State.Report != "100 findings" {
		t.Error(res.State.Report)
	}
}

// Jokes is the state of the page for people who come from LangGraph.
type Jokes struct {
	Topic string   `json:"topic"`
	Jokes []string `json:"jokes" state:"append"`
}

func joke(ctx context.Context, s saver.Saver) error {
	tell := func(_ context.Context, j *Jokes) (graph.Update, error) {
		return graph.Write(&j.Jokes, []string{"About " + j.Topic}), nil
	}
	g, err := graph.For[Jokes]().Node("tell", tell).
		Sequence(graph.Start, "tell", graph.End).
		Compile(graph.Options{Saver: s})
	if err != nil {
		return err
	}
	res, err := g.Run(ctx, pregel.Thread("1"), Jokes{Topic: "tea"})
	if err != nil {
		return err
	}
	fmt.Println(res.State.Jokes)
	return nil
}

func TestLangGraph(t *testing.T) {
	s := memory.New(memory.Options{})
	if err := joke(t.Context(), s); err != nil {
		t.Error(err)
	}
	head, err := s.GetTuple(t.Context(), saver.Config{ThreadID: "1"})
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	if err := head.Checkpoint.Values["jokes"].Decode(&told); err != nil || !slices.Equal(told, []string{"About tea"}) {
		t.Errorf("the jokes are %v, %v", told, err)
	}
}

func drained(ctx context.Context, g *pregel.Graph, serve func(context.Context, *pregel.Graph, *pregel.Control) error) error {
	var control pregel.Control // goes into the RunOptions of each run
	defer context.AfterFunc(ctx, func() { control.RequestDrain("shutdown") })()
	return serve(ctx, g, &control)
}

// produce recovers what is left, and serves until its context ends.
func produce(ctx context.Context, d *disk.Saver, build func(saver.Saver) (*pregel.Graph, error), serve func(context.Context, *pregel.Graph, *pregel.Control) error) error {
	g, err := build(d)
	if err != nil {
		return err
	}
	if _, err := g.Recover(ctx, pregel.RecoverOptions{}); err != nil {
		return err
	}
	return drained(ctx, g, serve)
}

// TestProduction runs the checklist's code: what a crash left is finished at start, and a shutdown
// reaches the runs.
func TestProduction(t *testing.T) {
	d, err := disk.Open(t.TempDir(), disk.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	build := func(s saver.Saver) (*pregel.Graph, error) {
		return graph.New(graph.Key("n", channel.Reduce(channel.Add[int]))).
			Node("add", func(ctx context.Context, _ any) (any, error) { return map[string]any{"n": 1}, ctx.Err() }).
			Sequence(graph.Start, "add", graph.End).Compile(graph.Options{Name: "adder", Saver: s})
	}
	g, err := build(d)
	if err != nil {
		t.Fatal(err)
	}
	var stop pregel.Control
	stop.RequestDrain("deploy")
	if _, err := g.Invoke(t.Context(), pregel.Thread("t"), map[string]any{"n": 1}, pregel.RunOptions{Control: &stop}); !errors.Is(err, pregel.ErrDrained) {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	err = produce(ctx, d, build, func(ctx context.Context, g *pregel.Graph, control *pregel.Control) error {
		state, err := g.GetState(ctx, pregel.Thread("t"))
		if err != nil || state.Status != saver.StatusDone || state.Map()["n"] != 2 {
			return fmt.Errorf("after the start: %v, %w", state, err)
		}
		cancel()
		for asked := false; !asked; _, asked = control.DrainRequested() {
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func recoverAll(ctx context.Context, b *graph.Builder, s saver.Saver) error {
	g, err := b.Compile(graph.Options{Name: "orders", Saver: s})
	if err != nil {
		return err
	}
	report, err := g.Recover(ctx, pregel.RecoverOptions{})
	if err != nil {
		return err
	}
	for _, r := range report.Threads {
		log.Print(r.ThreadID, " ", r.Outcome, " ", r.Err)
	}
	return nil
}

// service is a mail service that knows what it has sent under a key.
type service map[string]string

// Send sends a mail.
func (s service) Send(_ context.Context, to, key string) error {
	s[key] = to
	return nil
}

type Mailer interface {
	Send(ctx context.Context, to, key string) error // knows what it has sent under a key
}

func notify(mailer Mailer, recipients []string) pregel.Func {
	return func(ctx context.Context, _ any) (any, error) {
		for _, to := range recipients {
			key, err := pregel.IdempotencyKey(ctx, "mail/"+to)
			if err != nil {
				return nil, err // there is no key: do nothing
			}
			if err := mailer.Send(ctx, to, key); err != nil {
				return nil, err
			}
		}
		return nil, nil
	}
}

func careful(ctx context.Context, g *pregel.Graph) (*pregel.Result, error) {
	careful := pregel.RunOptions{Durability: pregel.Sync}
	return g.Invoke(ctx, pregel.Thread("order-7"), map[string]any{"log": []string{"ordered"}}, careful)
}

// TestSync: with Sync, what a task wrote and the checkpoint before are stored when the run dies in the
// task beside it, and only that one runs again.
func TestSync(t *testing.T) {
	ctx, die := context.WithCancel(t.Context())
	defer die()
	ran, ended := map[string]int{}, make(chan bool, 1)
	b := graph.New(graph.Key("log", channel.Reduce(channel.Append[string])))
	var mu sync.Mutex
	for _, name := range []string{"fetch", "parse"} {
		b.Node(name, func(ctx context.Context, _ any) (any, error) {
			mu.Lock()
			ran[name]++
			first := ran[name] == 1
			mu.Unlock()
			if name == "parse" && first {
				<-ended
				die()
				return nil, ctx.Err()
			}
			return map[string]any{"log": []string{name}}, nil
		}).Edge(graph.Start, name)
	}
	g, err := b.Compile(graph.Options{Name: "orders", Saver: memory.New(memory.Options{}), Hooks: pregel.Hooks{
		Save: func(_ pregel.RunInfo, op string, _ time.Duration, _ error) {
			if op == `writes of node "fetch"` {
				ended <- true
			}
		}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := careful(ctx, g); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	res, err := g.Invoke(t.Context(), pregel.Thread("order-7"), nil)
	if err != nil || fmt.Sprint(res.Map()["log"]) != "[ordered fetch parse]" || ran["fetch"] != 1 || ran["parse"] != 2 {
		t.Errorf("%v %v, ran %v", res, err, ran)
	}
}

// TestCrash runs the page about crashes: what a run left is finished at start, and two mails have
// two keys, which a node that runs again has too.
func TestCrash(t *testing.T) {
	s := memory.New(memory.Options{})
	fails, mailer := true, service{}
	send := notify(mailer, []string{"ada", "bob"})
	b := graph.New(graph.Key("n", channel.LastValue[int]())).
		Node("notify", send).
		Node("late", func(ctx context.Context, in any) (any, error) {
			if _, err := send(ctx, in); err != nil || !fails {
				return nil, err
			}
			return nil, errors.New("busy")
		}).Sequence(graph.Start, "notify", "late", graph.End)
	g, err := b.Compile(graph.Options{Name: "orders", Saver: s})
	if err != nil {
		t.Fatal(err)
	}
	var stop pregel.Control
	stop.RequestDrain("deploy")
	if _, err := g.Invoke(t.Context(), pregel.Thread("t"), map[string]any{"n": 1}, pregel.RunOptions{Control: &stop}); !errors.Is(err, pregel.ErrDrained) {
		t.Fatal(err)
	}
	if err := recoverAll(t.Context(), b, s); err != nil {
		t.Fatal(err)
	}
	if fails = false; len(mailer) != 4 {
		t.Errorf("%d mails of two nodes to two people", len(mailer))
	}
	if _, err := g.Invoke(t.Context(), pregel.Thread("t"), nil); err != nil || len(mailer) != 4 {
		t.Errorf("after the node ran again: %v, %d mails", err, len(mailer))
	}
}
