package pregel

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/stele-go/stele/pregel/internal/answer"
)

// task is one unit of work of a superstep. Its identity does not change; writes
// and outcome belong to the loop.
type task struct {
	id       string
	node     *Node
	name     string
	path     Path   // nil for the task of a packet; see where
	packet   int    // index of the packet
	pathStr  string // the path as it is stored
	ns       string // the task's namespace
	was      string // in the checkpoint that a fork copied; "" if no graph inside continues there
	triggers []string
	input    any
	timeout  *TimeoutPolicy
	retry    []RetryPolicy
	cacheKey *cacheKey
	pad      answer.Pad
	around   *checkpointsAround
	previous any
	call     *callSpec // of a functional call
	caller   *task     // of a functional call: whose body makes it, as its number-th from 0
	number   int
	nodeErr  *NodeError
	metadata map[string]any
	ctx      context.Context // of the task's span; nil: the superstep's

	// writes are set once the task ended or was found to have ended before.
	writes []write
	tries  int           // how often its body was called
	took   time.Duration // from the first call to the end of the last
	// returned is the output of the body while messages are streamed.
	returned any
	given    map[string]bool // ids that messages in writes have for streams, and not from the body

	done futureState // the result of a call, for its callers
	// What the loop knows of records of calls: whether this one has one, which one if that was stored before
	// it ended, the calls of its body that no record has, by number, and why the body cannot go on.
	recorded   bool
	record     write
	unrecorded []*task
	mismatch   error
	// How much the attempt under way did, so that the next one finds the same answers, calls and graphs inside.
	calls, subgraphs, asked, waited, children atomic.Int64
	exposed                                   counts
	// saw are the errors that the body has seen in the attempt under way. former are the most calls that an
	// earlier attempt of this run made.
	saw    sawErrors
	former atomic.Int64
}

// where returns the path of t. That of a packet's task is made on demand.
func (t *task) where() Path {
	if t.path == nil {
		return sendPath(t.packet)
	}
	return t.path
}

// reset begins a new attempt. The answers stay.
func (t *task) reset() {
	t.former.Store(max(t.former.Load(), t.calls.Load()))
	t.calls.Store(0)
	t.subgraphs.Store(0)
	t.asked.Store(0)
	t.waited.Store(0)
	t.children.Store(0)
	t.exposed.reset()
	t.saw.reset()
}

// seesError notes that the body gets an error of its nth call, question, wait or graph inside. An error with another
// text is another one: the body may take another way for it.
func (t *task) seesError(of string, nth int, err error) {
	of = fmt.Sprint(of, " ", nth)
	if errors.Is(err, ErrInterrupted) { // an answer may become an error
		of += " waits"
	} else {
		of = fmt.Sprintf("%s %016x", of, xxh3.HashString(err.Error()))
	}
	t.saw.add(sawError{int(t.calls.Load()), of})
}

// checkpointsAround are the checkpoints of a task's graph and of those around it. Only
// graphs inside need the map, so it is made on demand.
type checkpointsAround struct {
	outer  map[string]string
	ns, id string

	once sync.Once
	all  map[string]string
}

func (c *checkpointsAround) get() map[string]string {
	c.once.Do(func() { c.all = merged(c.outer, map[string]string{c.ns: c.id}) })
	return c.all
}

func (t *task) hidden() bool { return t.node != nil && t.node.hidden() }

// taskWrites has the parts of a task that apply needs. Input, answers and state updates have the same
// form.
type taskWrites struct {
	path     string
	node     string
	triggers []string
	writes   []write
}

// inputTask returns taskWrites for the input, or for writes that belong to no task.
func inputTask(writes []write) taskWrites {
	return taskWrites{path: Path{}.String(), node: Input, writes: writes}
}

// nullTask has the pending writes that belong to no task; nil if there are none.
func nullTask(pending []answer.Write) []taskWrites {
	var writes []write
	for _, w := range pending {
		if w.TaskID == nullTaskID {
			writes = append(writes, write{w.Channel, w.Value})
		}
	}
	if writes == nil {
		return nil
	}
	return []taskWrites{inputTask(writes)}
}

func (t *task) asWrites() taskWrites {
	return taskWrites{path: t.pathStr, node: t.name, triggers: t.triggers, writes: t.writes}
}

// placed returns the path and the node of t; t may be nil.
func (t *task) placed() (path, node string) {
	if t == nil {
		return "", ""
	}
	return t.pathStr, t.name
}

// taskSet are the tasks of a superstep in their order.
type taskSet struct {
	order []*task
	by    map[string]int // place in order; nil while there are few
}

// fewTasks: up to this number of tasks a linear search is as fast as a map.
const fewTasks = 8

func (s *taskSet) add(t *task) {
	if i := s.place(t.id); i >= 0 {
		s.order[i] = t
		return
	}
	s.order = append(s.order, t)
	switch n := len(s.order); {
	case s.by != nil:
		s.by[t.id] = n - 1
	case n > fewTasks:
		s.by = make(map[string]int, 2*n)
		for i, x := range s.order {
			s.by[x.id] = i
		}
	}
}

// place returns the index of the task with this id; -1 if there is none.
func (s *taskSet) place(id string) int {
	if s.by != nil {
		if i, ok := s.by[id]; ok {
			return i
		}
		return -1
	}
	return slices.IndexFunc(s.order, func(t *task) bool { return t.id == id })
}

func (s *taskSet) get(id string) *task {
	if s == nil {
		return nil
	}
	if i := s.place(id); i >= 0 {
		return s.order[i]
	}
	return nil
}

// idsByNode are the ids of the tasks of each node, in order.
func (s *taskSet) idsByNode() map[string][]string {
	ids := map[string][]string{}
	for _, t := range s.order {
		ids[t.name] = append(ids[t.name], t.id)
	}
	return ids
}

// names are the nodes of the tasks, each once, in the order of their first tasks.
func (s *taskSet) names() (names []string) {
	for _, t := range s.order {
		if !slices.Contains(names, t.name) {
			names = append(names, t.name)
		}
	}
	return names
}

// namePerTask is the node of each task, in order.
func (s *taskSet) namePerTask() []string {
	names := slices.Grow([]string(nil), len(s.order))
	for _, t := range s.order {
		names = append(names, t.name)
	}
	return names
}

func (s *taskSet) asWrites() []taskWrites {
	out := make([]taskWrites, len(s.order))
	for i, t := range s.order {
		out[i] = t.asWrites()
	}
	return out
}

// callSpec is a function called as a task of its own.
type callSpec struct {
	name    string
	run     func(ctx context.Context) (any, error)
	input   any
	hash    string // see inputHash; "" if the input does not count
	retry   []RetryPolicy
	cache   *CachePolicy
	timeout *TimeoutPolicy

	ignoreInput bool
}

// futureState lets callers wait for the end of a called task.
type futureState struct {
	once sync.Once // of resolving
	made sync.Once // of ch
	ch   chan struct{}
	val  any
	err  error
}

// resolve sets the result and wakes the callers. Only the first call counts.
func (f *futureState) resolve(v any, err error) {
	f.once.Do(func() {
		f.val, f.err = v, err
		close(f.wait())
	})
}

func (f *futureState) wait() chan struct{} {
	f.made.Do(func() { f.ch = make(chan struct{}) })
	return f.ch
}
