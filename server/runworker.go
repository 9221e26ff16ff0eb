package server

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/stele-go/stele/base/metrics"
	"github.com/stele-go/stele/runs"
)

// workerless finds out whether a run waits for a worker that is not there: of its version, or with its graph. Nobody
// begins the run until there is one, and a client that waits would wait without a word.
type workerless struct {
	queue runs.Queue
	own   func(graph string) bool // this server executes runs of the graph
	now   func() time.Time

	mu     sync.Mutex
	looked time.Time // when found was read: that looks at all runs which have not ended
	found  []metrics.QueueVersion
}

// lookMost is how long what was read of workers counts.
const lookMost = time.Second

// of returns what the worker must have that a run waits for; nil if there is one, if the run waits for something else, or
// if the queue does not say.
func (w *workerless) of(ctx context.Context, r runs.Run) map[string]any {
	if r.Status != runs.Pending || r.Asleep() || !r.Pinned && w.own(r.Graph) {
		return nil
	}
	found, err := w.versions(ctx)
	if err != nil {
		return nil // it is a hint, and whoever asks wants the run
	}
	for _, v := range found {
		if v.Graph == r.Graph && v.Workers > 0 && (!r.Pinned || v.Version == r.Version) {
			return nil
		}
	}
	if !r.Pinned {
		return map[string]any{"graph": r.Graph}
	}
	return map[string]any{"graph": r.Graph, "version": r.Version}
}

// versions returns what the queue says of its workers, or said just now.
func (w *workerless) versions(ctx context.Context) ([]metrics.QueueVersion, error) {
	w.mu.Lock()
	now, looked, found := w.now(), w.looked, w.found
	w.mu.Unlock()
	if now.Sub(looked) <= lookMost && !now.Before(looked) {
		return found, nil
	}
	found, err := w.queue.Versions(ctx)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.looked, w.found = now, found
	return found, nil
}

// tell sets the header of an answer that waits for the run.
func (w *workerless) tell(ctx context.Context, h http.Header, r runs.Run) {
	if w.of(ctx, r) != nil {
		text := "graph " + strconv.QuoteToASCII(r.Graph)
		if r.Pinned {
			text += ", version " + strconv.QuoteToASCII(r.Version)
		}
		h.Set(waitingHeader, text)
	}
}

// waitingHeader says what the worker must have that a run waits for, as stele_waiting_for of a run does.
const waitingHeader = "Stele-Waiting-For"
