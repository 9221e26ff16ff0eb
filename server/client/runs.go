package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strconv"
)

// Runs execute graphs. Where a method takes the id of a thread, "" makes a run without one:
// its thread is the server's, and goes with it.
type Runs struct{ c *Client }

// Run is a run as the server knows it.
type Run struct {
	RunID             string          `json:"run_id"`
	ThreadID          string          `json:"thread_id"`
	AssistantID       string          `json:"assistant_id"`
	Status            string          `json:"status"`
	Metadata          map[string]any  `json:"metadata"`
	Kwargs            json.RawMessage `json:"kwargs"` // what the run was asked for
	MultitaskStrategy string          `json:"multitask_strategy"`
	CreatedAt         Time            `json:"created_at"`
	UpdatedAt         Time            `json:"updated_at"`
	// WaitingFor is what Runs.Get tells of a run that waits for a worker which is not there; nil if there is one. stele's
	// servers have it.
	WaitingFor *MissingWorker `json:"stele_waiting_for,omitempty"`
}

// MissingWorker is what a worker must have that a run waits for.
type MissingWorker struct {
	Graph   string `json:"graph"`
	Version string `json:"version"` // "" if no worker has the graph
}

// Ended reports whether the run has come to its end, however it went.
func (r *Run) Ended() bool { return r.Status != Pending && r.Status != Running }

// Stream modes. What tools do is in the channel "tools" of protocol v2 alone.
const (
	ModeValues        = "values"
	ModeUpdates       = "updates"
	ModeMessages      = "messages"       // each message as it is so far
	ModeMessagesTuple = "messages-tuple" // each part of a message, in events of mode "messages"
	ModeCustom        = "custom"
	ModeTasks         = "tasks"
	ModeCheckpoints   = "checkpoints"
	ModeDebug         = "debug"
)

// RunRequest is a run to make. Only AssistantID is required.
type RunRequest struct {
	// AssistantID is an assistant, or the name of a graph.
	AssistantID string `json:"assistant_id,omitempty"`
	// Input is anything that encoding/json can write. With nil, and without a Command, the run
	// goes on with what is left. All fields of a struct are sent, zero ones too, and are
	// written to the state: graph.InputOf leaves those out.
	Input   any      `json:"input,omitempty"`
	Command *Command `json:"command,omitempty"`
	Config  *Config  `json:"config,omitempty"`
	Context any      `json:"context,omitempty"`
	// Metadata is that of the run.
	Metadata map[string]any `json:"metadata,omitempty"`
	// Checkpoint is where the run begins; nil is the newest.
	Checkpoint   *Checkpoint `json:"checkpoint,omitempty"`
	CheckpointID string      `json:"checkpoint_id,omitempty"`

	StreamMode      []string `json:"stream_mode,omitempty"` // nil is ModeValues
	StreamSubgraphs bool     `json:"stream_subgraphs,omitempty"`
	// StreamResumable keeps the events, so that a stream that broke off is resumed. LangGraph's
	// own server resumes runs on threads alone.
	StreamResumable bool `json:"stream_resumable,omitempty"`
	// OnDisconnect is "continue", the default, or "cancel": what becomes of the run if the
	// client leaves the stream. With "cancel" a stream that breaks off cannot be resumed.
	OnDisconnect string `json:"on_disconnect,omitempty"`
	// OnCompletion is "delete", the default, or "keep": what becomes of the thread of a run
	// without one.
	OnCompletion string `json:"on_completion,omitempty"`

	// InterruptBefore and InterruptAfter are nodes; "*" alone is all.
	InterruptBefore Nodes `json:"interrupt_before,omitempty"`
	InterruptAfter  Nodes `json:"interrupt_after,omitempty"`

	// MultitaskStrategy is what a run does that comes to a busy thread: "enqueue", the default,
	// waits; "reject" is refused with ErrConflict; "interrupt" cancels the other and keeps its
	// progress; "rollback" cancels it as if it had never been.
	MultitaskStrategy string `json:"multitask_strategy,omitempty"`
	// IfNotExists is "create" or "reject", the default: what becomes of a run on a thread that
	// is not there.
	IfNotExists  string   `json:"if_not_exists,omitempty"`
	Durability   string   `json:"durability,omitempty"`    // "sync", "async" or "exit"
	AfterSeconds float64  `json:"after_seconds,omitempty"` // how long the run waits
	Webhook      string   `json:"webhook,omitempty"`
	FeedbackKeys []string `json:"feedback_keys,omitempty"`
}

