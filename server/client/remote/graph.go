package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/stele-go/stele/message"
	"github.com/stele-go/stele/message/pregeljson"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/server/client"
)

// Graph is a graph of a server, with the configuration of an assistant. It has the methods of
// a *pregel.Graph that a client can have, and is safe for concurrent use.
type Graph struct {
	c         *client.Client
	assistant string
}

// New is the graph of an assistant, by its id or by the name of a graph. Nothing is sent yet. Without a client, what
// calls the server returns an error that matches pregel.ErrInvalidArgument.
func New(c *client.Client, assistant string) *Graph { return &Graph{c, assistant} }

// reach returns an error if there is no client.
func (g *Graph) reach() error {
	if g.c == nil {
		return &pregel.ArgumentError{Field: "client", Reason: "is nil"}
	}
	return nil
}

// Name is the assistant.
func (g *Graph) Name() string { return g.assistant }

// cancelTime bounds how long a caller who leaves waits for the run to be cancelled.
const cancelTime = 10 * time.Second

// Invoke runs the graph until it ends, asks a question or stops at a breakpoint. A nil input
// resumes the thread; a pregel.Command answers, updates and steers; anything else is new input.
// A run that failed is a *client.RunError. If ctx ends, the run is cancelled.
//
// Of RunOptions these count: Metadata, Configurable, Tags, RecursionLimit, Durability, the
// breakpoints, Context, Modes and Subgraphs; of Metadata and Configurable, what JSON has a form
// for. With others that are set the error matches pregel.ErrInvalidArgument.
func (g *Graph) Invoke(ctx context.Context, at pregel.Address, input any, opts ...pregel.RunOptions) (*pregel.Result, error) {
	o := last(opts)
	o.Modes, o.Subgraphs = []pregel.Mode{pregel.ModeValues}, false
	req, err := g.request(at, input, o)
	if err != nil {
		return nil, err
	}
	return g.follow(ctx, at.ThreadID, req, func(client.Event) error { return nil })
}

// follow makes a run, and returns its outcome.
func (g *Graph) follow(ctx context.Context, threadID string, req client.RunRequest, each func(client.Event) error) (*pregel.Result, error) {
	res := &pregel.Result{}
	err := g.events(ctx, threadID, req, func(ev client.Event) error {
		if len(ev.Namespace) == 0 && (ev.Mode == client.ModeValues || ev.Mode == client.ModeUpdates) {
			v, asked, err := values(ev.Data)
			if err != nil {
				return err
			}
			for _, q := range asked { // one task's, and then those of all
				if !slices.ContainsFunc(res.Interrupts, func(known pregel.Interrupt) bool { return known.ID == q.ID }) {
					res.Interrupts = append(res.Interrupts, q)
				}
			}
			if ev.Mode == client.ModeValues {
				res.Value = v
			}
		}
		return each(ev)
	})
	if err != nil {
		return nil, err
	}
	return res, nil
}

// Stream runs the graph and yields its events as they come, of pregel.ModeUpdates unless
// RunOptions.Modes says otherwise. An error is yielded last. To stop early cancels the run. The
// data of modes custom, tasks, checkpoints and debug is plain, as the server sends it.
func (g *Graph) Stream(ctx context.Context, at pregel.Address, input any, opts ...pregel.RunOptions) iter.Seq2[pregel.Event, error] {
	return func(yield func(pregel.Event, error) bool) {
		o := last(opts)
		if len(o.Modes) == 0 {
			o.Modes = []pregel.Mode{pregel.ModeUpdates}
		}
		req, err := g.request(at, input, o)
		if err == nil {
			err = g.events(ctx, at.ThreadID, req, func(ev client.Event) error {
				if !slices.Contains(o.Modes, pregel.Mode(ev.Mode)) {
					return nil
				}
				shown, err := eventsOf(ev)
				if err != nil {
					return err
				}
				for _, e := range shown {
					if !yield(e, nil) {
						return errStopped
					}
				}
				return nil
			})
		}
		if err != nil && err != errStopped {
			yield(pregel.Event{}, err)
		}
	}
}

// errStopped ends events early.
var errStopped = errors.New("the caller stopped")

// events makes a run and calls each with its events. If ctx ends, or each fails, the run is
// cancelled. A command to the graph around is a *pregel.ParentCommandError.
func (g *Graph) events(ctx context.Context, threadID string, req client.RunRequest, each func(client.Event) error) error {
	var runID string
	for ev, err := range g.c.Runs.Stream(ctx, threadID, req) {
		if ev.RunID != "" {
			runID = ev.RunID
		}
		if err == nil && ev.Mode == "command" {
			err = commandOf(ev.Data)
		} else if err == nil {
			err = each(ev)
		}
		if err == nil {
			continue
		}
		if threadID != "" && runID != "" && !errors.Is(err, client.ErrRunFailed) {
			left, done := context.WithTimeout(context.WithoutCancel(ctx), cancelTime)
			defer done()
			_ = g.c.Runs.Cancel(left, threadID, runID, client.CancelOptions{}) // it may have ended
		}
		return err
	}
	return nil
}

