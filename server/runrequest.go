package server

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/runs"
)

// Stream modes of clients. messages and messages-tuple show the messages of one mode of the graph: the
// one as whole messages so far, the other as the parts come.
const (
	modeMessages = "messages"
	modeTuple    = "messages-tuple"
)

var (
	streamModes = oneOf("values", modeMessages, modeTuple, "tasks", "checkpoints", "updates", "events", "debug", "custom")
	multitask   = oneOf("reject", "rollback", "interrupt", "enqueue")
	nodeNames   = either(oneOf(pregel.AllNodes), texts)
	aConfig     = record(may("configurable", object), may("metadata", orNull(object)), may("tags", texts), may("recursion_limit", upTo(1, math.MaxInt)),
		may("max_concurrency", orNull(upTo(1, math.MaxInt))))
	aSend    = record(need("node", text), need("input", anything))
	aCommand = record(may("update", either(object, list(anything), nothing)), may("resume", anything),
		may("goto", either(text, aSend, list(either(text, aSend)), nothing)))
	aCheckpoint = record(may("thread_id", text), may("checkpoint_ns", text), may("checkpoint_id", text), may("checkpoint_map", object))
)

// answeredBy is where the metadata of a run that answers questions, and so that of its checkpoints, names the user
// who answered. The run's own user is not enough: runs that answer nothing have one, too.
const answeredBy = "stele_answered_by"

// runFields are the fields of a run to make, however it begins.
var runFields = []field{
	need("assistant_id", text),
	may("checkpoint", aCheckpoint), may("checkpoint_id", orNull(text)),
	may("input", anything), may("command", orNull(aCommand)),
	may("metadata", object), may("config", aConfig), may("context", object),
	may("webhook", text),
	may("interrupt_before", nodeNames), may("interrupt_after", nodeNames),
	may("stream_mode", either(list(streamModes), streamModes)),
	may("stream_subgraphs", flag), may("stream_resumable", flag), may("feedback_keys", texts),
	may("multitask_strategy", multitask),
	may("after_seconds", number),
	may("checkpoint_during", flag), may("durability", oneOf("sync", "async", "exit")),
}

// runShape is the JSON of a run that a client makes.
var runShape = record(append([]field{may("if_not_exists", oneOf("create", "reject")),
	may("on_disconnect", oneOf("continue", "cancel")), may("on_completion", oneOf("delete", "keep")), may("langsmith_tracer", anything)},
	runFields...)...).with(runnable)

// runnable refuses fields of a run that do not fit together, and what runs here do not have.
func runnable(in body) error {
	if in["langsmith_tracer"] != nil {
		return fail(422, "langsmith_tracer is not supported: runs are not traced by LangSmith. /info says so in its flags.")
	}
	return oneContext(in)
}

// request makes the runs.Request for a client's request on a thread.
func (s *runAPI) request(c *call, in body, a assistant, t thread, temporary bool) (runs.Request, error) {
	var req runs.Request
	g, err := s.graphs.named(a.GraphID)
	if err != nil {
		return req, err
	}
	for _, field := range []string{"interrupt_before", "interrupt_after"} {
		for _, name := range in.texts(field) {
			if name != pregel.AllNodes && !slices.Contains(g.Nodes(), name) {
				return req, fail(422, "Invalid %s: the graph has no node %q", field, name)
			}
		}
	}
	if hook := in.text("webhook"); hook != "" {
		if u, err := url.Parse(hook); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return req, fail(422, "Invalid webhook: %q is no URL of http or https", hook)
		}
	}
	config, context := configured(in)
	configurable, _ := config["configurable"].(map[string]any)
	context = merged(a.Context, context)
	config = merged(a.Config, config)
	configurable = merged(a.Context, configurable)
	given, _ := config["metadata"].(map[string]any)
	metadata := merged(a.Metadata, t.Metadata, map[string]any{"graph_id": a.GraphID, "assistant_id": a.ID}, given, in.object("metadata"))
	c.grant.withOwner(metadata, t)
	for _, m := range []map[string]any{configurable, context, metadata} { // nobody says who he is
		maps.DeleteFunc(m, func(k string, _ any) bool { return strings.HasPrefix(k, authPrefix) || k == answeredBy })
	}
	if in.object("command")["resume"] != nil && c.user.Identity != "" {
		metadata[answeredBy] = c.user.Identity
	}
	configurable["thread_id"], configurable["graph_id"], configurable["assistant_id"] = t.ID, a.GraphID, a.ID
	if _, err := json.Marshal(c.user.Claims); err != nil { // it is the program that is wrong, not the request
		return req, fmt.Errorf("auth: the Claims of a User are not JSON, and cannot be stored with a run: %w", err)
	}
	maps.Copy(configurable, c.user.Configurable())
	names := in.texts("stream_mode")
	if len(names) == 0 {
		names = []string{"values"}
	}
	from := checkpointOf(in)
	delete(configurable, "checkpoint_id") // it is the run's, not the graph's
	durability := cmp.Or(in.text("durability"), "async")
	if during, ok := in["checkpoint_during"].(bool); ok && in["durability"] == nil && !during {
		durability = "exit"
	}
	req = runs.Request{Spec: runs.Spec{
		ThreadID: t.ID, Graph: a.GraphID, CheckpointID: from,
		Metadata: metadata, Configurable: configurable, Context: context, Tags: body(config).texts("tags"),
		RecursionLimit: body(config).integer("recursion_limit", 0), MaxConcurrency: body(config).integer("max_concurrency", 0),
		Durability:      pregel.Durability(durability),
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
		if in["input"] != nil {
			c.ignore([]string{`"input"`}) // the command is the input
		}
	}
	if in["feedback_keys"] != nil {
		c.ignore([]string{`"feedback_keys"`}) // they are LangSmith's
	}
	if !t.fresh && in["on_completion"] != nil {
		c.ignore([]string{`"on_completion"`}) // the thread is not the run's
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

// modesOf are the modes of the graph that stream modes of clients need. Mode tools is of protocol v2 alone, as in LangGraph's
// server.
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

// checkpointOf is the checkpoint that a run begins at; "" is the newest. A context may have a field of that name, the
// assistant's as well as the request's, which is the graph's.
func checkpointOf(in body) string {
	config := body(in.object("config"))
	return cmp.Or(address("", in).CheckpointID, body(config.object("configurable")).text("checkpoint_id"))
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
