package agent

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/stele-go/stele/agent/tool"
	"github.com/stele-go/stele/message"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
)

// Jump names the part of an agent that runs next.
type Jump string

// The targets of jumps.
const (
	JumpModel Jump = "model" // the model, and the BeforeModel functions before it
	JumpTools Jump = "tools" // the calls of the newest AI message that wait, and the AfterModel functions before them; none: no jump
	JumpEnd   Jump = "end"   // the end, and the AfterAgent functions before it
)

// connect adds the hooks of the middleware, and the edges:
//
//	start → BeforeAgent… → BeforeModel… → model → AfterModel… (in reverse) → tools → BeforeModel…
//	                                                                       → AfterAgent… (in reverse) → end
//
// A jump passes over hooks that are not due: those before a model that is not asked, and those of an
// agent that ends before it begins. It takes effect behind all others, which are hooks that a gate or a
// policy may be: the BeforeAgent hooks, unless it ends the agent, and the AfterModel hooks.
func (a *agent) connect(b *graph.Builder) {
	var beforeAgent, beforeModel, afterModel, afterAgent []node
	for _, m := range a.opts.Middleware {
		beforeAgent = a.hook(b, beforeAgent, m, "before_agent", m.BeforeAgent)
		beforeModel = a.hook(b, beforeModel, m, "before_model", m.BeforeModel)
		afterModel = a.hook(b, afterModel, m, "after_model", m.AfterModel)
		afterAgent = a.hook(b, afterAgent, m, "after_agent", m.AfterAgent)
	}
	slices.Reverse(afterModel)
	slices.Reverse(afterAgent)
	to := destinations{model: first(beforeModel, NodeModel), tools: first(afterModel, NodeTools), end: first(afterAgent, graph.End)}

	b.Edge(graph.Start, first(beforeAgent, to.model))
	for i, n := range beforeAgent {
		next := first(beforeAgent[i+1:], to.model)
		at := destinations{model: next, tools: to.tools, end: to.end}
		if i < len(beforeAgent)-1 {
			at.tools = next
		}
		a.leave(b, n, next, at)
	}
	for i, n := range beforeModel {
		a.leave(b, n, first(beforeModel[i+1:], NodeModel), to)
	}
	for i, n := range afterAgent {
		next := first(afterAgent[i+1:], graph.End)
		a.leave(b, n, next, destinations{model: to.model, tools: to.tools, end: next})
	}
	exit := node{name: NodeModel}
	for _, n := range afterModel {
		b.Edge(exit.name, n.name)
		exit = node{n.name, append(exit.jumps, n.jumps...)}
	}
	switch {
	case a.hasTools():
		b.Conditional(exit.name, "next", a.afterModel(to), to.model, NodeTools, to.end)
		ends := a.endsOfTools(to)
		if to.end != graph.End && slices.ContainsFunc(a.tools, isDirect) {
			b.Node(NodeDirect, func(context.Context, any) (any, error) { return nil, nil })
			b.Conditional(NodeDirect, "next", a.afterDirect(to), to.end, graph.End)
			ends = append(ends, NodeDirect)
		}
		b.Conditional(NodeTools, "next", a.afterTools(to), ends...)
	case a.opts.Response.asTools():
		b.Conditional(exit.name, "next", untilAnswer(to), to.model, to.end)
	default:
		a.leave(b, exit, to.end, to)
	}
}

// node is the node of a hook.
type node struct {
	name  string
	jumps []Jump
}

// destinations are the nodes to which jumps lead. A jump to the tools leads to the first hook behind
// the model, as no hook may have seen the waiting calls.
type destinations struct{ model, tools, end string }

// first returns the first of the nodes, or after if there are none.
func first(nodes []node, after string) string {
	if len(nodes) > 0 {
		return nodes[0].name
	}
	return after
}

// hook adds the node of a middleware's hook to nodes, if there is one.
func (a *agent) hook(b *graph.Builder, nodes []node, m Middleware, name string, h Hook) []node {
	if h == nil {
		return nodes
	}
	n := node{m.Name + "." + name, m.Jumps}
	named := func(ctx context.Context, state map[string]any) (any, error) { return h(m.named(ctx), state) }
	b.Node(n.name, a.hookNode(n, named, name))
	return append(nodes, n)
}

