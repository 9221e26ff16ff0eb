package server

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/server/internal/streamv2"
	"github.com/stele-go/stele/store"
)

// runAPI has the operations on runs, and makes them.
type runAPI struct {
	queue       runs.Queue
	saver       saver.Saver
	store       store.Store
	withStore   queueWithStore // nil if queue is not in store
	graphs      *graphSet
	threads     *threadAPI
	assistants  *assistantAPI
	view        *runView
	streams     *streamAPI
	openStreams *streamCount
	events      *streamv2.Threads
	deferred    *deferredActions
	hooks       *http.Client
	attempts    int
	trace       func(ctx context.Context) map[string]string
	locks       *locks
	log         *slog.Logger
}

// Stream modes of clients. messages and messages-tuple show the messages of one mode of the
// graph, as what they are so far and as they come.
const (
	modeMessages = "messages"
	modeTuple    = "messages-tuple"
)

var (
	streamModes = oneOf("values", modeMessages, modeTuple, "tasks", "checkpoints", "updates", "events", "debug", "custom")
	nodeNames   = either(oneOf(pregel.AllNodes), texts)
	aConfig     = record(may("configurable", object), may("metadata", orNull(object)), may("tags", texts), may("recursion_limit", integer))
	aSend       = record(need("node", text), need("input", anything))
	aCommand    = record(may("update", either(object, list(anything), nothing)), may("goto", either(text, aSend, list(either(text, aSend)), nothing)))
	aCheckpoint = record(may("thread_id", text), may("checkpoint_ns", text), may("checkpoint_id", text), may("checkpoint_map", object))
)

// runShape is the JSON of a run to make.
var runShape = record(
	need("assistant_id", text),
	may("checkpoint", aCheckpoint), may("checkpoint_id", orNull(text)),
	may("input", anything), may("command", orNull(aCommand)),
	may("metadata", object), may("config", aConfig), may("context", object),
	may("webhook", text),
	may("interrupt_before", nodeNames), may("interrupt_after", nodeNames),
	may("stream_mode", either(list(streamModes), streamModes)),
	may("stream_subgraphs", flag), may("stream_resumable", flag), may("feedback_keys", texts),
	may("multitask_strategy", oneOf("reject", "rollback", "interrupt", "enqueue")),
	may("if_not_exists", oneOf("create", "reject")),
	may("on_disconnect", oneOf("continue", "cancel")), may("on_completion", oneOf("delete", "keep")),
	may("after_seconds", number),
	may("checkpoint_during", flag), may("durability", oneOf("sync", "async", "exit")),
)

// modesOf are the modes of the graph that stream modes of clients need.
func modesOf(names []string) (modes []pregel.Mode, err error) {
	for _, n := range names {
		m := pregel.Mode(n)
		switch n {
		case modeTuple:
			m = pregel.ModeMessages
		case "events":
			return nil, fail(422, "stream_mode events is not supported: there are no LangChain callbacks in a graph of Go. Use tasks, updates or messages-tuple.")
		}
		if !slices.Contains(modes, m) {
			modes = append(modes, m)
		}
	}
	return modes, nil
}

// claim says in the metadata of a run, or of checkpoints that none makes, whose they are, as their thread says:
// checkpoints are found, and erased, by their metadata.
func (g Grant) claim(metadata map[string]any, t thread) map[string]any {
	for key := range g.Filter {
		if v, ok := t.Metadata[key]; ok {
			metadata[key] = v
		}
	}
	return metadata
}

