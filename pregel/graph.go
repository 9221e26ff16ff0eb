package pregel

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/store"
	"github.com/stele-go/stele/store/cache"
)

// Options are the options that every kind of graph has. The zero value keeps nothing.
type Options struct {
	Name string // "" is "LangGraph"
	// Version names the version of the graph, which each checkpoint that it stores has. "" is a
	// fingerprint; see Graph.Version. A name that looks like one, 12 hexadecimal digits, is a GraphError.
	Version string
	// Migrations bring threads of older versions to this one, by the version that is stored with their
	// checkpoints. They form chains that end at Version.
	Migrations []Migration

	// Saver stores checkpoints. Without one a run stores nothing, also if its Address names a thread: that is no
	// error, and the next run of the thread begins anew.
	Saver         saver.Saver
	Checkpointing Checkpointing
	// Cache keeps what nodes with a cache policy wrote. Store is the long-term
	// memory that nodes reach through Task. Graphs inside inherit both.
	Cache cache.Cache
	Store store.Store
	// AtomicStore commits what the tasks of a superstep put into Store, and delete from
	// it, in one transaction with the checkpoint that ends the superstep. Until then
	// nobody sees it, not even the tasks themselves; then everybody does, and the next
	// superstep finds it. With Exit that is when the run ends. What a failed attempt put is
	// dropped. What a finished task put is kept with its other writes, so a process that
	// resumes the run commits it.
	//
	// A graph inside that stores no checkpoints hands its puts to the graph around. A
	// graph without any checkpoints commits them in one Batch when a superstep ends. Put
	// checks everything except the embedder; if that fails, so does the save.
	//
	// Store must be a *store.Local on Saver, or on a saver that Saver passes PutRequest
	// on to. For a store in memory Saver must be in memory.
	AtomicStore bool

	// RoundTrip is for tests. Every value that crosses a superstep is encoded and decoded
	// again, with a saver or without: channels, what tasks write and return, the arguments
	// of Sends, questions and answers. Nodes then get what they would get after a crash, so
	// a type that does not survive one fails in the first test. In an any, or in a map of
	// them, a struct comes back as a map, an int as an int64, and a []Call as a []any. The
	// outermost graph decides for all graphs inside. It costs time and memory in each
	// superstep.
	RoundTrip bool

	InterruptBefore, InterruptAfter []string
	// RefuseWaiting is RunOptions.RefuseWaiting for every run of the graph, also one of a queue or of a
	// server. The outermost graph decides for all graphs inside.
	RefuseWaiting bool

	// LangGraph gives up the safeguards that LangGraph does not have: new input discards
	// what a crash left, missing nodes are skipped, several runs may go on with one thread,
	// an answer is accepted although nothing waits, and a checkpoint that does not exist
	// stands for an empty thread. The package documentation lists them all. The outermost
	// graph decides for all graphs inside.
	LangGraph bool

	// Metadata is that of every run and update, as RunOptions.Metadata and
	// UpdateOptions.Metadata, which count before it. Inside another graph it counts before
	// what is inherited.
	Metadata map[string]any

	StepTimeout time.Duration
	// Modes are what Stream shows if it is not told. Nil is ModeUpdates for a graph made by
	// package graph or by Entrypoint, and else ModeValues.
	Modes []Mode
	// Hooks are those of the graph's runs, and of graphs inside that have none of a kind.
	Hooks Hooks
	Env   Environment
}

// Spec describes a graph to New. Package graph and Entrypoint make it themselves.
type Spec struct {
	Nodes []*Node
	// Channels by name, in any order; ChannelOrder is the order in which state
	// is shown where it matters, and may be nil.
	Channels     map[string]channel.Channel
	ChannelOrder []string
	Managed      map[string]channel.Managed
	// Input takes a run's input, Output makes its result (zero: an empty map),
	// Stream is what snapshots and streams show (zero: all channels).
	Input, Output, Stream Keys
	// InputKeys are the keys that a run's input may have, for Graph.InputKeys (zero: those of Stream).
	InputKeys Keys
	// CheckInput is for a graph whose first node only passes a single Input on. It returns the pairs
	// that this node will write to channels, or an error if it will refuse the input, so that such
	// input is refused before anything is stored or run. If it is nil, only Input determines what is
	// written.
	CheckInput func(input any) (Pairs, error)
	// CheckKeys, if not nil, refuses input and updates from outside with keys that are none of the
	// state, before anything is stored or run. It is not called for input from a graph around, whose
	// state has other keys, nor with Options.LangGraph.
	CheckKeys func(values any) error
	// CheckStored, if not nil, is called with the keys that a checkpoint or its pending writes have and
	// the graph does not know, sorted, before anything is run or stored. They are those of its state: no
	// Aliases, and nothing of the engine's own. Its error ends the call that read the checkpoint.
	CheckStored func(ctx context.Context, at Address, keys []string) error
	// UnknownInside, if not nil, is called with each stored value of a key that the graph knows, and
	// returns the keys in it that the graph would lose, in the words of CheckStored, which is told them, too.
	UnknownInside func(key string, v any) []string

	// Retry and CachePolicy are for nodes that have none of their own, and Retry for the
	// functions that they call.
	Retry       []RetryPolicy
	CachePolicy *CachePolicy
	// Migrate brings checkpoints of older layouts to the graph's channels; may
	// be nil.
	Migrate func(cp *saver.Checkpoint) error
	// Aliases are former names of channels, with the names they have now. What a stored
	// checkpoint or a pending write has under a former name is read under the new one. The
	// next checkpoint is stored with the new name. If a checkpoint has both, the new one
	// counts.
	Aliases map[string]string
	// Edges are for drawing only.
	Edges []Edge
}

