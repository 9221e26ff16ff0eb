package pregel

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/stele-go/stele/pregel/channel"
)

// task is one unit of work of a superstep. Its identity does not change; writes
// and outcome belong to the loop.
type task struct {
	id       string
	node     *Node
	name     string
	path     Path
	pathStr  string
	ns       string // the task's namespace
	triggers []string
	input    any
	timeout  *TimeoutPolicy
	retry    []RetryPolicy
	cacheKey *cacheKey
	pad      *scratchpad
	cpMap    map[string]string // checkpoints of the graphs around, and of this one
	previous any
	call     *callSpec // of a functional call
	nodeErr  *NodeError
	metadata map[string]any

	// writes are set once the task ended or was found to have ended before.
	writes []write
	cached bool
	// returned is the output of the body while messages are streamed.
	returned any

	done futureState // for the callers of a call
}

// NodeError is what an error handler node is told: which node failed, and how. A
// failure in a graph inside the node is given as the inner node returned it.
// After a restart Err is a plain error with the stored text.
type NodeError struct {
	Node string
	Err  error
}

func (t *task) hidden() bool { return t.node != nil && t.node.hidden() }

func (t *task) asWrites() taskWrites {
	return taskWrites{path: t.pathStr, node: t.name, triggers: t.triggers, writes: t.writes}
}

// taskSet are the tasks of a superstep in their order.
type taskSet struct {
	order []*task
	by    map[string]*task
}

func (s *taskSet) add(t *task) {
	if old, ok := s.by[t.id]; ok {
		s.order[slices.Index(s.order, old)] = t
	} else {
		s.order = append(s.order, t)
	}
	if s.by == nil {
		s.by = map[string]*task{}
	}
	s.by[t.id] = t
}

func (s *taskSet) get(id string) *task {
	if s == nil {
		return nil
	}
	return s.by[id]
}

func (s *taskSet) asWrites() []taskWrites {
	out := make([]taskWrites, len(s.order))
	for i, t := range s.order {
		out[i] = t.asWrites()
	}
	return out
}

// preparer makes the tasks that follow a checkpoint.
type preparer struct {
	g         *Graph
	cp        *liveCheckpoint
	set       *channelSet
	ns        string // namespace of the graph
	step      int
	stop      int
	pending   pendingIndex
	resumeMap map[string]any
	parentPad *scratchpad
	cpMap     map[string]string
	metadata  map[string]any // of the run
	ids       taskIDs
	// warn is told about packets that cannot be delivered; may be nil.
	warn func(msg string, args ...any)

	shared map[string]string // cpMap with this graph's checkpoint
}

func (p *preparer) init() (err error) {
	p.ids, err = newTaskIDs(p.cp.id, p.cp.v, p.step)
	p.shared = withCheckpoint(p.cpMap, p.ns, p.cp.id)
	return err
}

func withCheckpoint(m map[string]string, ns, id string) map[string]string {
	out := maps.Clone(m)
	if out == nil {
		out = make(map[string]string, 1)
	}
	out[ns] = id
	return out
}

// next makes the tasks: first one for each packet, then one for each node that
// was triggered. updated, if not empty, narrows the search to nodes they
// trigger.
func (p *preparer) next(updated map[string]bool) (*taskSet, error) {
	if err := p.init(); err != nil {
		return nil, err
	}
	tasks := &taskSet{}
	if packets, ok := p.set.by[chTasks]; ok && packets.Available() {
		packets.(interface{ Each(func(int, any) bool) }).Each(func(i int, v any) bool {
			if t := p.sent(i, v); t != nil {
				tasks.add(t)
			}
			return true
		})
	}
	for _, name := range p.candidates(updated) {
		t, err := p.pulled(p.g.nodes[name])
		if err != nil {
			return nil, err
		}
		if t != nil {
			tasks.add(t)
		}
	}
	return tasks, nil
}

func (p *preparer) candidates(updated map[string]bool) []string {
	if len(p.cp.versions) == 0 {
		return nil
	}
	if len(updated) == 0 || len(p.g.triggers) == 0 {
		return p.g.order
	}
	triggered := map[string]bool{}
	for ch := range updated {
		for _, n := range p.g.triggers[ch] {
			triggered[n] = true
		}
	}
	return slices.Sorted(maps.Keys(triggered))
}

// triggered reports whether a trigger of n has a value and moved since n last
// ran.
func (p *preparer) triggered(n *Node) bool {
	seen, ran := p.cp.seen[n.Name]
	for _, name := range n.Triggers {
		if ch := p.set.by[name]; ch.Available() && (!ran || p.cp.versions[name].Compare(seen[name]) > 0) {
			return true
		}
	}
	return false
}

func (p *preparer) pulled(n *Node) (*task, error) {
	if !p.triggered(n) || !n.executable() {
		return nil, nil
	}
	triggers := slices.Sorted(slices.Values(n.Triggers))
	ns := childNS(p.ns, n.Name)
	t := p.task(n, n.Name, pullPath(n.Name), p.ids.pulled(ns, n.Name, triggers), ns, triggers)
	input, ok, err := p.input(n, t.pad)
	if err != nil {
		return nil, fmt.Errorf("input of node %q: %w", n.Name, err)
	}
	if !ok {
		return nil, nil
	}
	t.input = input
	return t, nil
}

