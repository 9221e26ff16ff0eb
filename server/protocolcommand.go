package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/stele-go/stele/message/pregeljson"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/server/internal/streamv2"
)

// protocolAPI has the operations of protocol v2.
type protocolAPI struct {
	graphs       *graphSet
	threads      *threadAPI
	assistants   *assistantAPI
	runs         *runAPI
	events       *streamv2.Threads
	rates        *rates
	bodies       bodyReader
	heartbeat    time.Duration
	writeTimeout time.Duration
	log          *slog.Logger
}

// protocolError is an error of a command as clients see it. The codes are the protocol's.
type protocolError struct{ code, message string }

// Error is the message.
func (e *protocolError) Error() string { return e.message }

func refused(code, format string, args ...any) error {
	return &protocolError{code, fmt.Sprintf(format, args...)}
}

// Codes of protocolErrors.
const (
	codeArgument     = "invalid_argument"
	codeCommand      = "unknown_command"
	codeUnknown      = "unknown_error"
	codeRun          = "no_such_run"
	codeSubscription = "no_such_subscription"
	codeInterrupt    = "no_such_interrupt"
	codeCheckpoint   = "no_such_checkpoint"
	codeNamespace    = "no_such_namespace"
	codePermission   = "permission_denied"
	codeNotSupported = "not_supported"
)

// session is the connection that commands act on: a single request, or a WebSocket.
type session interface {
	// through is the number of the last event that the client was sent.
	through() int64
	// subscribe sends the events of the past behind since that the client has not got, too.
	subscribe(ctx context.Context, id string, s streamv2.Subscription, since int64) (replayed int, err error)
	unsubscribe(id string) bool
	// bound returns the translator of the run whose tree of graphs the client may request, and whose
	// events it may continue.
	bound(ctx context.Context) (*streamv2.Translator, error)
	bind(r runs.Run)
}

// protocolCommand is a command of protocol v2. A param of a wrong type is refused. One that the command does not
// name is left alone, as in requests; null is none.
type protocolCommand struct {
	method string
	in     []field
	do     func(*protocolAPI, *call, body, session) (any, error)
}

var (
	aNamespace = list(text)
	// startParams are those of a command that makes a run.
	startParams = []field{may("config", aConfig), may("metadata", object), may("multitaskStrategy", multitask),
		may("multitask_strategy", multitask), may("langsmith_tracer", object)}
	// selectionParams are those of a subscription. What is wrong in channels has words of its own.
	selectionParams = []field{may("channels", anything), may("namespaces", list(aNamespace)), may("depth", upTo(0, maxOffset))}
)

// protocolCommands are those that the protocol has and those that LangGraph's server has.
var protocolCommands = []protocolCommand{
	{method: "run.start", do: (*protocolAPI).start, in: append([]field{may("assistant_id", text), may("input", anything)}, startParams...)},
	{method: "subscription.subscribe", do: (*protocolAPI).subscribe, in: selectionParams},
	{method: "subscription.reconnect", do: (*protocolAPI).reconnect, in: append([]field{may("since", anything), may("subscription_id", text), may("run_id", text),
		may("last_event_id", text), may("subscriptions", texts)}, selectionParams...)},
	{method: "subscription.unsubscribe", do: (*protocolAPI).unsubscribe, in: []field{may("subscription_id", text)}},
	{method: "agent.getTree", do: (*protocolAPI).tree, in: []field{may("run_id", text)}},
	{method: "input.respond", do: (*protocolAPI).respond, in: append([]field{may("interrupt_id", anything), may("response", anything), may("responses", anything),
		may("namespace", anything), may("update", anything), may("goto", anything)}, startParams...)},
	{method: "input.inject", do: (*protocolAPI).inject},
	{method: "state.get", do: (*protocolAPI).stateGet, in: []field{may("namespace", aNamespace), may("keys", texts)}},
	{method: "state.listCheckpoints", do: (*protocolAPI).listCheckpoints, in: []field{may("namespace", aNamespace), may("limit", integer), may("before", text)}},
	{method: "state.fork", do: (*protocolAPI).fork, in: append([]field{may("checkpoint_id", text), may("input", anything)}, startParams...)},
}

