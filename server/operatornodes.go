package server

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/stele-go/stele/runs"
)

// nodeDay is what a node did in the runs of the last day.
type nodeDay struct {
	Graph   string `json:"graph"`
	Name    string `json:"name"`  // as nodePath makes it
	Tasks   int    `json:"tasks"` // that ended
	Failed  int    `json:"failed"`
	Waiting int    `json:"waiting"`
	Retries int    `json:"retries"` // calls after the first one of a task
	Took    int64  `json:"took_ns"` // all of them
	Longest int64  `json:"longest_ns"`
	// Run and Thread are those of the last failure, or else of the longest task.
	Run    string `json:"run_id"`
	Thread string `json:"thread_id"`
}

// listedRuns is how many of the newest runs are looked at for those that ran in the last day.
const listedRuns = 5 * mostRuns

// nodesOfDay answers with the nodes that ran in the last day, those that took longest in all first. It reads the
// events of the newest runs that a worker has begun and that had not ended before, as many as one answer may read:
// complete is false if there may be more, or if some did not note their tasks or cannot be read. Those that sleep
// come last: most of them did nothing.
func (s *operatorAPI) nodesOfDay(c *call) error {
	since := time.Now().Add(-24 * time.Hour)
	type key struct{ graph, name string }
	found, nodes := map[key]*nodeDay{}, []*nodeDay{}
	left, complete := eventBudget{tasksEvents, tasksBytes}, true
	var newest, asleep []runs.Run // of those that note their tasks
	listed := 0
	for r, err := range s.queue.List(c.ctx, runs.Query{Newest: true, Limit: listedRuns}) {
		listed++
		if errors.Is(err, runs.ErrUnreadable) {
			continue // the list of runs tells of it
		}
		if err != nil {
			return err
		}
		switch {
		case r.Epoch == 0 || !r.Ended.IsZero() && r.Ended.Before(since): // it did nothing in that day
		case !r.Tasks:
			complete = false
		case r.Asleep():
			asleep = append(asleep, r)
		default:
			newest = append(newest, r)
		}
	}
	complete = complete && listed < listedRuns
	read := 0
	for _, r := range append(newest, asleep...) {
		if read == mostRuns || left.events <= 0 || left.bytes <= 0 {
			complete = false
			break
		}
		read++
		_, more, err := s.eachNote(c.ctx, r.ID, 0, &left, func(ev runs.Event, n runs.TaskNote) {
			if !n.Ended || ev.Time.Before(since) {
				return
			}
			k := key{r.Graph, nodePath(ev.Namespace, n.Name)}
			if found[k] == nil {
				found[k] = &nodeDay{Graph: r.Graph, Name: k.name}
				nodes = append(nodes, found[k])
			}
			found[k].add(r, n)
		})
		switch {
		case errors.Is(err, runs.ErrNotFound): // it was removed meanwhile
		case err != nil && c.ctx.Err() != nil:
			return err
		case err != nil: // what it did is not known
			s.log.Warn("the events of a run cannot be read", "run_id", r.ID, "error", err)
			complete = false
		default:
			complete = complete && !more
		}
	}
	slices.SortFunc(nodes, func(a, b *nodeDay) int {
		return cmp.Or(cmp.Compare(b.Took, a.Took), strings.Compare(a.Graph, b.Graph), strings.Compare(a.Name, b.Name))
	})
	return c.json(map[string]any{"since": stamped(since), "runs": read, "complete": complete, "nodes": nodes})
}

// nodePath is the name of a node of a graph inside, behind the nodes that lead there.
func nodePath(namespace []string, name string) string {
	var path strings.Builder
	for _, part := range namespace {
		if node, _, isTask := strings.Cut(part, ":"); isTask { // else the number of a repeated call
			path.WriteString(node + ":")
		}
	}
	return path.String() + name
}

// add adds a task that ended; runs come newest first, those that sleep behind the others.
func (d *nodeDay) add(r runs.Run, n runs.TaskNote) {
	d.Tasks, d.Took, d.Retries = d.Tasks+1, d.Took+int64(n.Took), d.Retries+max(n.Attempts-1, 0)
	if n.Failed && d.Failed == 0 || d.Failed == 0 && int64(n.Took) >= d.Longest {
		d.Run, d.Thread = r.ID, r.ThreadID
	}
	d.Longest = max(d.Longest, int64(n.Took))
	switch {
	case n.Failed:
		d.Failed++
	case n.Waiting:
		d.Waiting++
	}
}
