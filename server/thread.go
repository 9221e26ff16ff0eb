package server

import (
	"time"

	"github.com/google/uuid"

	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/server/internal/streamv2"
	"github.com/stele-go/stele/store"
)

// thread is the server's record of a thread. Its checkpoints are in the saver, and its runs in the
// queue. Its status is computed from these whenever it is read, so that a crash cannot leave a wrong
// one.
type thread struct {
	ID       string         `json:"id"`
	Created  time.Time      `json:"created"`
	Updated  time.Time      `json:"updated"`
	Metadata map[string]any `json:"metadata"`
	// Config is that of the last run.
	Config map[string]any `json:"config"`
	// Run is the last run with which the record was written. The queue may have newer ones; see lastRun.
	Run string `json:"run,omitempty"`
	TTL *ttl   `json:"ttl,omitempty"`
	// Temporary: the thread goes with its only run, and is in no search.
	Temporary bool `json:"temporary,omitempty"`
	// Stored: the server has no record of it; a program beside it made it.
	Stored bool `json:"-"`
	// kept is the item of the record as it is stored; nil if this is not one.
	kept *store.Item
	// fresh: the current request makes it for its run, and nobody else knows its id.
	fresh bool
}

// isFlat reports whether the metadata of a thread has only values that a node cannot change in place,
// so that runs may share them.
func (t thread) isFlat() bool {
	for _, v := range t.Metadata {
		switch v.(type) {
		case map[string]any, []any:
			return false
		}
	}
	return true
}

// graph is the name of the graph that the thread is of; "" if no run was made.
func (t thread) graph() string {
	name, _ := t.Metadata["graph_id"].(string)
	return name
}

// withRun is a thread after a run was submitted on it.
func (t thread) withRun(r runs.Run) thread {
	t.Run = r.ID
	if r.Created.After(t.Updated) {
		t.Updated = r.Created
	}
	return t
}

// newThread is a thread as it begins.
func newThread(id string, metadata map[string]any) thread {
	if id == "" {
		id = uuid.Must(uuid.NewV7()).String()
	}
	at := now()
	return thread{ID: id, Created: at, Updated: at, Metadata: merged(metadata), Config: map[string]any{}}
}

// ttl is how long a thread lives after its last change.
type ttl struct {
	Minutes  float64 `json:"minutes"`
	Strategy string  `json:"strategy"` // "delete" or "keep_latest"
}

func (t *ttl) duration() time.Duration { return minutes(t.Minutes) }

// ttlOf reads the time to live in a request: minutes, or an object. It is nil if there is none, or 0, which takes one
// away.
func ttlOf(v any) (*ttl, error) {
	t := &ttl{Strategy: "delete"}
	switch x := v.(type) {
	case map[string]any:
		v = x["ttl"]
		if s, ok := x["strategy"].(string); ok {
			t.Strategy = s
		}
	}
	t.Minutes, _ = asNumber(v)
	switch {
	case t.Minutes < 0:
		return nil, fail(422, "Invalid ttl: %v; it is minutes, or 0 for ever", t.Minutes)
	case t.Minutes == 0:
		return nil, nil
	}
	return t, nil
}

// longest bounds the times that clients give, so that sums with the present do not overflow.
const longest = 100 * 365 * 24 * time.Hour

// minutes is a time in minutes, at most longest.
func minutes(n float64) time.Duration {
	return time.Duration(min(n*float64(time.Minute), float64(longest)))
}

// unfinishedThread is a thread that is being made with a state. Its record comes last: until then no client was told
// of it, and a server that is killed, or whose store fails, leaves it unfinished.
type unfinishedThread struct {
	Thread string    `json:"thread"`
	Since  time.Time `json:"since"`
}

// removedRuns are the runs of a thread that were removed, by their ids.
type removedRuns struct {
	Runs map[string]streamv2.Removed `json:"runs"`
}