// Edge is an edge of a drawing.
type Edge struct {
	From, To    string
	Conditional bool
	Label       string
}

// Graph is a graph that can run. It does not change after New, and all its methods are safe
// for concurrent use.
type Graph struct {
	spec       Spec
	opts       Options
	env        Environment
	hooks      *runHooks
	nodes      map[string]*Node
	plans      map[string]*nodePlan
	order      []string // nodes in the order of their declaration
	specs      channelSet
	triggers   map[string][]string // channel to nodes, in node order
	deltas     []string            // names of delta channels
	folds      []string            // names of reducing channels
	untracked  bool
	items      atomicStore // opts.Store, if Options.AtomicStore
	version    string
	endless    endless
	migrations map[string]*Migration // by From
	name       string                // Options.Name as it was given; "" if it was not, because then graphs cannot be told apart
	attempts   attempts
	input      Keys
	output     Keys
	stream     Keys
}

// Saver is the saver that the graph was made with; nil if it stores nothing.
func (g *Graph) Saver() saver.Saver { return g.mustBe().opts.Saver }

// Cache is the cache of results of nodes that the graph was compiled with; nil if there is none.
func (g *Graph) Cache() cache.Cache { return g.mustBe().opts.Cache }

// New makes a Graph, or returns a GraphError that says what is wrong.
func New(spec Spec, opts Options) (*Graph, error) {
	g := &Graph{spec: spec, opts: opts, env: opts.Env.withDefaults(), nodes: map[string]*Node{}, plans: map[string]*nodePlan{}, triggers: map[string][]string{},
		input: spec.Input, output: spec.Output, stream: spec.Stream}
	if g.name = g.opts.Name; g.name == "" {
		g.opts.Name = "LangGraph"
	}
	g.hooks = &runHooks{Hooks: opts.Hooks, graph: g.opts.Name, log: g.env.Logger}
	if opts.Checkpointing == Off {
		g.opts.Saver = nil
	}
	if err := g.checkAtomicStore(); err != nil {
		return nil, err
	}
	if err := g.addChannels(); err != nil {
		return nil, err
	}
	if err := g.addNodes(); err != nil {
		return nil, err
	}
	if err := g.checkKeys(); err != nil {
		return nil, err
	}
	if err := g.checkAliases(); err != nil {
		return nil, err
	}
	for _, names := range [][]string{opts.InterruptBefore, opts.InterruptAfter} {
		for _, n := range names {
			if _, ok := g.nodes[n]; !ok && n != AllNodes {
				return nil, &GraphError{Node: n, Reason: "is a breakpoint, but there is no such node"}
			}
		}
	}
	switch g.version = opts.Version; {
	case isFingerprint(g.version):
		return nil, &GraphError{Reason: fmt.Sprintf("Options.Version %q has the form of a fingerprint, 12 hexadecimal digits, and nobody could tell that it is a name; put a word in front, as in %q",
			g.version, "build-"+g.version)}
	case g.version == "":
		g.version = g.fingerprint()
	}
	if err := (&saver.Note{Version: g.version}).Validate(); err != nil {
		return nil, &GraphError{Reason: fmt.Sprintf("Options.Version: %v", err)}
	}
	return g, g.addMigrations()
}

func (g *Graph) addChannels() error {
	names := slices.Clone(g.spec.ChannelOrder)
	ordered := make(map[string]bool, len(names))
	for _, name := range names {
		if ordered[name] {
			return &GraphError{Channel: name, Reason: "is in ChannelOrder twice"}
		}
		ordered[name] = true
	}
	var rest []string
	for name := range g.spec.Channels {
		if !ordered[name] {
			rest = append(rest, name)
		}
	}
	slices.Sort(rest)
	for _, name := range append(names, rest...) {
		spec, ok := g.spec.Channels[name]
		if !ok {
			return &GraphError{Channel: name, Reason: "is in ChannelOrder, but there is no such channel"}
		}
		if spec == nil {
			return &GraphError{Channel: name, Reason: "is nil"}
		}
		if reserved[name] {
			return &GraphError{Channel: name, Reason: "the name is reserved"}
		}
		if name == chTasks {
			return &GraphError{Channel: name, Reason: "the name is the engine's own channel of packets"}
		}
		g.install(name, spec)
	}
	g.install(chTasks, channel.Topic[any](channel.PerStep))
	for name, managed := range g.spec.Managed {
		if g.specs.has(name) || reserved[name] {
			return &GraphError{Channel: name, Reason: "the name of a managed value is reserved or is a channel"}
		}
		if managed == nil {
			return &GraphError{Channel: name, Reason: "is a managed value without a function"}
		}
	}
	return nil
}