// Nodes are names of nodes; "*" alone stands for all.
type Nodes []string

// MarshalJSON writes the list, or "*".
func (n Nodes) MarshalJSON() ([]byte, error) {
	if len(n) == 1 && n[0] == "*" {
		return json.Marshal("*")
	}
	return json.Marshal([]string(n))
}

// Command answers questions, updates the state and steers the graph.
type Command struct {
	// Resume answers the question that waits. Several are answered by a map[string]any from
	// their ids to the answers.
	Resume any `json:"resume,omitempty"`
	Update any `json:"update,omitempty"`
	// Goto is the name of a node, a Send, or a list of these.
	Goto any `json:"goto,omitempty"`
}

// Send is a run of a node with an input of its own.
type Send struct {
	Node  string `json:"node"`
	Input any    `json:"input"`
}

// in is the path of runs on a thread, or without one.
func in(threadID string, rest ...string) []string {
	if threadID == "" {
		return append([]string{"runs"}, rest...)
	}
	return append([]string{"threads", threadID, "runs"}, rest...)
}

// of is the path of a run; without an id there is no such path.
func of(threadID, runID string, rest ...string) []string {
	return append([]string{"threads", threadID, "runs", runID}, rest...)
}

// Create makes a run that the server executes, and does not wait for it.
func (r *Runs) Create(ctx context.Context, threadID string, req RunRequest) (*Run, error) {
	return ask[*Run](ctx, r.c, post(req, in(threadID)...))
}

// Batch makes several runs without threads.
func (r *Runs) Batch(ctx context.Context, reqs []RunRequest) ([]Run, error) {
	return ask[[]Run](ctx, r.c, post(reqs, "runs", "batch"))
}

// Wait makes a run, waits until it has ended, and returns the values of its thread. They have
// the questions that wait under "__interrupt__". If the run failed, the error is a *RunError.
// If the connection breaks, the wait goes on by another; the run is made once.
func (r *Runs) Wait(ctx context.Context, threadID string, req RunRequest) (json.RawMessage, error) {
	resp, err := r.c.open(ctx, post(req, in(threadID, "wait")...))
	if err != nil {
		return nil, err
	}
	data, err := r.c.readAll(resp)
	if err == nil && len(bytes.TrimSpace(data)) > 0 {
		return result(data)
	}
	if err == nil { // a server that closes ends its answers without one
		err = fmt.Errorf("client: the answer of a wait: %w", io.ErrUnexpectedEOF)
	}
	address := r.c.located(resp)
	if _, again := retryable(err); !again || address == "" || ctx.Err() != nil {
		return nil, err
	}
	return r.join(ctx, address)
}

// Join waits until a run has ended, and returns what Wait returns.
func (r *Runs) Join(ctx context.Context, threadID, runID string) (json.RawMessage, error) {
	address, err := r.c.address(get(of(threadID, runID, "join")...))
	if err != nil {
		return nil, err
	}
	return r.join(ctx, address)
}

func (r *Runs) join(ctx context.Context, address string) (json.RawMessage, error) {
	for try := 0; ; try++ {
		resp, err := r.c.openAt(ctx, address, call{method: http.MethodGet, reads: true})
		if err != nil {
			return nil, err
		}
		data, err := r.c.readAll(resp)
		if err == nil && len(bytes.TrimSpace(data)) > 0 {
			return result(data)
		}
		if err == nil {
			err = fmt.Errorf("client: the answer of a join: %w", io.ErrUnexpectedEOF)
		}
		if _, again := retryable(err); !again || try >= r.c.retries || r.c.pause(ctx, backoff(try)) != nil {
			return nil, err
		}
	}
}

// result is the answer of a wait.
func result(data []byte) (json.RawMessage, error) {
	var failed struct {
		Error json.RawMessage `json:"__error__"`
	}
	if json.Unmarshal(data, &failed) == nil && len(failed.Error) > 0 {
		return nil, runErrorOf(failed.Error)
	}
	data = bytes.TrimSpace(data)
	if !json.Valid(data) {
		return nil, errors.New("client: the answer of a wait is no JSON")
	}
	return data, nil
}

// RunQuery narrows a list of runs. The zero value is the newest ten.
type RunQuery struct {
	Status string
	Limit  int
	Offset int
	Select []string // fields; nil is all
}