// given are what a client has given that is not null. The error says which field has a wrong type.
func given(fields []field, m map[string]any) (body, error) {
	in := maps.Clone(m)
	maps.DeleteFunc(in, func(_ string, v any) bool { return v == nil })
	return in, record(fields...).check(in)
}

// command answers a command of a client. ok is false if it is none.
func (s *protocolAPI) command(c *call, in any, on session) (answer map[string]any, ok bool) {
	m, _ := in.(map[string]any)
	id, numbered := m["id"].(int64)
	method, named := m["method"].(string)
	if !numbered || !named {
		return protocolFailure(m["id"], refused(codeArgument, "Protocol commands must include an integer id and string method.")), false
	}
	result, err := s.result(c, method, m, on)
	if err != nil {
		answer = protocolFailure(id, s.refusedBy(c, err))
	} else {
		answer = map[string]any{"type": "success", "id": id, "result": result}
	}
	if _, unbound := on.bound(c.ctx); err == nil || unbound == nil {
		answer["meta"] = map[string]any{"applied_through_seq": on.through()}
	}
	return answer, true
}

func protocolFailure(id any, err error) map[string]any {
	var p *protocolError
	if !errors.As(err, &p) {
		p = &protocolError{codeUnknown, err.Error()}
	}
	return map[string]any{"type": "error", "id": id, "error": p.code, "message": p.message}
}

// refusedBy is an error of a handler as an error of the protocol.
func (s *protocolAPI) refusedBy(c *call, err error) error {
	var p *protocolError
	if errors.As(err, &p) {
		return p
	}
	var missing *pregel.SubgraphError
	if errors.As(err, &missing) {
		return refused(codeNamespace, "There is no graph at namespace %q.", missing.Namespace)
	}
	f, logged := failureOf(err)
	if logged {
		s.log.Error("a command failed", "path", c.r.URL.Path, "error", err)
	}
	if f.status == http.StatusForbidden {
		return &protocolError{codePermission, f.detail}
	}
	return refused(codeUnknown, "%d: %s", f.status, f.detail)
}

// result carries out a command and returns its result. Fields that the command does not know are listed as ignored, where the
// answer has headers: a WebSocket's has none.
func (s *protocolAPI) result(c *call, method string, sent map[string]any, on session) (any, error) {
	for _, command := range protocolCommands {
		if command.method == method {
			c.ignore(record(may("id", anything), may("method", anything), may("params", record(command.in...))).unknown(sent))
			m, _ := sent["params"].(map[string]any)
			in, err := given(command.in, m)
			if err != nil {
				f, _ := failureOf(err)
				return nil, refused(codeArgument, "%s: %s", method, f.detail)
			}
			return command.do(s, c, in, on)
		}
	}
	return nil, refused(codeCommand, "Unknown protocol command: %s", method)
}

func (s *protocolAPI) unsubscribe(_ *call, params body, on session) (any, error) {
	id := params.text("subscription_id")
	if !on.unsubscribe(id) {
		return nil, refused(codeSubscription, "Unknown subscription: %s", id)
	}
	return map[string]any{}, nil
}

func (s *protocolAPI) tree(c *call, params body, on session) (any, error) {
	t, err := boundTo(c.ctx, params, on)
	if err != nil {
		return nil, err
	}
	return map[string]any{"tree": t.Tree()}, nil
}

// boundTo is the run that a session is bound to, unless the client means another one.
func boundTo(ctx context.Context, params body, on session) (*streamv2.Translator, error) {
	t, err := on.bound(ctx)
	if id := params.text("run_id"); err == nil && id != "" && usual(id) != t.Run() {
		return nil, refused(codeRun, "Run %s is not bound to this thread: its run is %s.", id, t.Run())
	}
	return t, err
}

func (s *protocolAPI) inject(*call, body, session) (any, error) {
	return nil, refused(codeNotSupported, "input.inject is not supported: a run takes input when it begins, and when it asks.")
}

var noBoundRun = refused(codeRun, "No active run is bound to this thread.")

// protocolModes are the stream modes of runs that the protocol starts: they keep what its
// channels need.
var protocolModes = []any{"values", "updates", "messages-tuple", "custom", "tools", "tasks", "checkpoints"}