// hookNode is the function of a hook's node. It refuses a jump that is not allowed, and keeps one that
// came from a hook before.
func (a *agent) hookNode(n node, hook Hook, kind string) func(ctx context.Context, input any) (any, error) {
	return func(ctx context.Context, input any) (any, error) {
		state, err := stateOf(input)
		if err != nil {
			return nil, err
		}
		out, err := hook(ctx, state)
		if err != nil {
			return nil, err
		}
		rest, own, err := a.jumpsOf(n, out)
		if err != nil {
			return nil, err
		}
		before, _ := jumpOf(state[KeyJump])
		kept := own
		switch {
		case kind == "before_agent" && own == "" && before == JumpTools:
			kept = before
		case kind == "after_model" && own == "":
			kept = before
		case kind == "after_model" && wasAsked(state) && own == JumpTools:
			kept = "" // they are next anyway
		case kind == "after_model" && !wasAsked(state) && own != JumpTools:
			kept = unasked + own
		}
		// The model was not asked yet: a structured answer is that of a run before, unless the hook gives one.
		stale := own == JumpEnd && strings.HasPrefix(kind, "before_") && state[KeyResponse] != nil && !slices.ContainsFunc(rest, givesResponse)
		if kept == own && !stale {
			return out, nil
		}
		if stale {
			rest = append(rest, pregel.Command{Update: pregel.Pairs{{Key: KeyResponse}}})
		}
		if kept != "" {
			rest = append(rest, pregel.Command{Update: pregel.Pairs{{Key: KeyJump, Value: string(kept)}}})
		}
		return rest, nil
	}
}

// givesResponse reports whether a Command of a hook gives a structured answer.
func givesResponse(part any) bool {
	c, _ := part.(pregel.Command)
	pairs, _ := pregel.PairsOf(c.Update)
	return slices.ContainsFunc(pairs, func(p pregel.Pair) bool { return p.Key == KeyResponse })
}

// jumpsOf returns the jump of a hook's output, and the output without it. It is an error to jump where
// the hook may not, and to go to the model or the tools by a Command or a Send while hooks that are due
// run.
func (a *agent) jumpsOf(n node, out any) (rest []any, own Jump, err error) {
	switch x := out.(type) {
	case nil:
		return nil, "", nil
	case []pregel.Command:
		for _, c := range x {
			rest = append(rest, c)
		}
	case []any:
		rest = slices.Clone(x)
	case []pregel.Send:
		for _, s := range x {
			rest = append(rest, s)
		}
	default:
		rest = []any{x}
	}
	for i, part := range rest {
		var c pregel.Command
		switch x := part.(type) {
		case pregel.Command:
			c = x
		case *pregel.Command:
			if x != nil {
				c = *x
			}
		case pregel.Send, *pregel.Send, []any:
			c.Goto = x
		default:
			c.Update = x
		}
		if c.Graph == pregel.Parent { // its nodes and keys are those of the graph around; another name may be that of n
			continue
		}
		for _, to := range []string{NodeModel, NodeTools} {
			if leadsTo(c.Goto, to) {
				return nil, "", &JumpError{n.name, to}
			}
		}
		pairs, ok := pregel.PairsOf(c.Update)
		if !ok {
			continue
		}
		for _, p := range pairs {
			if p.Key != KeyJump || p.Value == nil {
				continue
			}
			j, ok := jumpOf(p.Value)
			if !ok || !slices.Contains(n.jumps, j) || j == JumpTools && !a.hasTools() {
				return nil, "", &JumpError{n.name, p.Value}
			}
			own = j
		}
		c.Update = slices.DeleteFunc(slices.Clone(pairs), func(p pregel.Pair) bool { return p.Key == KeyJump })
		rest[i] = c
	}
	return rest, own, nil
}

// leadsTo reports whether a Command.Goto leads to a node.
func leadsTo(to any, node string) bool {
	switch x := to.(type) {
	case string:
		return x == node
	case pregel.Send:
		return x.Node == node
	case *pregel.Send:
		return x != nil && x.Node == node
	case []string:
		return slices.Contains(x, node)
	case []pregel.Send:
		return slices.ContainsFunc(x, func(s pregel.Send) bool { return s.Node == node })
	case []any:
		return slices.ContainsFunc(x, func(e any) bool { return leadsTo(e, node) })
	}
	return false
}

// jumpOf reads a jump, also one that was stored.
func jumpOf(v any) (Jump, bool) {
	switch x := v.(type) {
	case Jump:
		return x, true
	case string:
		return Jump(x), true
	}
	return "", false
}

