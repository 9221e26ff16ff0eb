package agent

import (
	"context"
	"fmt"
	"slices"

	"github.com/stele-go/stele/agent/tool"
	"github.com/stele-go/stele/message"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
)

// Jump says where an agent goes on.
type Jump string

// The places where an agent can go on.
const (
	JumpModel Jump = "model" // the model, and the BeforeModel functions before it
	JumpTools Jump = "tools" // the tools that the newest AI message calls
	JumpEnd   Jump = "end"   // the end, and the AfterAgent functions before it
)

// connect adds the hooks of the middleware, and the edges:
//
//	start → BeforeAgent… → BeforeModel… → model → AfterModel… (in reverse) → tools → BeforeModel…
//	                                                                       → AfterAgent… (in reverse) → end
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
	to := destinations{model: first(beforeModel, NodeModel), end: first(afterAgent, graph.End)}

	b.Edge(graph.Start, first(beforeAgent, to.model))
	a.chain(b, beforeAgent, to.model, to)
	a.chain(b, beforeModel, NodeModel, to)
	a.chain(b, afterAgent, graph.End, to)

	exit := node{name: NodeModel}
	if n := len(afterModel); n > 0 {
		b.Edge(NodeModel, afterModel[0].name)
		a.chain(b, afterModel[:n-1], afterModel[n-1].name, to)
		exit = afterModel[n-1]
	}
	forms := a.opts.Response.asTools()
	switch {
	case a.hasTools():
		b.Conditional(exit.name, "next", a.afterModel(to), to.model, NodeTools, to.end)
		b.Conditional(NodeTools, "next", a.afterTools(to), a.endsOfTools(to)...)
	case forms:
		b.Conditional(exit.name, "next", untilAnswer(to), to.model, to.end)
	case exit.name == NodeModel:
		b.Edge(exit.name, to.end)
	default:
		a.chain(b, []node{exit}, to.end, to)
	}
}

// node is the node of a hook.
type node struct {
	name  string
	jumps []Jump
}

// destinations are the nodes where jumps lead.
type destinations struct{ model, end string }

// first is the first of the nodes, or what comes after them.
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
	b.Node(n.name, a.hookNode(n, h))
	return append(nodes, n)
}

// hookNode is the function of a hook's node. It refuses a jump that is not allowed.
func (a *agent) hookNode(n node, hook Hook) func(ctx context.Context, input any) (any, error) {
	return func(ctx context.Context, input any) (any, error) {
		state, err := stateOf(input)
		if err != nil {
			return nil, err
		}
		out, err := hook(ctx, state)
		if err != nil {
			return nil, err
		}
		update := out
		if c, ok := out.(pregel.Command); ok {
			update = c.Update
		}
		pairs, _ := pregel.PairsOf(update)
		for _, p := range pairs {
			if p.Key != KeyJump || p.Value == nil {
				continue
			}
			if j, ok := jumpOf(p.Value); !ok || !slices.Contains(n.jumps, j) || j == JumpTools && !a.hasTools() {
				return nil, &JumpError{n.name, p.Value}
			}
		}
		return out, nil
	}
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

// chain leads from each node to the next, and from the last to after, unless it jumps.
func (a *agent) chain(b *graph.Builder, nodes []node, after string, to destinations) {
	for i, n := range nodes {
		next := first(nodes[i+1:], after)
		if len(n.jumps) == 0 {
			b.Edge(n.name, next)
			continue
		}
		ends := []string{next}
		for _, j := range n.jumps {
			if end := to.of(j); !slices.Contains(ends, end) && (j != JumpTools || a.hasTools()) {
				ends = append(ends, end)
			}
		}
		b.Conditional(n.name, "next", to.jumpOr(next), ends...)
	}
}

// of is the node where a jump leads.
func (to destinations) of(j Jump) string {
	switch j {
	case JumpModel:
		return to.model
	case JumpEnd:
		return to.end
	}
	return NodeTools
}

// JumpError: a hook of a middleware jumps where it may not; see Middleware.Jumps.
type JumpError struct {
	Node string // the node of the hook
	Jump any    // what it wrote to "jump_to"
}

// Error names the node and the jump.
func (e *JumpError) Error() string {
	return fmt.Sprintf("%s: jump to %v is not among the middleware's jumps", e.Node, e.Jump)
}

// jump is where the update of a node jumps; "" if it does not.
func (to destinations) jump(state any) (string, error) {
	s, err := stateOf(state)
	if err != nil {
		return "", err
	}
	if j, ok := jumpOf(s[KeyJump]); ok {
		return to.of(j), nil
	}
	return "", nil
}

// jumpOr is the path behind a hook.
func (to destinations) jumpOr(next string) graph.Path {
	return func(_ context.Context, state any) (any, error) {
		if name, err := to.jump(state); err != nil || name != "" {
			return name, err
		}
		return next, nil
	}
}

// afterModel is the path behind the model and its hooks.
func (a *agent) afterModel(to destinations) graph.Path {
	return func(_ context.Context, state any) (any, error) {
		if name, err := to.jump(state); err != nil || name != "" {
			return name, err
		}
		s, err := stateOf(state)
		if err != nil {
			return nil, err
		}
		asked, answers, err := lastCalls(s)
		if err != nil || asked == nil || len(asked.ToolCalls)+len(asked.InvalidToolCalls) == 0 {
			return to.end, err
		}
		left := slices.DeleteFunc(waiting(asked, answers), func(c message.ToolCall) bool { return a.opts.Response.has(c.Name) })
		switch {
		case len(left) > 0:
			return tool.Send(NodeTools, left), nil
		case s[KeyResponse] != nil:
			return to.end, nil
		}
		return to.model, nil // somebody else has answered all calls, or none of them could be read
	}
}

// untilAnswer is the path behind the model of an agent that has no tools but the forms of its
// answer.
func untilAnswer(to destinations) graph.Path {
	return func(_ context.Context, state any) (any, error) {
		if name, err := to.jump(state); err != nil || name != "" {
			return name, err
		}
		s, err := stateOf(state)
		if err != nil {
			return nil, err
		}
		if s[KeyResponse] != nil {
			return to.end, nil
		}
		return to.model, nil
	}
}

// afterTools is the path behind the tools.
func (a *agent) afterTools(to destinations) graph.Path {
	return func(_ context.Context, state any) (any, error) {
		s, err := stateOf(state)
		if err != nil {
			return nil, err
		}
		asked, answers, err := lastCalls(s)
		if err != nil || asked == nil {
			return to.model, err
		}
		failed := false
		ran := map[string]string{} // the tool that answered a call, which may be another than it named
		for _, m := range answers {
			if a.byName[m.Name] != nil {
				ran[m.ToolCallID] = m.Name
			}
			if a.opts.Response.has(m.Name) && m.Status != message.StatusError {
				return to.end, nil
			}
			failed = failed || m.Status == message.StatusError
		}
		if failed { // the model is to mend it, also where the tool is ReturnDirect
			return to.model, nil
		}
		some, all := false, true
		for _, c := range asked.ToolCalls {
			name, ok := ran[c.ID]
			if !ok {
				name = c.Name
			}
			if t := a.byName[name]; t != nil {
				some, all = true, all && isDirect(t)
			}
		}
		if some && all {
			return to.end, nil
		}
		return to.model, nil
	}
}

// endsOfTools are where afterTools leads. It ends the agent only if there are tools or forms that do.
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

// lastCalls are the newest AI message in a state, nil if there is none, and the tool messages
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