func (g *Graph) install(name string, spec channel.Channel) {
	g.specs.add(name, spec.Named(name))
	switch spec.(type) {
	case channel.DeltaChannel:
		g.deltas = append(g.deltas, name)
	case channel.Untracked:
		g.untracked = true
	case interface{ IsFold() }:
		g.folds = append(g.folds, name)
	}
}

func (g *Graph) addNodes() error {
	for i, n := range g.spec.Nodes {
		switch {
		case n == nil:
			return &GraphError{Reason: fmt.Sprintf("node %d is nil", i)}
		case slices.Contains(n.Subgraphs, nil):
			return &GraphError{Node: n.Name, Reason: "a graph inside is nil"}
		case slices.ContainsFunc(n.Writers, func(w Writer) bool { return w == nil }):
			return &GraphError{Node: n.Name, Reason: "a writer is nil"}
		}
		if n.Name == "" || reserved[n.Name] || n.Name == End {
			return &GraphError{Node: n.Name, Reason: "the name is empty or reserved"}
		}
		if _, dup := g.nodes[n.Name]; dup {
			return &GraphError{Node: n.Name, Reason: "there is another node of this name"}
		}
		for _, ch := range n.Reads.Names {
			if _, isManaged := g.spec.Managed[ch]; !g.specs.has(ch) && !isManaged {
				return &GraphError{Node: n.Name, Channel: ch, Reason: "is read, but there is no such channel"}
			}
		}
		for _, ch := range n.Triggers {
			if !g.specs.has(ch) {
				return &GraphError{Node: n.Name, Channel: ch, Reason: "is subscribed to, but there is no such channel"}
			}
			g.triggers[ch] = append(g.triggers[ch], n.Name)
		}
		g.nodes[n.Name] = n
		g.plans[n.Name] = planOf(n)
		g.order = append(g.order, n.Name)
	}
	for _, n := range g.spec.Nodes {
		if h := n.ErrorHandler; h != "" && (g.nodes[h] == nil || !g.nodes[h].Handler) {
			return &GraphError{Node: n.Name, Reason: fmt.Sprintf("its error handler %q is no handler node", h)}
		}
	}
	return nil
}

// nodePlan has the parts that all tasks of a node share.
type nodePlan struct {
	node     *Node
	triggers []string // sorted; nobody changes them
	path     Path     // of the tasks that its triggers make
	pathStr  string
}

func planOf(n *Node) *nodePlan {
	path := pullPath(n.Name)
	return &nodePlan{node: n, triggers: slices.Sorted(slices.Values(n.Triggers)), path: path, pathStr: path.String()}
}

func (g *Graph) checkKeys() error {
	if len(g.input.Names) == 0 {
		return &GraphError{Reason: "the input has no channels"}
	}
	for _, k := range []Keys{g.input, g.output, g.stream} {
		if k.Single && len(k.Names) != 1 {
			return &GraphError{Reason: fmt.Sprintf("%v is not a single channel", k.Names)}
		}
	}
	subscribed := false
	for _, ch := range g.input.Names {
		if !g.specs.has(ch) {
			return &GraphError{Channel: ch, Reason: "is an input, but there is no such channel"}
		}
		subscribed = subscribed || len(g.triggers[ch]) > 0
	}
	if !subscribed {
		return &GraphError{Channel: g.input.String(), Reason: "no node subscribes to the input"}
	}
	if len(g.stream.Names) == 0 {
		g.stream = Many(g.specs.names...)
	}
	for _, k := range []Keys{g.output, g.stream} {
		if err := g.known(k); err != nil {
			return err
		}
	}
	return nil
}

func (g *Graph) known(k Keys) error {
	for _, ch := range k.Names {
		if !g.specs.has(ch) {
			return &GraphError{Channel: ch, Reason: "is shown, but there is no such channel"}
		}
	}
	return nil
}

// mustBe is g. It panics with a sentence if g is nil, which is what is left where the error of Compile was ignored.
func (g *Graph) mustBe() *Graph {
	if g == nil {
		panic("pregel: the graph is nil: look at the error of Compile, New or Entrypoint")
	}
	return g
}

// Name is the graph's name.
func (g *Graph) Name() string { return g.mustBe().opts.Name }

// Nodes are the names of the nodes in the order of their declaration.
func (g *Graph) Nodes() []string { return slices.Clone(g.mustBe().order) }