// commandOf is a command that a graph gives to the one around it.
func commandOf(data json.RawMessage) error {
	var cmd struct {
		Graph  string
		Update any
		Resume any
		Goto   any
	}
	if err := decode(data, &cmd); err != nil {
		return err
	}
	out := pregel.Command{Graph: cmd.Graph, Update: cmd.Update, Resume: cmd.Resume}
	list, many := cmd.Goto.([]any)
	if !many && cmd.Goto != nil {
		list = []any{cmd.Goto}
	}
	for _, to := range list { // Python's classes have a field of another name
		if m, ok := to.(map[string]any); ok && m["input"] == nil {
			m["input"] = m["arg"]
		}
	}
	out.Goto = sendsOf(list)
	return &pregel.ParentCommandError{Command: out}
}

func last[T any](list []T) (x T) {
	if len(list) > 0 {
		x = list[len(list)-1]
	}
	return x
}

// taken are the fields of pregel.RunOptions that a run of a server has, or that only say what the caller sees.
var taken = []string{"Metadata", "Configurable", "Tags", "RecursionLimit", "Durability", "InterruptBefore", "InterruptAfter", "Modes", "Subgraphs",
	"Context"}

// request makes the request for a run with options. It always includes updates, as questions are among
// them.
func (g *Graph) request(at pregel.Address, input any, o pregel.RunOptions) (client.RunRequest, error) {
	if err := g.reach(); err != nil {
		return client.RunRequest{}, err
	}
	for v, i := reflect.ValueOf(o), 0; i < v.NumField(); i++ {
		if name := v.Type().Field(i).Name; !v.Field(i).IsZero() && !slices.Contains(taken, name) {
			return client.RunRequest{}, &pregel.ArgumentError{Field: name, Reason: "a remote graph cannot take it"}
		}
	}
	req := client.RunRequest{AssistantID: g.assistant, StreamSubgraphs: o.Subgraphs, Durability: string(o.Durability),
		InterruptBefore: o.InterruptBefore, InterruptAfter: o.InterruptAfter, Metadata: plainOnly(o.Metadata),
		Config: &client.Config{Tags: o.Tags, RecursionLimit: o.RecursionLimit, Configurable: sendable(o.Configurable)}}
	if at.ThreadID == "" {
		req.OnDisconnect = "cancel"
	} else {
		req.StreamResumable, req.IfNotExists = true, "create"
	}
	if at.CheckpointID != "" || at.Namespace != "" {
		req.Checkpoint = checkpointOf(at)
	}
	for _, m := range o.Modes {
		switch m {
		case pregel.ModeTools:
			return client.RunRequest{}, &pregel.ArgumentError{Field: "Modes", Reason: "a remote graph has no mode tools"}
		case pregel.ModeMessages:
			m = client.ModeMessagesTuple
		}
		req.StreamMode = append(req.StreamMode, string(m))
	}
	if !slices.Contains(req.StreamMode, client.ModeUpdates) {
		req.StreamMode = append(req.StreamMode, client.ModeUpdates)
	}
	var err error
	if o.Context != nil {
		if req.Context, err = sent(o.Context); err != nil {
			return req, err
		}
	}
	cmd, ok := input.(pregel.Command)
	if p, is := input.(*pregel.Command); is && p != nil {
		cmd, ok = *p, true
	}
	if !ok {
		req.Input, err = sent(graph.InputOf(input))
		return req, err
	}
	if cmd.Graph != "" {
		return req, &pregel.ArgumentError{Field: "Command.Graph", Reason: "a remote graph has no graph around it"}
	}
	req.Command = &client.Command{}
	if req.Command.Resume, err = sent(cmd.Resume); err != nil {
		return req, err
	}
	if req.Command.Update, err = sent(graph.InputOf(cmd.Update)); err != nil {
		return req, err
	}
	req.Command.Goto, err = sent(cmd.Goto)
	return req, err
}

// sent is v as JSON; nil stays nil.
func sent(v any) (any, error) {
	if v == nil {
		return nil, nil
	}
	text, err := pregeljson.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("remote: %w", err)
	}
	return json.RawMessage(text), nil
}

// own are the keys of a configuration that say where the caller is. They mean nothing to the server.
var own = []string{"thread_id", "checkpoint_id", "checkpoint_ns", "checkpoint_map"}