// submit makes a run. It builds the request that a client of version 1 would send.
func (s *protocolAPI) submit(c *call, params, in body, on session) (runs.Run, error) {
	in["stream_subgraphs"], in["stream_resumable"], in["if_not_exists"] = true, true, "create"
	for _, p := range startParams {
		if v := params[p.name]; v != nil {
			in[p.name] = v
		}
	}
	if v := in["multitaskStrategy"]; v != nil { // clients for JavaScript give both
		in["multitask_strategy"] = v
	}
	if err := runShape.check(map[string]any(in)); err != nil {
		return runs.Run{}, err
	}
	in["stream_mode"] = protocolModes // some of which clients of version 1 may not name
	one, err := c.asked(in)
	if err != nil {
		return runs.Run{}, err
	}
	r, err := s.runs.on(one, c.path("thread_id"), in)
	if err != nil {
		return r, err
	}
	on.bind(r)
	return r, nil
}

// start starts a run with input. As in LangGraph's server, on a thread that waits for an
// answer the input is the answer.
func (s *protocolAPI) start(c *call, params body, on session) (any, error) {
	name := params.text("assistant_id")
	if name == "" {
		return nil, refused(codeArgument, "run.start requires an assistant_id.")
	}
	in := body{"assistant_id": name, "input": params["input"]}
	t, ok, err := s.threads.records.get(c.ctx, c.path("thread_id"))
	if err != nil {
		return nil, err
	}
	if ok && c.grant.admits(t.Metadata) && params["input"] != nil {
		a, err := s.assistants.named(c, name)
		if err != nil {
			return nil, err
		}
		asks, err := s.asks(c.ctx, t)
		if err != nil {
			return nil, err
		}
		if len(asks) > 0 && t.graph() == a.GraphID {
			delete(in, "input")
			in["command"] = map[string]any{"resume": params["input"]}
		}
	}
	r, err := s.submit(c, params, in, on)
	if err != nil {
		return nil, err
	}
	return map[string]any{"run_id": r.ID}, nil
}

// asks are the ids of the questions that a thread waits with.
func (s *protocolAPI) asks(ctx context.Context, t thread) ([]string, error) {
	g, ok := s.graphs.by[t.graph()]
	if !ok {
		return nil, nil
	}
	busy, err := s.threads.isBusy(ctx, t.ID)
	if err != nil || busy {
		return nil, err
	}
	at, err := g.GetState(ctx, pregel.Thread(t.ID))
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, i := range at.Interrupts {
		ids = append(ids, i.ID)
	}
	return ids, nil
}

// respond answers questions. All of them are answered by one run.
func (s *protocolAPI) respond(c *call, params body, on session) (any, error) {
	answers := []any{map[string]any(params)}
	if given, many := params["responses"].([]any); many {
		answers = given
		if len(answers) == 0 {
			return nil, refused(codeArgument, "input.respond requires at least one response.")
		}
	}
	t, ok, err := s.threads.records.get(c.ctx, c.path("thread_id"))
	if err != nil {
		return nil, err
	}
	var asked []string
	if ok && c.grant.admits(t.Metadata) {
		if asked, err = s.asks(c.ctx, t); err != nil {
			return nil, err
		}
	}
	resume := map[string]any{}
	for _, a := range answers {
		m, _ := a.(map[string]any)
		id, _ := m["interrupt_id"].(string)
		if id == "" {
			return nil, refused(codeArgument, "input.respond requires an interrupt_id.")
		}
		if ns := m["namespace"]; ns != nil && aNamespace.check(ns) != nil { // the id says where the question is
			return nil, refused(codeArgument, "input.respond requires namespace to be a list of strings.")
		}
		if !slices.Contains(asked, id) {
			return nil, refused(codeInterrupt, "Unknown or already-consumed interrupt: %s", id)
		}
		resume[id] = m["response"]
	}
	command := map[string]any{"resume": resume}
	for _, k := range []string{"update", "goto"} {
		if v, ok := params[k]; ok {
			command[k] = v
		}
	}
	if _, err := s.submit(c, params, body{"assistant_id": t.Metadata["assistant_id"], "command": command}, on); err != nil {
		return nil, err
	}
	return map[string]any{}, nil
}

