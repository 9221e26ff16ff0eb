package client

import (
	"context"
	"encoding/json"
	"net/http"
	"time"
)

// What servers of stele have beyond LangGraph's API. LangGraph's own server answers ErrNotFound.

// Signal is a signal to a thread that nobody has taken yet; see pregel.Signal.
type Signal struct {
	ID    string          `json:"id"`
	Name  string          `json:"name"`
	Keyed bool            `json:"keyed"`   // it was sent with a key
	Sent  Time            `json:"sent_at"` // by the clock of the server's store
	Value json.RawMessage `json:"value"`
	Error string          `json:"error"` // why the server cannot decode the value; "" if it can
}

// RefusedSignal is a signal that was set aside, because it was not of the type that a node received.
type RefusedSignal struct {
	ID    string          `json:"id"`
	Name  string          `json:"name"`
	Value json.RawMessage `json:"value"`
	Error string          `json:"error"` // why it could not be read
}

// SignalOptions are options of a signal. The zero value sends it.
type SignalOptions struct {
	// Key makes sending idempotent: of several signals to a thread with one key, whatever their names, one is
	// received. With a Key the request is sent again where its answer is lost.
	Key string
	// Instead is the id of a RefusedSignal that this one replaces.
	Instead string
}

// Signal sends a signal to a thread: when it returns nil, the signal is stored, and a run that waits for it is due. The
// value is anything that encoding/json can write. A thread that was never run is ErrConflict: no graph receives there.
func (t *Threads) Signal(ctx context.Context, id, name string, value any, o SignalOptions) error {
	body := map[string]any{"value": value}
	if o.Key != "" {
		body["key"] = o.Key
	}
	if o.Instead != "" {
		body["instead"] = o.Instead
	}
	req := post(body, "stele", "threads", id, "signals", name)
	req.reads = o.Key != ""
	return t.c.do(ctx, req, nil)
}

// Signals are the signals to a thread that nobody has taken yet, by name, and those of a name in the order in which they
// are received. more says that there are others: the server lists a thousand.
func (t *Threads) Signals(ctx context.Context, id string) (list []Signal, more bool, err error) {
	var out struct {
		Signals []Signal `json:"signals"`
		More    bool     `json:"more"`
	}
	err = t.c.do(ctx, get("stele", "threads", id, "signals"), &out)
	return out.Signals, out.More, err
}

// RefusedSignals are the signals to a thread that were set aside, in their order. To send one again, pass its id as
// SignalOptions.Instead.
func (t *Threads) RefusedSignals(ctx context.Context, id string) ([]RefusedSignal, error) {
	var out struct {
		Refused []RefusedSignal `json:"refused"`
	}
	err := t.c.do(ctx, get("stele", "threads", id, "signals", "refused"), &out)
	return out.Refused, err
}

// DeleteRefusedSignal removes a signal that was set aside. A missing one is no error.
func (t *Threads) DeleteRefusedSignal(ctx context.Context, id, signal string) error {
	return t.c.do(ctx, call{method: http.MethodDelete, path: []string{"stele", "threads", id, "signals", "refused", signal}}, nil)
}

// Steps are what the bodies of a superstep did.
type Steps struct {
	Steps []Step `json:"steps"`
	// LeftOut is how many more steps there are: the server tells at most 1,000.
	LeftOut int `json:"left_out"`
	// Parent is the thread that awaits this one, its child; "" if there is none, or it is not the user's.
	Parent string `json:"parent_thread_id"`
}

// Step is a call of a function, a child, a sleep, a wait for a signal, or an exposed value; see pregel.Step. Long values
// are cut, as a person reads them in a line.
type Step struct {
	Kind      string          `json:"kind"`  // "call", "child", "sleep", "signal" or "exposed"
	Node      string          `json:"node"`  // whose body it is in; "" is not known
	Depth     int             `json:"depth"` // 1 in the body of a function that the node's calls, and so on
	Name      string          `json:"name"`
	State     string          `json:"state"` // "done", "failed", "waiting", "begun" or "timed out"
	Result    json.RawMessage `json:"result"`
	Error     string          `json:"error"`
	Questions []Interrupt     `json:"questions"`
	Until     Time            `json:"until"`     // when a wait ends; zero: it has no end
	ThreadID  string          `json:"thread_id"` // of a child
	Began     Time            `json:"began"`
	Attempts  int             `json:"attempts"` // calls until it returned; 0 is not known
	Took      time.Duration   `json:"took_ns"`
}

// Steps are the steps of a thread: of the superstep that begins at a checkpoint, or with "" of the newest.
func (t *Threads) Steps(ctx context.Context, id, checkpointID string) (*Steps, error) {
	req := get("stele", "threads", id, "steps")
	req.query = params("checkpoint_id", checkpointID)
	return ask[*Steps](ctx, t.c, req)
}

// GraphVersion is how many runs a version of a graph still has, and how many workers have it.
type GraphVersion struct {
	Graph   string `json:"graph"`
	Version string `json:"version"` // "" is that of runs that nobody has begun
	// Runs have not ended; Pinned are those among them that wait for a worker of the version.
	Runs   int64 `json:"runs"`
	Pinned int64 `json:"pinned"`
	// Workers are those alive that have the version.
	Workers int64 `json:"workers"`
}

// Versions are the versions of graphs that have runs or workers. It is for operators: see server.Auth.
func (c *Client) Versions(ctx context.Context) ([]GraphVersion, error) {
	var out struct {
		Versions []GraphVersion `json:"versions"`
	}
	err := c.do(ctx, get("stele", "versions"), &out)
	return out.Versions, err
}