// sendable is a configuration without what is the caller's own, such as who its user is: another server
// authenticates its users itself, and claims are not for it.
func sendable(configurable map[string]any) map[string]any {
	out := plainOnly(configurable)
	maps.DeleteFunc(out, func(k string, _ any) bool {
		return slices.Contains(own, k) || strings.HasPrefix(k, "__pregel_") || strings.HasPrefix(k, "langgraph_auth_")
	})
	return out
}

// plainOnly is a map without values that JSON has no form for: functions, connections, and the
// like.
func plainOnly(m map[string]any) map[string]any {
	out := map[string]any{}
	for k, v := range m {
		if p, ok := plainValue(v, 0); ok {
			out[k] = p
		}
	}
	return out
}

// mostNesting bounds how deep a configuration nests.
const mostNesting = 32

func plainValue(v any, depth int) (any, bool) {
	switch x := v.(type) {
	case string, bool, int, int8, int16, int32, int64, uint, uint8, uint16, uint32, uint64, float32, float64, json.Number:
		_, err := json.Marshal(x)
		return x, err == nil
	case map[string]any:
		if depth > mostNesting {
			return nil, false
		}
		out := map[string]any{}
		for k, e := range x {
			if p, ok := plainValue(e, depth+1); ok {
				out[k] = p
			}
		}
		return out, true
	case []string:
		return x, true
	case []any:
		if depth > mostNesting {
			return nil, false
		}
		out := []any{}
		for _, e := range x {
			if p, ok := plainValue(e, depth+1); ok {
				out = append(out, p)
			}
		}
		return out, true
	}
	return nil, false
}

// eventsOf turns an event of the client into events of a graph. An event of updates may be about
// several nodes.
func eventsOf(ev client.Event) ([]pregel.Event, error) {
	out := pregel.Event{NS: ev.Namespace, Mode: pregel.Mode(ev.Mode)}
	var err error
	switch out.Mode {
	case pregel.ModeMessages:
		out.Data, err = messageOf(ev.Data)
	case pregel.ModeValues:
		out.Data, out.Interrupts, err = values(ev.Data)
	case pregel.ModeUpdates:
		v, asked, err := values(ev.Data)
		if err != nil {
			return nil, err
		}
		m, ok := v.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("remote: an event of updates is %T", v)
		}
		meta, _ := m["__metadata__"].(map[string]any)
		delete(m, "__metadata__")
		cached, _ := meta["cached"].(bool)
		var list []pregel.Event
		for _, node := range slices.Sorted(maps.Keys(m)) {
			list = append(list, pregel.Event{NS: out.NS, Mode: out.Mode, Data: pregel.Update{Node: node, Value: m[node], Cached: cached}})
		}
		if asked != nil {
			list = append(list, pregel.Event{NS: out.NS, Mode: out.Mode, Data: pregel.Update{Node: pregel.KeyInterrupt}, Interrupts: asked})
		}
		return list, nil
	default:
		err = decode(ev.Data, &out.Data)
	}
	return []pregel.Event{out}, err
}

// messageOf reads a message, or a part of one, and its metadata.
func messageOf(data json.RawMessage) (m pregel.MessageEvent, err error) {
	var pair []json.RawMessage
	if err := json.Unmarshal(data, &pair); err != nil || len(pair) != 2 {
		return m, fmt.Errorf("remote: an event of messages is no pair: %w", err)
	}
	var head struct{ Type string }
	if err := json.Unmarshal(pair[0], &head); err != nil {
		return m, fmt.Errorf("remote: %w", err)
	}
	if strings.HasSuffix(head.Type, "MessageChunk") {
		var c message.Chunk
		err = json.Unmarshal(pair[0], &c)
		m.Message = c
	} else {
		var whole message.Message
		err = json.Unmarshal(pair[0], &whole)
		m.Message = whole
	}
	if err != nil {
		return m, fmt.Errorf("remote: %w", err)
	}
	return m, decode(pair[1], &m.Metadata)
}

// values returns the values of an event, and the questions among them.
func values(data json.RawMessage) (v any, asked []pregel.Interrupt, err error) {
	if err := decode(data, &v); err != nil {
		return nil, nil, err
	}
	m, ok := v.(map[string]any)
	if !ok {
		return v, nil, nil
	}
	list, ok := m[pregel.KeyInterrupt].([]any)
	if !ok {
		return v, nil, nil
	}
	delete(m, pregel.KeyInterrupt)
	asked = []pregel.Interrupt{}
	for _, e := range list {
		in, _ := e.(map[string]any)
		id, _ := in["id"].(string)
		asked = append(asked, pregel.Interrupt{ID: id, Value: in["value"], ResponseSchema: in["response_schema"]})
	}
	return m, asked, nil
}
