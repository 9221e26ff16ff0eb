package pregel

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/saver"
)

// Preflight says what this graph makes of the threads that other versions of it left, before it is
// deployed. Each thread that q selects and that is not done, unless q asks for those that are, is loaded
// as a run would load it: its state is decoded into the present types, its next tasks are planned, its
// pending writes and its questions are placed. No node runs, nothing is stored, and no thread is
// acquired, so it may be called beside the program that runs the threads, on a store that is opened for
// reading, on a copy, or on PostgreSQL. Reducers run, on copies. It reads the head of each thread once,
// and that of each graph inside that is not done.
//
// s may be nil for the graph's own saver. Threads whose head a graph with another name stored are counted
// and not judged, if both graphs have a name.
//
// A thread that passes does not fail when it is resumed, until its first node runs. What
// the node then does is not judged: which calls and questions its body makes, and what it makes of answers.
//
// An error concerns the list of threads or ctx; the report then has what was judged so far. A thread that
// breaks is in the report and is no error.
func (g *Graph) Preflight(ctx context.Context, s saver.Saver, q saver.ThreadQuery) (*PreflightReport, error) {
	g.mustBe()
	r := &PreflightReport{Graph: g.name, Version: g.version, Adapted: map[string]int{}, Ignored: map[string]int{}, Versions: map[string]int{},
		Broken: []BrokenThread{}, Unnamed: g.unnamed(""), begunAt: map[string]int{}, others: map[string]int{}}
	for _, in := range g.GetSubgraphs() {
		r.Unnamed = append(r.Unnamed, in.Graph.unnamed(in.Namespace+":")...)
	}
	if s == nil {
		s = g.opts.Saver
	}
	if s == nil {
		return r, fmt.Errorf("preflight of graph %q: %w", g.opts.Name, ErrNoSaver)
	}
	q.WithoutNotes = true
	var living []saver.ThreadInfo
	for t, err := range s.Threads(ctx, q) {
		switch {
		case err != nil:
			return r, &PersistError{Op: "list threads", Err: err}
		case t.Status == saver.StatusDone && q.Status != saver.StatusDone:
			r.Done++
		case t.Head != "":
			living = append(living, saver.ThreadInfo{ThreadID: strings.Clone(t.ThreadID), Status: t.Status})
		}
	}
	next := make(chan saver.ThreadInfo)
	var mu sync.Mutex
	var failed error
	var judges sync.WaitGroup
	for range max(4, 2*runtime.GOMAXPROCS(0)) {
		judges.Go(func() {
			for t := range next {
				v, err := g.judgeThread(ctx, s, t)
				mu.Lock()
				if err != nil {
					failed = cmp.Or(failed, err)
				} else {
					r.count(v)
				}
				mu.Unlock()
			}
		})
	}
	for _, t := range living {
		mu.Lock()
		stop := failed != nil
		mu.Unlock()
		if stop || ctx.Err() != nil {
			break
		}
		next <- t
	}
	close(next)
	judges.Wait()
	slices.SortFunc(r.Broken, func(a, b BrokenThread) int {
		return cmp.Or(cmp.Compare(a.ThreadID, b.ThreadID), cmp.Compare(a.Namespace, b.Namespace))
	})
	if failed == nil {
		failed = context.Cause(ctx)
	}
	return r, failed
}

// unnamed are the keys of the state whose reducers have no name, each behind prefix, in order.
func (g *Graph) unnamed(prefix string) []string {
	keys := []string{}
	for i, name := range g.specs.names {
		if isStateKey(name) && channel.IsUnnamed(g.specs.list[i]) {
			keys = append(keys, prefix+name)
		}
	}
	slices.Sort(keys)
	return keys
}

// PreflightReport is the report of Preflight. It is written as JSON by encoding/json.
type PreflightReport struct {
	Graph   string `json:"graph,omitempty"`
	Version string `json:"version"`
	// Threads is how many threads were judged. Unchanged of them go on as they are. Of those that go on in
	// another way, Adapted counts through what ("alias to → recipient", "migration 1 → 2"), and Ignored the stored keys that
	// the graph does not know and drops. A thread may be in several counts.
	Threads   int            `json:"threads"`
	Unchanged int            `json:"unchanged"`
	Adapted   map[string]int `json:"adapted"`
	Ignored   map[string]int `json:"ignored"`
	// Broken are the threads that do not go on, in the order of their ids.
	Broken []BrokenThread `json:"broken"`
	// Begun counts the threads that go on in the body of a node that had begun: it asked or called something.
	// Whether the body asks and calls the same again is not judged.
	Begun int `json:"begun"`
	// Unnamed are the keys whose reducers are given as functions, without a name; those of a graph inside behind its namespace
	// and a colon. Whether such a reducer means the same as before is not judged.
	Unnamed []string `json:"unnamed_reducers"`
	// Versions counts the threads that were judged by the version that stored their head; "" is unknown.
	Versions map[string]int `json:"versions"`
	// Done and OtherGraph count threads that were not judged: those at their end, and those of graphs with
	// another name. New input on a thread that is done needs its state: to judge such threads, a chat's, ask for
	// saver.ThreadQuery{Status: saver.StatusDone} as well.
	Done       int `json:"done"`
	OtherGraph int `json:"other_graph"`

	// For String: by node, in how many threads its code runs again, and the threads of OtherGraph by their graph.
	begunAt, others map[string]int
}

// Stage is what a thread breaks at.
type Stage string

// The stages, in the order in which a run comes to them.
const (
	StageLoad    Stage = "load"    // it cannot be read, or is refused
	StageMigrate Stage = "migrate" // a migration fails
	StageDecode  Stage = "decode"  // its state does not fit the types of the graph
	StagePlan    Stage = "plan"    // its next tasks cannot be made
	StagePlace   Stage = "place"   // a pending write, or a question that waits, has no place any more
)