// input reads what the node gets. ok is false if its only channel is empty.
func (p *preparer) input(n *Node, pad *scratchpad) (v any, ok bool, err error) {
	if n.Reads.Single {
		ch, isChannel := p.set.by[n.Reads.Names[0]]
		if !isChannel {
			return nil, false, nil
		}
		if v, ok = ch.Get(); !ok {
			return nil, false, nil
		}
	} else {
		m := make(map[string]any, len(n.Reads.Names))
		for _, name := range n.Reads.Names {
			if ch, isChannel := p.set.by[name]; isChannel {
				if x, set := ch.Get(); set {
					m[name] = x
				}
			} else if managed, isManaged := p.g.opts.Managed[name]; isManaged {
				m[name] = managed(pad.step, pad.stop)
			}
		}
		v = m
	}
	if n.Mapper != nil {
		if v, err = n.Mapper(v); err != nil {
			return nil, false, err
		}
	}
	return v, true, nil
}

var pushTriggers = []string{push}

func (p *preparer) sent(index int, packet any) *task {
	s, ok := sendOf(packet)
	if !ok {
		p.warning("ignored an invalid packet", "index", index, "type", fmt.Sprintf("%T", packet))
		return nil
	}
	n, ok := p.g.nodes[s.Node]
	if !ok || !n.executable() {
		p.warning("ignored a packet to an unknown node", "node", s.Node)
		return nil
	}
	ns := childNS(p.ns, n.Name)
	t := p.task(n, n.Name, sendPath(index), p.ids.sent(ns, n.Name, index), ns, pushTriggers)
	t.input = s.Arg
	if s.Timeout != nil {
		t.timeout = s.Timeout
	}
	return t
}

func (p *preparer) warning(msg string, args ...any) {
	if p.warn != nil {
		p.warn(msg, args...)
	}
}

func sendOf(v any) (Send, bool) {
	switch x := v.(type) {
	case Send:
		return x, true
	case *Send:
		if x != nil {
			return *x, true
		}
	}
	return Send{}, false
}

// called makes the task of the n-th call of caller.
func (p *preparer) called(caller *task, n int, c *callSpec) *task {
	ns := childNS(caller.ns, c.name)
	path := callPath(caller.path, n)
	t := p.task(nil, c.name, path, p.ids.called(ns, c.name, caller.path, n), ns, pushTriggers)
	t.cpMap = withCheckpoint(caller.cpMap, caller.ns, p.cp.id)
	t.pad.parent = caller.pad
	t.input, t.call, t.timeout, t.retry = c.input, c, c.timeout, c.retry
	if len(t.retry) == 0 {
		t.retry = p.g.opts.Retry
	}
	return t
}

// handling makes the task of the error handler of failed.
func (p *preparer) handling(failed *task, err error) *task {
	n := p.g.nodes[failed.node.ErrorHandler]
	ns := childNS(failed.ns, n.Name)
	t := p.task(n, n.Name, handlerPath(failed.path), p.ids.handling(ns, n.Name, failed.id), ns, pushTriggers)
	t.cpMap = withCheckpoint(failed.cpMap, failed.ns, p.cp.id)
	t.pad.parent = failed.pad
	t.input = failed.input
	t.nodeErr = &NodeError{Node: failed.name, Err: ownError(err)}
	return t
}

// task fills in what all kinds of tasks share.
func (p *preparer) task(n *Node, name string, path Path, id, ns string, triggers []string) *task {
	t := &task{id: id, node: n, name: name, path: path, pathStr: path.String(), ns: taskNS(ns, id), triggers: triggers, cpMap: p.shared}
	t.pad = p.scratchpad(t)
	if n != nil {
		t.timeout, t.retry = n.Timeout, n.Retry
		if len(t.retry) == 0 {
			t.retry = p.g.opts.Retry
		}
		if ch, ok := p.set.by[chPrevious]; ok {
			t.previous, _ = ch.Get()
		}
	}
	t.metadata = p.metadata
	if n != nil && len(n.Metadata) > 0 {
		t.metadata = maps.Clone(p.metadata)
		if t.metadata == nil {
			t.metadata = map[string]any{}
		}
		maps.Copy(t.metadata, n.Metadata)
	}
	return t
}

func (p *preparer) scratchpad(t *task) *scratchpad {
	pad := &scratchpad{step: p.step, stop: p.stop, parent: p.parentPad, token: p.pending.token}
	if p.pending.any {
		pad.resume = slices.Clone(p.pending.resume[t.id])
		pad.shown = p.pending.shown[t.id]
	}
	// An answer by id goes to the task's next question. Threads written before
	// questions had ids of their own know only the first id.
	if len(p.resumeMap) > 0 {
		v, ok := p.resumeMap[interruptID(t.ns, len(pad.resume))]
		if first := interruptID(t.ns, 0); !ok && (len(pad.shown) == 0 || slices.Contains(pad.shown, first)) {
			v, ok = p.resumeMap[first]
		}
		if ok {
			pad.resume = append(pad.resume, v)
		}
	}
	return pad
}

// readLocal is the state as a conditional edge of t sees it: the channels with
// the task's own writes applied, on copies.
func readLocal(g *Graph, set *channelSet, pad *scratchpad, sel Keys, own []write) (any, error) {
	local := &channelSet{by: make(map[string]channel.Channel, len(sel.Names))}
	for _, name := range sel.Names {
		ch, ok := set.by[name]
		if !ok {
			continue
		}
		var values []any
		for _, w := range own {
			if w.channel == name {
				values = append(values, w.value)
			}
		}
		cp := ch.Copy()
		if _, err := cp.Update(values); err != nil {
			return nil, err
		}
		local.by[name] = cp
	}
	v := local.read(sel)
	if m, ok := v.(map[string]any); ok && !sel.Single {
		for _, name := range sel.Names {
			if managed, isManaged := g.opts.Managed[name]; isManaged {
				m[name] = managed(pad.step, pad.stop)
			}
		}
	}
	return v, nil
}

// futureState lets callers wait for the end of a called task.
type futureState struct {
	once sync.Once // of resolving
	made sync.Once // of ch
	ch   chan struct{}
	val  any
	err  error
}