// selection is the subscription that a command or a request describes. The error has the code
// invalid_argument.
func selection(method string, params body) (streamv2.Subscription, error) {
	channels := params.texts("channels")
	list, _ := params["channels"].([]any)
	if len(channels) == 0 || len(channels) != len(list) {
		return streamv2.Subscription{}, refused(codeArgument, "%s requires a non-empty channels array.", method)
	}
	for _, name := range channels {
		if !streamv2.IsChannel(name) {
			return streamv2.Subscription{}, refused(codeArgument, "%s received an unsupported channel.", method)
		}
	}
	s := streamv2.Subscription{Channels: channels, Depth: params.integer("depth", -1)}
	spaces, _ := params["namespaces"].([]any)
	for _, ns := range spaces {
		s.Namespaces = append(s.Namespaces, body{"ns": ns}.texts("ns"))
	}
	return s, nil
}

// subscribe subscribes a client.
func (s *protocolAPI) subscribe(c *call, params body, on session) (any, error) {
	sub, err := selection("subscription.subscribe", params)
	if err != nil {
		return nil, err
	}
	return subscribed(c.ctx, uuid.NewString(), sub, 0, on)
}

func subscribed(ctx context.Context, id string, sub streamv2.Subscription, since int64, on session) (any, error) {
	sent, err := on.subscribe(ctx, id, sub, since)
	return map[string]any{"subscription_id": id, "replayed_events": sent}, err
}

// reconnect subscribes a client again that was cut off, behind the last event that it has. As in LangGraph's server, it says
// anew what it wants: a subscription ends with its connection.
func (s *protocolAPI) reconnect(c *call, params body, on session) (any, error) {
	const method = "subscription.reconnect"
	if _, err := on.bound(c.ctx); err != nil {
		return nil, err
	}
	sub, err := selection(method, params)
	if err != nil {
		return nil, err
	}
	if params["last_event_id"] != nil || params["subscriptions"] != nil {
		return nil, refused(codeNotSupported, "%s takes no last_event_id and no subscriptions: name channels, and since.", method)
	}
	since := params.integer("since", -1)
	if since < 0 {
		return nil, refused(codeArgument, "%s requires a non-negative integer since.", method)
	}
	if _, err := boundTo(c.ctx, params, on); err != nil {
		return nil, err
	}
	return subscribed(c.ctx, cmp.Or(params.text("subscription_id"), uuid.NewString()), sub, int64(since), on)
}

// stateIn returns the thread's graph, and the address of the namespace that params name. If the
// thread has no graph yet, the graph is nil.
func (s *protocolAPI) stateIn(c *call, params body) (*pregel.Graph, pregel.Address, error) {
	t, err := s.threads.ofPath(c)
	if err != nil || t.graph() == "" {
		return nil, pregel.Address{}, err
	}
	g, err := s.threads.graphOf(t)
	at := pregel.Thread(t.ID)
	at.Namespace = strings.Join(params.texts("namespace"), "|")
	return g, at, err
}

func (s *protocolAPI) stateGet(c *call, params body, _ session) (any, error) {
	g, at, err := s.stateIn(c, params)
	if err != nil || g == nil {
		return map[string]any{"values": map[string]any{}}, err
	}
	snapshot, err := g.GetState(c.ctx, at)
	if errors.Is(err, pregel.ErrInvalidArgument) {
		err = refused(codeNamespace, "There is no graph at namespace %q.", at.Namespace)
	}
	if err != nil {
		return nil, err
	}
	state, err := pregeljson.State(snapshot)
	if err != nil {
		return nil, err
	}
	shown, err := streamv2.Values(state.Values)
	if err != nil {
		return nil, err
	}
	out := map[string]any{"values": shown}
	if all, ok := shown.(map[string]any); ok && len(params.texts("keys")) > 0 {
		some := map[string]any{}
		for _, k := range params.texts("keys") {
			if v, ok := all[k]; ok {
				some[k] = v
			}
		}
		out["values"] = some
	}
	if state.CheckpointID != nil {
		out["checkpoint"] = map[string]any{"id": *state.CheckpointID, "ns": at.Namespace}
	}
	return out, nil
}