// List is one page of the runs of a thread, newest first.
func (r *Runs) List(ctx context.Context, threadID string, q RunQuery) ([]Run, error) {
	req := get("threads", threadID, "runs")
	req.query = params("status", q.Status, "limit", number(q.Limit), "offset", number(q.Offset))
	for _, s := range q.Select {
		req.query.Add("select", s)
	}
	return ask[[]Run](ctx, r.c, req)
}

// All are the runs of a thread, newest first, page by page; Limit is the size of a page. What
// is made or removed meanwhile may be missed, or come twice.
func (r *Runs) All(ctx context.Context, threadID string, q RunQuery) iter.Seq2[Run, error] {
	return pages(q.Limit, q.Offset, func(limit, offset int) ([]Run, error) {
		q.Limit, q.Offset = limit, offset
		return r.List(ctx, threadID, q)
	})
}

// Get is a run.
func (r *Runs) Get(ctx context.Context, threadID, runID string) (*Run, error) {
	return ask[*Run](ctx, r.c, get(of(threadID, runID)...))
}

// Delete removes a run. What it did to its thread stays.
func (r *Runs) Delete(ctx context.Context, threadID, runID string) error {
	return r.c.do(ctx, call{method: http.MethodDelete, path: of(threadID, runID)}, nil)
}

// CancelOptions say how a run is cancelled. The zero value keeps its progress, and does not
// wait.
type CancelOptions struct {
	Rollback bool // as if the run had never been
	Wait     bool // until it has ended
}

func (o CancelOptions) action() string {
	if o.Rollback {
		return "rollback"
	}
	return "interrupt"
}

// Cancel ends a run. One that has ended is ErrNotFound, or ErrConflict.
func (r *Runs) Cancel(ctx context.Context, threadID, runID string, o CancelOptions) error {
	req := post(nil, of(threadID, runID, "cancel")...)
	req.query = params("action", o.action(), "wait", strconv.FormatBool(o.Wait))
	return r.c.do(ctx, req, nil)
}

// CancelQuery names runs to cancel: those of ids on a thread, or those of a status.
type CancelQuery struct {
	ThreadID string   `json:"thread_id,omitempty"`
	RunIDs   []string `json:"run_ids,omitempty"`
	Status   string   `json:"status,omitempty"` // Pending, Running or "all"
}

// CancelMany ends several runs. Of o, only Rollback is used.
func (r *Runs) CancelMany(ctx context.Context, q CancelQuery, o CancelOptions) error {
	req := post(q, "runs", "cancel")
	req.query = params("action", o.action())
	return r.c.do(ctx, req, nil)
}

// Stream makes a run and yields its events as they come. An error is yielded last; a run that
// failed is a *RunError. To stop early leaves the run alone, unless RunRequest.OnDisconnect is
// "cancel".
//
// With RunRequest.StreamResumable, a stream that breaks off is resumed behind the last event,
// as often as it takes, unless WithRetries attempts in a row bring none. Each event comes once,
// and none is missing. The run itself is made once.
func (r *Runs) Stream(ctx context.Context, threadID string, req RunRequest) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		resp, err := r.c.open(ctx, streaming(post(req, in(threadID, "stream")...)))
		if err != nil {
			yield(Event{}, err)
			return
		}
		f := &following{c: r.c, after: FromStart, resumable: req.StreamResumable && req.OnDisconnect != "cancel", address: r.c.located(resp)}
		f.run(ctx, resp, yield)
	}
}

// JoinOptions say from where, and what, a stream of a run shows.
type JoinOptions struct {
	// LastEventID is the Event.ID behind which the stream begins, FromStart, or "" for what
	// comes from now on. It needs a run with StreamResumable.
	LastEventID string
	// StreamMode are some of the modes that the run was made with; nil is all.
	StreamMode []string
	// CancelOnDisconnect cancels the run if the client leaves the stream.
	CancelOnDisconnect bool
}

// JoinStream yields the events of a run that is there, as Stream does.
func (r *Runs) JoinStream(ctx context.Context, threadID, runID string, o JoinOptions) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		req := get(of(threadID, runID, "stream")...)
		req.query = params("cancel_on_disconnect", flag(o.CancelOnDisconnect))
		for _, m := range o.StreamMode {
			req.query.Add("stream_mode", m)
		}
		address, err := r.c.address(req)
		if err != nil {
			yield(Event{}, err)
			return
		}
		f := &following{c: r.c, after: o.LastEventID, resumable: o.LastEventID != "", address: address}
		f.run(ctx, nil, yield)
	}
}