// request is the run that a client asks for on a thread.
func (s *runAPI) request(c *call, in body, a assistant, t thread, temporary bool) (runs.Request, error) {
	var req runs.Request
	if _, err := s.graphs.named(a.GraphID); err != nil {
		return req, err
	}
	if hook := in.text("webhook"); hook != "" {
		if u, err := url.Parse(hook); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return req, fail(422, "Invalid webhook: %q is no URL of http or https", hook)
		}
	}
	config, context, err := configured(in)
	if err != nil {
		return req, err
	}
	configurable, _ := config["configurable"].(map[string]any)
	context = merged(a.Context, context)
	config = merged(a.Config, config)
	configurable = merged(a.Context, configurable)
	given, _ := config["metadata"].(map[string]any)
	metadata := merged(a.Metadata, t.Metadata, map[string]any{"graph_id": a.GraphID, "assistant_id": a.ID}, given, in.object("metadata"))
	c.grant.claim(metadata, t)
	for _, m := range []map[string]any{configurable, context, metadata} { // nobody says who he is
		maps.DeleteFunc(m, func(k string, _ any) bool { return strings.HasPrefix(k, "langgraph_auth_") })
	}
	configurable["thread_id"], configurable["graph_id"], configurable["assistant_id"] = t.ID, a.GraphID, a.ID
	configurable["langgraph_auth_user_id"], configurable["langgraph_auth_permissions"] = c.user.Identity, append([]string{}, c.user.Permissions...)
	names := in.texts("stream_mode")
	if len(names) == 0 {
		names = []string{"values"}
	}
	at := address(t.ID, in)
	if id, ok := configurable["checkpoint_id"].(string); ok && at.CheckpointID == "" {
		at.CheckpointID = id
	}
	delete(configurable, "checkpoint_id")
	durability := cmp.Or(in.text("durability"), "async")
	if during, ok := in["checkpoint_during"].(bool); ok && in["durability"] == nil && !during {
		durability = "exit"
	}
	req = runs.Request{Spec: runs.Spec{
		ThreadID: t.ID, Graph: a.GraphID, CheckpointID: at.CheckpointID,
		Metadata: metadata, Configurable: configurable, Context: context, Tags: body(config).texts("tags"),
		RecursionLimit: body(config).integer("recursion_limit", 0), MaxConcurrency: max(body(config).integer("max_concurrency", 0), 0), Durability: pregel.Durability(durability),
		InterruptBefore: in.texts("interrupt_before"), InterruptAfter: in.texts("interrupt_after"),
		Attempts: s.attempts, Subgraphs: in.flag("stream_subgraphs"), Tasks: true, Multitask: runs.Strategy(cmp.Or(in.text("multitask_strategy"), "enqueue")),
	}, Input: in["input"]}
	if s.trace != nil {
		req.Trace = s.trace(c.ctx)
	}
	if req.Modes, err = modesOf(names); err != nil {
		return req, err
	}
	if cmd := in.object("command"); cmd != nil {
		req.Input = commandOf(cmd)
	}
	if seconds, ok := asNumber(in["after_seconds"]); ok && seconds > 0 {
		req.After = time.Now().Add(minutes(seconds / 60))
	}
	delete(config, "configurable") // the run has both
	delete(config, "metadata")
	kwargs := map[string]any{"config": config, "context": context, "stream_mode": names, "temporary": temporary, "resumable": in.flag("stream_resumable")}
	for _, name := range kwargsGiven {
		if v := in[name]; v != nil {
			kwargs[name] = v
		}
	}
	req.Labels = map[string]any{labelAssistant: a.ID, labelKwargs: kwargs}
	return req, nil
}

// commandOf is a Command of a request.
func commandOf(m map[string]any) pregel.Command {
	cmd := pregel.Command{Update: m["update"], Resume: m["resume"]}
	target := func(to any) any {
		if x, ok := to.(map[string]any); ok {
			return pregel.Send{Node: body(x).text("node"), Arg: x["input"]}
		}
		return to
	}
	switch x := m["goto"].(type) {
	case nil:
	case []any:
		list := make([]any, len(x))
		for i, to := range x {
			list[i] = target(to)
		}
		cmd.Goto = list
	default:
		cmd.Goto = target(x)
	}
	return cmd
}

// submit makes the run that a client asks for on a thread, and what follows from it when it has
// ended. The caller holds the lock of the thread.
//
// key, if it is not "", makes one run of what is submitted twice.
func (s *runAPI) submit(c *call, in body, t thread, a assistant, temporary bool, key string) (runs.Run, error) {
	req, err := s.request(c, in, a, t, temporary)
	if err != nil {
		return runs.Run{}, err
	}
	req.Key = key
	was := t
	other := t.graph() != a.GraphID || t.Metadata["assistant_id"] != a.ID
	if other {
		t.Metadata = merged(t.Metadata, map[string]any{"graph_id": a.GraphID, "assistant_id": a.ID})
	}
	r, err := s.submitBeside(c, req, in, t, other, temporary)
	if errors.Is(err, runs.ErrBusy) {
		if s.withStore == nil && other && !t.fresh { // the thread was stored with the graph of the run
			if err := s.threads.keep(context.WithoutCancel(c.ctx), was); err != nil {
				return r, err
			}
		}
		return r, fail(409, "Thread is already running a task. Wait for it to finish or choose a different multitask strategy.")
	}
	if err != nil {
		if s.withStore == nil && (r.ID != "" || t.fresh) {
			s.undo(t, r)
		}
		return r, err
	}
	s.events.Begun.Changed(t.ID)
	return r, nil
}