// checkpointsPage is how many checkpoints are listed if the client does not say.
const checkpointsPage = 10

func (s *protocolAPI) listCheckpoints(c *call, params body, _ session) (any, error) {
	g, at, err := s.stateIn(c, params)
	if err != nil {
		return nil, err
	}
	limit := params.integer("limit", checkpointsPage)
	if limit < 1 || limit > 1000 {
		return nil, refused(codeArgument, "limit must be from 1 to 1000.")
	}
	list := []any{}
	if g == nil {
		return map[string]any{"checkpoints": list}, nil
	}
	for snapshot, err := range g.GetStateHistory(c.ctx, at, pregel.HistoryQuery{Before: params.text("before"), Limit: limit}) {
		if err != nil {
			return nil, err
		}
		state, err := pregeljson.State(snapshot)
		if err != nil {
			return nil, err
		}
		list = append(list, map[string]any{"id": state.CheckpointID, "timestamp": state.CreatedAt, "step": state.Metadata["step"], "metadata": state.Metadata})
	}
	return map[string]any{"checkpoints": list}, nil
}

// fork runs the graph from an older checkpoint.
func (s *protocolAPI) fork(c *call, params body, on session) (any, error) {
	t, err := s.threads.ofPath(c)
	if err != nil {
		return nil, err
	}
	at := pregel.Thread(t.ID)
	at.CheckpointID = params.text("checkpoint_id")
	if at.CheckpointID == "" {
		return nil, refused(codeArgument, "state.fork requires a checkpoint_id.")
	}
	if t.graph() == "" {
		return nil, refused(codeCheckpoint, "Unknown checkpoint: %s", at.CheckpointID)
	}
	g, err := s.threads.graphOf(t)
	if err != nil {
		return nil, err
	}
	if from, err := g.GetState(c.ctx, at); err != nil || from.CreatedAt == "" {
		return nil, refused(codeCheckpoint, "Unknown checkpoint: %s", at.CheckpointID)
	}
	r, err := s.submit(c, params, body{"assistant_id": t.Metadata["assistant_id"], "input": params["input"],
		"checkpoint": map[string]any{"checkpoint_id": at.CheckpointID}}, on)
	if err != nil {
		return nil, err
	}
	return map[string]any{"run_id": r.ID, "thread_id": t.ID}, nil
}

// requestSession is the session of a command that comes as a request of its own: nothing is
// kept of it.
type requestSession struct{}

// through is 0, as with LangGraph's server: the client for Python continues its stream behind this number, though the
// stream may be further back; that for JavaScript, told 0, looks in its stream for where the run begins.
func (requestSession) through() int64 { return 0 }
func (requestSession) subscribe(context.Context, string, streamv2.Subscription, int64) (int, error) {
	return 0, nil
}
func (requestSession) unsubscribe(string) bool                             { return false }
func (requestSession) bound(context.Context) (*streamv2.Translator, error) { return nil, noBoundRun }
func (requestSession) bind(runs.Run)                                       {}

// commandThread handles POST /threads/{thread_id}/commands.
func (s *protocolAPI) commandThread(c *call) error {
	in, err := s.body(c)
	if err != nil {
		return err
	}
	if err := s.notAnothers(c); err != nil {
		return err
	}
	answer, ok := s.command(c, in, requestSession{})
	if !ok {
		return writeJSON(c.w, http.StatusBadRequest, answer)
	}
	return c.json(answer)
}

// body is the JSON of a request.
func (s *protocolAPI) body(c *call) (any, error) {
	c.route = &route{resource: c.route.resource, action: c.route.action, query: c.route.query, in: anything}
	err := s.bodies.read(c)
	return c.in, instead(err, http.StatusUnprocessableEntity, fail(http.StatusBadRequest, "Invalid JSON body"))
}

// notAnothers refuses a thread that the user may not see. One that is not there yet is none:
// a client may listen to it before its first run makes it.
func (s *protocolAPI) notAnothers(c *call) error {
	t, ok, err := s.threads.records.get(c.ctx, c.path("thread_id"))
	if err == nil && ok && !c.grant.admits(t.Metadata) {
		err = missingThread(t.ID)
	}
	return err
}
