package client

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"strconv"
)

// Threads hold the states of graphs.
type Threads struct{ c *Client }

// Statuses of threads (Idle, Busy, Interrupted, Failed) and of runs (Pending, Running, Success,
// Failed, TimedOut, Interrupted).
const (
	Idle        = "idle"
	Busy        = "busy"
	Pending     = "pending"
	Running     = "running"
	Success     = "success"
	Interrupted = "interrupted"
	Failed      = "error"
	TimedOut    = "timeout"
)

// Thread is a thread as the server knows it.
type Thread struct {
	ThreadID       string         `json:"thread_id"`
	Status         string         `json:"status"`
	Metadata       map[string]any `json:"metadata"`
	Config         Config         `json:"config"`
	CreatedAt      Time           `json:"created_at"`
	UpdatedAt      Time           `json:"updated_at"`
	StateUpdatedAt Time           `json:"state_updated_at"`
	// Values are the newest values; null if there are none.
	Values json.RawMessage `json:"values"`
	// Interrupts are the questions that wait, by the id of the task that asks.
	Interrupts map[string][]Interrupt `json:"interrupts"`
	// Error is that of the last run, if it failed.
	Error json.RawMessage `json:"error"`
	TTL   json.RawMessage `json:"ttl"`
	// Extracted is what ThreadQuery.Extract asks for.
	Extracted map[string]json.RawMessage `json:"extracted"`
}

// Interrupt is a question that a graph asks.
type Interrupt struct {
	ID             string          `json:"id"`
	Value          json.RawMessage `json:"value"`
	ResponseSchema json.RawMessage `json:"response_schema,omitempty"`
}

// TTL is how long a thread lives after its last change.
type TTL struct {
	Minutes  float64 `json:"ttl"`
	Strategy string  `json:"strategy,omitempty"` // "delete", or "keep_latest" for all but the newest state
}

// ThreadCreate is a thread to make. Nothing is required.
type ThreadCreate struct {
	ThreadID string         `json:"thread_id,omitempty"` // a UUID
	Metadata map[string]any `json:"metadata,omitempty"`
	IfExists string         `json:"if_exists,omitempty"` // as in AssistantCreate
	TTL      *TTL           `json:"ttl,omitempty"`
	// GraphID is the graph that Supersteps are for.
	GraphID string `json:"graph_id,omitempty"`
	// Supersteps give the thread a state, update by update.
	Supersteps []Superstep `json:"supersteps,omitempty"`
}

// Superstep are updates that are applied together.
type Superstep struct {
	Updates []Update `json:"updates"`
}

// Update changes a state as if AsNode had returned Values, or Command.
type Update struct {
	Values  any      `json:"values,omitempty"`
	Command *Command `json:"command,omitempty"`
	AsNode  string   `json:"as_node"`
}

// Create makes a thread.
func (t *Threads) Create(ctx context.Context, in ThreadCreate) (*Thread, error) {
	if in.GraphID != "" { // servers look for it in the metadata
		m := map[string]any{"graph_id": in.GraphID}
		for k, v := range in.Metadata {
			m[k] = v
		}
		in.Metadata = m
	}
	var made struct {
		Thread
		Detail string `json:"detail"`
	}
	if err := t.c.do(ctx, post(in, "threads"), &made); err != nil {
		return nil, err
	}
	if made.ThreadID == "" && made.Detail != "" { // supersteps that could not be applied: the status is a success
		return nil, &Error{Method: http.MethodPost, Path: "/threads", Status: http.StatusCreated, Detail: made.Detail}
	}
	return &made.Thread, nil
}

// Get is the thread of an id.
func (t *Threads) Get(ctx context.Context, id string) (*Thread, error) {
	return ask[*Thread](ctx, t.c, get("threads", id))
}

// ThreadUpdate changes a thread. Metadata is merged.
type ThreadUpdate struct {
	Metadata map[string]any `json:"metadata,omitempty"`
	TTL      *TTL           `json:"ttl,omitempty"`
}

// Update changes the metadata or the life of a thread.
func (t *Threads) Update(ctx context.Context, id string, in ThreadUpdate) (*Thread, error) {
	return ask[*Thread](ctx, t.c, call{method: http.MethodPatch, path: []string{"threads", id}, body: in})
}

// Delete removes a thread with its states and runs.
func (t *Threads) Delete(ctx context.Context, id string) error {
	return t.c.do(ctx, call{method: http.MethodDelete, path: []string{"threads", id}}, nil)
}

