package pregel

import (
	"fmt"
	"slices"

	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/internal/answer"
)

// NodeError tells an error handler which node failed, and with which error. For a node in a graph
// inside it is the error that this node returned. After a restart Err is a plain error with the stored
// text.
type NodeError struct {
	Node string
	Err  error
}

// preparer makes the tasks that follow a checkpoint.
type preparer struct {
	g        *Graph
	cp       *liveCheckpoint
	set      *channelSet
	ns       string // namespace of the graph
	step     int
	stop     int
	answers  answer.Set
	cpMap    map[string]string
	metadata map[string]any // of the run
	ids      taskIDs
	previous any // what the entrypoint saved last
	// warn is called for packets that cannot be delivered; may be nil.
	warn func(msg string, args ...any)

	around *checkpointsAround
}

func (p *preparer) init() (err error) {
	room := p.ids.buf
	p.ids, err = newTaskIDs(p.cp.id, p.cp.v, p.step)
	p.ids.buf = room
	p.around = &checkpointsAround{outer: p.cpMap, ns: p.ns, id: p.cp.id}
	if ch, ok := p.set.get(chPrevious); ok {
		p.previous, _ = ch.Get()
	}
	return err
}

// next makes the tasks: one for each packet, then one for each node that was triggered. If
// updated is not empty, only nodes that those channels trigger are looked at.
func (p *preparer) next(updated []string) (*taskSet, error) {
	if err := p.init(); err != nil {
		return nil, err
	}
	tasks := &taskSet{}
	if packets, ok := p.set.get(chTasks); ok && packets.Available() {
		packets.(interface{ Each(func(int, any) bool) }).Each(func(i int, v any) bool {
			if t := p.sent(i, v); t != nil {
				tasks.add(t)
			}
			return true
		})
	}
	for _, name := range p.candidates(updated) {
		t, err := p.pulled(p.g.plans[name])
		if err != nil {
			return nil, err
		}
		if t != nil {
			tasks.add(t)
		}
	}
	return tasks, nil
}

func (p *preparer) candidates(updated []string) []string {
	if len(p.cp.versions) == 0 {
		return nil
	}
	if len(updated) == 0 || len(p.g.triggers) == 0 {
		return p.g.order
	}
	var triggered []string
	for _, ch := range updated {
		triggered = append(triggered, p.g.triggers[ch]...)
	}
	slices.Sort(triggered)
	return slices.Compact(triggered)
}

// triggered reports whether a trigger of n has a value and moved since n last
// ran.
func (p *preparer) triggered(n *Node) bool {
	seen, ran := p.cp.seen[n.Name]
	for _, name := range n.Triggers {
		if ch := p.set.at(name); ch.Available() && (!ran || p.cp.versions[name].Compare(seen[name]) > 0) {
			return true
		}
	}
	return false
}

func (p *preparer) pulled(plan *nodePlan) (*task, error) {
	n := plan.node
	if !p.triggered(n) || !n.executable() {
		return nil, nil
	}
	ns := childNS(p.ns, n.Name)
	t := p.task(n, n.Name, p.ids.pulled(ns, n.Name, plan.triggers), ns, plan.triggers)
	t.path, t.pathStr = plan.path, plan.pathStr
	input, ok, err := p.input(n)
	if err != nil {
		return nil, fmt.Errorf("input of node %q: %w", n.Name, err)
	}
	if !ok {
		return nil, nil
	}
	t.input = input
	return t, nil
}