// leave leads from a node to the next, unless it jumps.
func (a *agent) leave(b *graph.Builder, n node, next string, to destinations) {
	ends := []string{next}
	for _, j := range n.jumps {
		if end := to.of(j); !slices.Contains(ends, end) && (j != JumpTools || a.hasTools()) {
			ends = append(ends, end)
		}
	}
	if len(n.jumps) == 0 {
		b.Edge(n.name, next)
		return
	}
	b.Conditional(n.name, "next", a.jumpOr(to, next), ends...)
}

// of returns the node to which a jump leads.
func (to destinations) of(j Jump) string {
	switch j {
	case JumpModel:
		return to.model
	case JumpEnd:
		return to.end
	}
	return to.tools
}

// JumpError: a hook of a middleware jumps where it may not, see Middleware.Jumps, or goes to the model or
// the tools by another way than a Jump.
type JumpError struct {
	Node string // the node of the hook
	Jump any    // what it wrote to "jump_to"
}

// Error names the node and the jump.
func (e *JumpError) Error() string {
	return fmt.Sprintf("%s: jump to %v is not among the middleware's jumps", e.Node, e.Jump)
}

// jump returns the jump of the node before; "" if there is none.
func jump(state map[string]any) Jump {
	j, _ := jumpOf(state[KeyJump])
	if after, ok := strings.CutPrefix(string(j), unasked); ok {
		j = Jump(after)
	}
	switch j {
	case JumpModel, JumpTools, JumpEnd:
		return j
	}
	return ""
}

// unasked is the prefix of a jump by a hook behind the model that was reached by a jump to the tools.
const unasked = "tools, "

// wasAsked reports whether the hooks behind the model run because it was asked.
func wasAsked(state map[string]any) bool {
	j, _ := jumpOf(state[KeyJump])
	return j != JumpTools && !strings.HasPrefix(string(j), unasked)
}

// jumpsElsewhere reports whether the agent is about to jump to another place than the tools, so that the
// calls of its newest message do not run.
func jumpsElsewhere(state map[string]any) bool {
	j := jump(state)
	return j == JumpModel || j == JumpEnd
}

// jumpOr is the path behind a hook. Where no call waits, a jump to the tools is none.
func (a *agent) jumpOr(to destinations, next string) graph.Path {
	return func(_ context.Context, input any) (any, error) {
		state, err := stateOf(input)
		if err != nil {
			return nil, err
		}
		switch j := jump(state); j {
		case "":
			return next, nil
		case JumpTools:
			_, left, err := a.left(state)
			switch {
			case err != nil || len(left) == 0:
				return next, err
			case to.tools == NodeTools:
				return tool.Send(NodeTools, left), nil
			}
			return to.tools, nil
		default:
			return to.of(j), nil
		}
	}
}

// left are the calls of the newest AI message that tools are to run.
func (a *agent) left(state map[string]any) (asked *message.Message, left []message.ToolCall, err error) {
	asked, answers, err := lastCalls(state)
	if asked == nil {
		return nil, nil, err
	}
	return asked, slices.DeleteFunc(waiting(asked, answers), func(c message.ToolCall) bool { return a.opts.Response.has(c.Name) }), nil
}

// afterModel is the path behind the model and its hooks.
func (a *agent) afterModel(to destinations) graph.Path {
	return func(_ context.Context, input any) (any, error) {
		state, err := stateOf(input)
		if err != nil {
			return nil, err
		}
		if jumpsElsewhere(state) {
			return to.of(jump(state)), nil
		}
		asked, left, err := a.left(state)
		switch {
		case err != nil || asked == nil || len(asked.ToolCalls)+len(asked.InvalidToolCalls) == 0:
			return to.end, err
		case len(left) > 0:
			return tool.Send(NodeTools, left), nil
		case state[KeyResponse] != nil && wasAsked(state): // the model was asked, and has answered
			return to.end, nil
		}
		return to.model, nil // all calls were answered elsewhere, or none of them could be read
	}
}

// untilAnswer is the path behind the model of an agent that has no tools but the forms of its
// answer.
func untilAnswer(to destinations) graph.Path {
	return func(_ context.Context, input any) (any, error) {
		state, err := stateOf(input)
		if err != nil {
			return nil, err
		}
		if jumpsElsewhere(state) {
			return to.of(jump(state)), nil
		}
		if state[KeyResponse] != nil {
			return to.end, nil
		}
		return to.model, nil
	}
}