// BrokenThread is a thread that does not go on.
type BrokenThread struct {
	ThreadID string `json:"thread"`
	// Namespace is that of the graph inside that breaks; "" is the thread's own graph.
	Namespace    string       `json:"namespace,omitempty"`
	CheckpointID string       `json:"checkpoint,omitempty"`
	Status       saver.Status `json:"status,omitempty"` // "" is unknown
	Version      string       `json:"version,omitempty"`
	Stage        Stage        `json:"stage"`
	// Node and Channel are what it breaks at; "" if it is not one of them. Field is the field
	// in Go of a typed graph.
	Node    string `json:"node,omitempty"`
	Channel string `json:"channel,omitempty"`
	Field   string `json:"field,omitempty"`
	Err     error  `json:"-"`
}

// MarshalJSON adds the text of Err, as reason.
func (b BrokenThread) MarshalJSON() ([]byte, error) {
	type plain BrokenThread
	return json.Marshal(struct {
		plain
		Reason string `json:"reason"`
	}{plain(b), b.reason()})
}

func (b *BrokenThread) reason() string {
	if b.Err == nil {
		return ""
	}
	return b.Err.Error()
}

// ExitCode is 0 if every thread goes on, and 1 if one breaks: for os.Exit.
func (r *PreflightReport) ExitCode() int {
	if len(r.Broken) > 0 {
		return 1
	}
	return 0
}

// most is how many broken threads String shows of each kind.
const most = 3

// String is the report as text, of several lines. Of threads that break alike it shows three.
func (r *PreflightReport) String() string {
	var b strings.Builder
	line := func(n int, format string, args ...any) {
		if n > 0 {
			fmt.Fprintf(&b, "  %7d  %s\n", n, fmt.Sprintf(format, args...))
		}
	}
	name := cmp.Or(r.Graph, "the graph")
	fmt.Fprintf(&b, "%s, version %s: %s\n", name, r.Version, threads(r.Threads))
	line(r.Unchanged, "%s unchanged", agree(r.Unchanged, "continues", "continue"))
	for _, how := range slices.Sorted(maps.Keys(r.Adapted)) {
		line(r.Adapted[how], "%s through %s", agree(r.Adapted[how], "continues", "continue"), how)
	}
	for _, key := range slices.Sorted(maps.Keys(r.Ignored)) {
		line(r.Ignored[key], "%s without what is stored as %q", agree(r.Ignored[key], "continues", "continue"), key)
	}
	line(len(r.Broken), "%s", agree(len(r.Broken), "breaks", "break"))
	alike := map[string][]BrokenThread{}
	for _, t := range r.Broken {
		kind := string(t.Stage)
		for what, name := range map[string]string{"node": t.Node, "channel": t.Channel, "field": t.Field} {
			if name != "" {
				kind += fmt.Sprintf(", %s %q", what, name)
			}
		}
		parts := strings.Split(kind, ", ")
		slices.Sort(parts[1:])
		kind = strings.Join(parts, ", ")
		alike[kind] = append(alike[kind], t)
	}
	for _, kind := range slices.Sorted(maps.Keys(alike)) {
		list := alike[kind]
		fmt.Fprintf(&b, "%s: %d\n", kind, len(list))
		for _, t := range list[:min(most, len(list))] {
			fmt.Fprintf(&b, "    thread %q (%s, version %s): %s\n", t.ThreadID, cmp.Or(string(t.Status), "status unknown"), cmp.Or(t.Version, "unknown"), t.reason())
		}
		if more := len(list) - most; more > 0 {
			fmt.Fprintf(&b, "    and %d more\n", more)
		}
	}
	if r.Begun > 0 {
		fmt.Fprintf(&b, "not judged: what the code of these nodes does when it runs again: %s\n", threadsBy(r.begunAt, r.Begun))
	}
	if len(r.Unnamed) > 0 {
		fmt.Fprintf(&b, "not judged: the reducers of %s, which have no name\n", strings.Join(r.Unnamed, ", "))
	}
	if r.OtherGraph > 0 {
		fmt.Fprintf(&b, "not judged: the threads of graphs with another name: %s\n", threadsBy(r.others, r.OtherGraph))
	}
	return b.String()
}

// threadsBy are the names with the threads of each; a report that was read from JSON has no names.
func threadsBy(by map[string]int, all int) string {
	if len(by) == 0 {
		return threads(all)
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(by)) {
		parts = append(parts, fmt.Sprintf("%s (%s)", name, threads(by[name])))
	}
	return strings.Join(parts, ", ")
}

func threads(n int) string { return fmt.Sprintf("%d %s", n, agree(n, "thread", "threads")) }

// agree is the word that goes with n.
func agree(n int, one, several string) string {
	if n == 1 {
		return one
	}
	return several
}

// count adds the verdict on one thread.
func (r *PreflightReport) count(v *verdict) {
	switch {
	case v.other != "":
		r.OtherGraph++
		r.others[v.other]++
		return
	case v.done:
		r.Done++
		return
	}
	r.Threads++
	r.Versions[v.version]++
	if len(v.broken) > 0 {
		r.Broken = append(r.Broken, v.broken...)
		return
	}
	if v.begun {
		r.Begun++
	}
	for node := range v.begunAt {
		r.begunAt[node]++
	}
	for how := range v.adapted {
		r.Adapted[how]++
	}
	for key := range v.ignored {
		r.Ignored[key]++
	}
	if len(v.adapted)+len(v.ignored) == 0 {
		r.Unchanged++
	}
}