// input reads the input of a node. ok is false if its only channel is empty.
func (p *preparer) input(n *Node) (v any, ok bool, err error) {
	if n.Reads.Single {
		ch, isChannel := p.set.get(n.Reads.Names[0])
		if !isChannel {
			return nil, false, nil
		}
		if v, ok = ch.Get(); !ok {
			return nil, false, nil
		}
	} else {
		m := make(map[string]any, len(n.Reads.Names))
		for _, name := range n.Reads.Names {
			if ch, isChannel := p.set.get(name); isChannel {
				if x, set := ch.Get(); set {
					m[name] = x
				}
			} else if managed, isManaged := p.g.spec.Managed[name]; isManaged {
				m[name] = managed(p.step, p.stop)
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
	t := p.task(n, n.Name, p.ids.sent(ns, n.Name, index), ns, pushTriggers)
	t.packet, t.pathStr = index, sendPathString(index)
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

// called makes the task of the n-th call of caller.
func (p *preparer) called(caller *task, n int, c *callSpec) *task {
	ns := childNS(caller.ns, c.name)
	from := caller.where()
	t := p.task(nil, c.name, p.ids.called(ns, c.name, from, n), ns, pushTriggers)
	p.nest(t, caller, callPath(from, n))
	t.caller, t.number = caller, n
	t.input, t.call, t.timeout, t.retry = c.input, c, c.timeout, c.retry
	if len(t.retry) == 0 {
		t.retry = p.g.spec.Retry
	}
	return t
}

// handling makes the task of the error handler of failed.
func (p *preparer) handling(failed *task, err error) *task {
	n := p.g.nodes[failed.node.ErrorHandler]
	ns := childNS(failed.ns, n.Name)
	t := p.task(n, n.Name, p.ids.handling(ns, n.Name, failed.id), ns, pushTriggers)
	p.nest(t, failed, handlerPath(failed.where()))
	t.input = failed.input
	t.nodeErr = &NodeError{Node: failed.name, Err: ownError(err)}
	return t
}

// nest puts t below the task that it belongs to.
func (p *preparer) nest(t, parent *task, path Path) {
	t.path, t.pathStr = path, path.String()
	t.around = &checkpointsAround{outer: parent.around.get(), ns: parent.ns, id: p.cp.id}
	t.pad.Below(&parent.pad)
}

// task makes a task with the fields that all kinds of tasks share. The caller sets the path.
func (p *preparer) task(n *Node, name, id, ns string, triggers []string) *task {
	t := &task{id: id, node: n, name: name, ns: taskNS(ns, id), triggers: triggers, around: p.around}
	p.answers.Fill(&t.pad, t.id, t.ns)
	t.metadata = p.metadata
	if n != nil {
		t.timeout, t.retry, t.previous, t.metadata = n.Timeout, n.Retry, p.previous, merged(p.metadata, n.Metadata)
		if len(t.retry) == 0 {
			t.retry = p.g.spec.Retry
		}
	}
	return t
}

// readLocal returns the state that a conditional edge of a task sees: the channels with the task's own
// writes applied, on copies. A channel without writes is not copied if an Update without values would
// not change it.
func readLocal(g *Graph, set *channelSet, step, stop int, sel Keys, own []write) (Pairs, error) {
	out := make(Pairs, 0, len(sel.Names))
	for _, name := range sel.Names {
		ch, ok := set.get(name)
		if !ok {
			if managed, isManaged := g.spec.Managed[name]; isManaged && !sel.Single {
				out = append(out, Pair{name, managed(step, stop)})
			}
			continue
		}
		var values []any
		for _, w := range own {
			if w.channel == name {
				values = append(values, w.value)
			}
		}
		if len(values) > 0 || !channel.IsSteady(ch) {
			ch = ch.Copy()
			if _, err := ch.Update(values); err != nil {
				return nil, err
			}
		}
		if v, ok := ch.Get(); ok {
			out = append(out, Pair{name, v})
		}
	}
	return out, nil
}

// selected returns the values that sel names: for a single channel its value or nil, for several a map
// of those that have one.
func selected(sel Keys, values Pairs) any {
	if sel.Single {
		if len(values) == 0 {
			return nil
		}
		return values[0].Value
	}
	out := make(map[string]any, len(values))
	for _, p := range values {
		out[p.Key] = p.Value
	}
	return out
}

// triggeredNodes are the nodes that packets and triggers name, even if their input cannot be
// made.
func (p *preparer) triggeredNodes(updated []string) []string {
	var names []string
	if packets, ok := p.set.get(chTasks); ok && packets.Available() {
		packets.(interface{ Each(func(int, any) bool) }).Each(func(_ int, v any) bool {
			if s, ok := sendOf(v); ok && p.g.nodes[s.Node] != nil && !slices.Contains(names, s.Node) {
				names = append(names, s.Node)
			}
			return true
		})
	}
	for _, name := range p.candidates(updated) {
		if n := p.g.plans[name].node; n.executable() && p.triggered(n) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}