// submitBeside submits a run of a thread, and stores beside it the thread as it is then, and what
// is to be done after the run. In a queue that is not in the store this takes several steps: then
// the thread is stored before as well, if it changes its graph, and nothing shows the run until the
// last step.
func (s *runAPI) submitBeside(c *call, req runs.Request, in body, t thread, other, temporary bool) (r runs.Run, err error) {
	var next []deferredAction
	beside := func(r runs.Run) (ops []store.Op, err error) {
		if hook := in.text("webhook"); hook != "" {
			next = append(next, deferredAction{Kind: deferredWebhook, Thread: t.ID, Run: r.ID, URL: hook, Due: now()})
		}
		if temporary {
			next = append(next, deferredAction{Kind: deferredTemporary, Thread: t.ID, Run: r.ID, Due: now()})
		}
		for _, a := range next {
			op, err := s.deferred.records.op(a.key(), a)
			if err != nil {
				return nil, err
			}
			ops = append(ops, op)
		}
		config, _ := r.Labels[labelKwargs].(map[string]any)["config"].(map[string]any)
		given, _ := in.object("config")["configurable"].(map[string]any)
		config = merged(config, map[string]any{"configurable": merged(given)})
		if s.withStore != nil && t.kept && !other && !temporary && isSame(t.Config, config) {
			return ops, nil // the queue has what is new
		}
		changed := t.withRun(r)
		changed.Config = config
		op, err := s.threads.records.op(t.ID, changed)
		return append(ops, op), err
	}
	if s.withStore != nil {
		r, err = s.withStore.SubmitWith(c.ctx, req, beside, c.untold)
	} else {
		if other {
			if err := s.threads.keep(c.ctx, t); err != nil {
				return r, err
			}
		}
		if r, err = s.queue.Submit(c.ctx, req); err != nil {
			return r, err
		}
		var ops []store.Op
		if ops, err = beside(r); err == nil {
			_, err = s.store.Batch(c.ctx, ops...)
		}
	}
	if err != nil {
		return r, err
	}
	for _, a := range next {
		if a.Run == r.ID { // it is not of a run that was there already
			s.deferred.expect(a)
		}
	}
	return r, nil
}

// isSame reports whether two values have the same JSON.
func isSame(a, b any) bool {
	x, err := encode(a)
	if err != nil {
		return false
	}
	y, err := encode(b)
	return err == nil && bytes.Equal(x, y)
}

// undo takes back a run whose request is refused, if it was submitted, and the thread that was
// made for it, as soon as the store takes writes: on a full disk also that must wait. Nothing is
// stored of it, so a server that is killed before leaves them.
func (s *runAPI) undo(t thread, r runs.Run) {
	a := deferredAction{Kind: deferredUndo, Thread: t.ID, Run: r.ID, Due: now(), fresh: t.fresh}
	s.deferred.pending.Store(a.key(), a)
	s.deferred.awake()
}

// on makes the run that a request asks for on a thread.
func (s *runAPI) on(c *call, id string, in body) (runs.Run, error) {
	a, err := s.assistants.named(c, in.text("assistant_id"))
	if err != nil {
		return runs.Run{}, instead(err, 404, fail(404, "Thread or assistant not found."))
	}
	defer s.locks.lock("thread " + id)()
	t, ok, err := s.threads.record(c.ctx, id, c.grant)
	if err != nil {
		return runs.Run{}, err
	}
	if !ok && in.text("if_not_exists") == "create" {
		if _, taken, err := s.threads.records.get(c.ctx, id); taken || err != nil {
			return runs.Run{}, cmp.Or(err, fail(404, "Thread or assistant not found."))
		}
		g, err := c.access("threads", "create")
		if err != nil {
			return runs.Run{}, err
		}
		if err := s.threads.removeLeft(c.ctx, id); err != nil {
			return runs.Run{}, err
		}
		if claimed, err := s.threads.claimed(c.ctx, id, g); claimed || err != nil {
			return runs.Run{}, cmp.Or(err, fail(404, "Thread or assistant not found."))
		}
		t, ok = newThread(id, g.stamp(nil)), true
	}
	if !ok {
		return runs.Run{}, fail(404, "Thread or assistant not found.")
	}
	return s.submit(c, in, t, a, false, "")
}

// stateless makes a run on a thread of its own, which goes with it unless the client
// keeps it.
func (s *runAPI) stateless(c *call, in body) (runs.Run, error) {
	a, err := s.assistants.named(c, in.text("assistant_id"))
	if err != nil {
		return runs.Run{}, err
	}
	keep := in.text("on_completion") == "keep"
	t := newThread("", c.grant.stamp(nil))
	t.Temporary, t.fresh = !keep, true
	return s.submit(c, in, t, a, !keep, "")
}