// afterTools is the path behind the tools. Each task of a superstep takes it, and sees its own answer alone of those that
// are given beside it. So one that ran beside others does not end an agent that has AfterAgent hooks, but goes to
// NodeDirect: the model may be asked beside it, and the hooks would run twice.
func (a *agent) afterTools(to destinations) graph.Path {
	return func(ctx context.Context, state any) (any, error) {
		s, err := stateOf(state)
		if err != nil {
			return nil, err
		}
		asked, answers, err := lastCalls(s)
		if err != nil || asked == nil {
			return to.model, err
		}
		if slices.ContainsFunc(answers, func(m message.Message) bool { return a.opts.Response.has(m.Name) && m.Status != message.StatusError }) {
			return to.end, nil
		}
		switch sends, own, err := pregel.Sent(ctx); {
		case !a.endsDirectly(asked, answers) || unanswered(ctx, answers): // the model should correct it, even if the tool is ReturnDirect
			return to.model, nil
		case err == nil && own >= 0 && len(sends) > 1 && to.end != graph.End:
			return NodeDirect, nil
		}
		return to.end, nil
	}
}

// afterDirect is the path behind NodeDirect, which sees all answers. Where one is missing, failed, or is not that of a
// tool that is ReturnDirect, its task has gone to the model.
func (a *agent) afterDirect(to destinations) graph.Path {
	return func(_ context.Context, state any) (any, error) {
		s, err := stateOf(state)
		if err != nil {
			return nil, err
		}
		asked, answers, err := lastCalls(s)
		if err != nil || asked == nil || len(waiting(asked, answers)) > 0 || !a.endsDirectly(asked, answers) {
			return graph.End, err
		}
		return to.end, nil
	}
}

// endsDirectly reports whether the tools that a message called are all ReturnDirect, and no answer is an error. A call that
// has no answer is taken for one of the tool it names, which answered.
func (a *agent) endsDirectly(asked *message.Message, answers []message.Message) bool {
	ran := map[string]string{} // the tool that answered a call, which may be another than it named
	for _, m := range answers {
		if m.Status == message.StatusError {
			return false
		}
		if a.byName[m.Name] != nil {
			ran[m.ToolCallID] = m.Name
		}
	}
	some, all := false, len(asked.InvalidToolCalls) == 0 // the model should make those again
	for _, c := range asked.ToolCalls {
		name, ok := ran[c.ID]
		if !ok {
			name = c.Name
		}
		if t := a.byName[name]; t != nil {
			some, all = true, all && isDirect(t)
		}
	}
	return some && all
}

// unanswered reports whether the task behind which ctx is ran a call that has no answer: a middleware may leave it without
// one. The answers are those before the superstep, and its own.
func unanswered(ctx context.Context, answers []message.Message) bool {
	sends, own, err := pregel.Sent(ctx)
	if err != nil || own < 0 || own >= len(sends) { // an update of the state by somebody, as the tools
		return false
	}
	for _, c := range tool.Sent(sends[own].Arg) {
		if !slices.ContainsFunc(answers, func(m message.Message) bool { return m.ToolCallID == c.ID }) {
			beside, err := runsBeside(ctx, func(o message.ToolCall) bool { return o.ID == c.ID })
			return err == nil && !beside
		}
	}
	return false
}

// endsOfTools returns the nodes to which afterTools may lead. It may end the agent only if there are
// tools or forms that do.
func (a *agent) endsOfTools(to destinations) []string {
	ends := []string{to.model}
	if a.opts.Response.asTools() || slices.ContainsFunc(a.tools, isDirect) {
		ends = append(ends, to.end)
	}
	return ends
}

// waiting are the calls of an AI message that have no answer yet. No middleware decides any other: it
// would be answered twice.
func waiting(asked *message.Message, answers []message.Message) []message.ToolCall {
	return slices.DeleteFunc(slices.Clone(asked.ToolCalls), func(c message.ToolCall) bool {
		return slices.ContainsFunc(answers, func(m message.Message) bool { return m.ToolCallID == c.ID })
	})
}

// lastCalls returns the newest AI message in a state, nil if there is none, and the tool messages
// behind it.
func lastCalls(state map[string]any) (*message.Message, []message.Message, error) {
	list, err := Messages(state)
	if err != nil {
		return nil, nil, err
	}
	asked, answers := newestCalls(list)
	return asked, answers, nil
}

// newestCalls is lastCalls of a list.
func newestCalls(list []message.Message) (asked *message.Message, answers []message.Message) {
	for i := len(list) - 1; i >= 0; i-- {
		if list[i].Type != message.TypeAI {
			continue
		}
		for _, m := range list[i+1:] {
			if m.Type == message.TypeTool {
				answers = append(answers, m)
			}
		}
		return &list[i], answers
	}
	return nil, nil
}