// ThreadQuery narrows a search. The zero value finds all, ten at a time.
type ThreadQuery struct {
	IDs       []string          `json:"ids,omitempty"`
	Status    string            `json:"status,omitempty"`
	Metadata  map[string]any    `json:"metadata,omitempty"`
	Values    map[string]any    `json:"values,omitempty"`
	Limit     int               `json:"limit,omitempty"`
	Offset    int               `json:"offset,omitempty"`
	SortBy    string            `json:"sort_by,omitempty"`
	SortOrder string            `json:"sort_order,omitempty"` // "asc" or "desc"
	Select    []string          `json:"select,omitempty"`     // fields; nil is all
	Extract   map[string]string `json:"extract,omitempty"`    // paths into threads, by names of Thread.Extracted
}

// Search is one page of threads.
func (t *Threads) Search(ctx context.Context, q ThreadQuery) ([]Thread, error) {
	return ask[[]Thread](ctx, t.c, read(q, "threads", "search"))
}

// All are the threads of a search, page by page; Limit is the size of a page. What is made or
// removed meanwhile may be missed, or come twice.
func (t *Threads) All(ctx context.Context, q ThreadQuery) iter.Seq2[Thread, error] {
	return pages(q.Limit, q.Offset, func(limit, offset int) ([]Thread, error) {
		q.Limit, q.Offset = limit, offset
		return t.Search(ctx, q)
	})
}

// Count is how many threads a search finds.
func (t *Threads) Count(ctx context.Context, q ThreadQuery) (int, error) {
	q.Limit, q.Offset, q.Select, q.Extract, q.SortBy, q.SortOrder = 0, 0, nil, nil, "", ""
	return ask[int](ctx, t.c, read(q, "threads", "count"))
}

// Copy makes a thread with the states of another.
func (t *Threads) Copy(ctx context.Context, id string) (*Thread, error) {
	return ask[*Thread](ctx, t.c, post(nil, "threads", id, "copy"))
}

// Prune removes threads; with keepLatest all but the newest state of each. It returns how many
// there were.
func (t *Threads) Prune(ctx context.Context, keepLatest bool, ids ...string) (int, error) {
	how := "delete"
	if keepLatest {
		how = "keep_latest"
	}
	var out struct {
		Pruned int `json:"pruned_count"`
	}
	err := t.c.do(ctx, post(map[string]any{"thread_ids": ids, "strategy": how}, "threads", "prune"), &out)
	return out.Pruned, err
}

// Storage is how much a thread takes, in bytes.
type Storage struct {
	ThreadID      string       `json:"thread_id"`
	TotalBytes    int64        `json:"total_bytes"`
	Checkpoints   StoredValues `json:"checkpoints"`
	ChannelValues StoredValues `json:"channel_values"`
	PendingWrites StoredValues `json:"pending_writes"`
}

// StoredValues are a part of a Storage.
type StoredValues struct {
	Count     int   `json:"count"`
	Bytes     int64 `json:"bytes"`
	ByChannel map[string]struct {
		Versions int   `json:"versions"`
		Bytes    int64 `json:"bytes"`
	} `json:"by_channel"`
}

// Storage is how much a thread takes.
func (t *Threads) Storage(ctx context.Context, id string) (*Storage, error) {
	return ask[*Storage](ctx, t.c, get("threads", id, "storage"))
}

// Checkpoint says where a state is.
type Checkpoint struct {
	ThreadID      string            `json:"thread_id,omitempty"`
	CheckpointNS  string            `json:"checkpoint_ns"`
	CheckpointID  string            `json:"checkpoint_id,omitempty"`
	CheckpointMap map[string]string `json:"checkpoint_map,omitempty"`
}

// State is the state of a thread at a checkpoint.
type State struct {
	Values   json.RawMessage `json:"values"`
	Next     []string        `json:"next"` // the nodes that are left to run
	Tasks    []Task          `json:"tasks"`
	Metadata map[string]any  `json:"metadata"`
	// CreatedAt is when the checkpoint was made, in ISO 8601.
	CreatedAt string `json:"created_at"`
	// Checkpoint is where the state is, nil if the thread has none; Parent is the one before.
	Checkpoint *Checkpoint `json:"checkpoint"`
	Parent     *Checkpoint `json:"parent_checkpoint"`
	// Interrupts are the questions that wait.
	Interrupts []Interrupt `json:"interrupts"`
	// Exposed are the values that the newest superstep exposes, by name; see pregel.Expose. It is nil on other servers
	// than stele's.
	Exposed map[string]json.RawMessage `json:"stele_exposed"`
	// Version is the version of the graph that stored the checkpoint, as HistoryQuery.WithoutValues asks for.
	Version string `json:"stele_version"`
}

// Task is a task of a State.
type Task struct {
	ID         string          `json:"id"`
	Name       string          `json:"name"`
	Error      json.RawMessage `json:"error"`
	Interrupts []Interrupt     `json:"interrupts"`
	Result     json.RawMessage `json:"result"`
	// Checkpoint is where the state of the graph inside is. State is that state, if it was
	// asked for.
	Checkpoint *Checkpoint `json:"checkpoint"`
	State      *State      `json:"state"`
}

// At says at which checkpoint a method works. The zero value is the newest of the thread.
type At struct {
	// CheckpointID is a checkpoint of the outermost graph.
	CheckpointID string
	// Checkpoint is any checkpoint, as states name it. CheckpointID counts only without it.
	Checkpoint *Checkpoint
	// Subgraphs asks for the states of graphs inside.
	Subgraphs bool
}

// State is the state of a thread.
func (t *Threads) State(ctx context.Context, id string, at At) (*State, error) {
	switch {
	case at.Checkpoint != nil:
		return ask[*State](ctx, t.c, read(map[string]any{"checkpoint": at.Checkpoint, "subgraphs": at.Subgraphs}, "threads", id, "state", "checkpoint"))
	case at.CheckpointID != "":
		req := get("threads", id, "state", at.CheckpointID)
		req.query = params("subgraphs", strconv.FormatBool(at.Subgraphs))
		return ask[*State](ctx, t.c, req)
	}
	req := get("threads", id, "state")
	req.query = params("subgraphs", strconv.FormatBool(at.Subgraphs))
	return ask[*State](ctx, t.c, req)
}

// StateUpdate changes a state as if AsNode had returned Values; without AsNode, as if the node
// that ran last had.
type StateUpdate struct {
	Values       any         `json:"values"`
	AsNode       string      `json:"as_node,omitempty"`
	Checkpoint   *Checkpoint `json:"checkpoint,omitempty"`
	CheckpointID string      `json:"checkpoint_id,omitempty"`
}

// UpdateState changes the state of a thread, and returns where the new one is. A thread that
// has a run under way is ErrConflict.
func (t *Threads) UpdateState(ctx context.Context, id string, in StateUpdate) (*Checkpoint, error) {
	var out struct {
		Checkpoint *Checkpoint `json:"checkpoint"`
	}
	err := t.c.do(ctx, post(in, "threads", id, "state"), &out)
	return out.Checkpoint, err
}

// HistoryQuery narrows History. The zero value is the whole history.
type HistoryQuery struct {
	Limit    int            // most states; 0 is all
	Before   string         // a checkpoint id: only older states
	Metadata map[string]any // of checkpoints
	// Checkpoint is the graph inside whose history it is; nil is the outermost.
	Checkpoint *Checkpoint
	// WithoutValues asks a server of stele's for states without Values, and with their Version: it reads no values, so a
	// long history comes at once. Results of tasks are cut, as a person reads them in a line.
	WithoutValues bool
}

// historyPage is how many states History asks for at a time.
const historyPage = 50

// History are the states of a thread, newest first. They are asked for page by page, each
// behind the last state of the one before: none is missed, and none comes twice.
func (t *Threads) History(ctx context.Context, id string, q HistoryQuery) iter.Seq2[*State, error] {
	return func(yield func(*State, error) bool) {
		for left, before := q.Limit, q.Before; ; {
			limit := historyPage
			if q.Limit > 0 {
				limit = min(limit, left)
			}
			in := map[string]any{"limit": limit}
			if before != "" {
				// The one is what the API says, the other where LangGraph's server looks.
				at := map[string]any{"checkpoint_id": before}
				in["before"] = map[string]any{"checkpoint_id": before, "configurable": at}
			}
			if q.Metadata != nil {
				in["metadata"] = q.Metadata
			}
			if q.Checkpoint != nil {
				in["checkpoint"] = q.Checkpoint
			}
			if q.WithoutValues {
				in["values"] = false
			}
			some, err := ask[[]*State](ctx, t.c, read(in, "threads", id, "history"))
			if err != nil {
				yield(nil, err)
				return
			}
			for _, s := range some {
				if !yield(s, nil) {
					return
				}
			}
			left -= len(some)
			if len(some) < limit || q.Limit > 0 && left <= 0 {
				return
			}
			last := some[len(some)-1].Checkpoint
			if last == nil || last.CheckpointID == "" || last.CheckpointID == before {
				return
			}
			before = last.CheckpointID
		}
	}
}
