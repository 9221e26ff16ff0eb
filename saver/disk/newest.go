package disk

import (
	"cmp"
	"container/heap"
	"slices"
	"strings"
	"sync"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/engine"
	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/layout"
)

// newest knows the threads with the greatest checkpoint ids of a store, so that a listing over all
// threads that ends after a few checkpoints reads those threads alone. It is in memory, bounded,
// and made by the first listing that could use it, which reads all threads. Saver and all that
// WithSerializer makes of it share one.
//
// What it has of a thread is a bound: no checkpoint of the thread has a greater id. A thread that
// it does not have has none above floor. A put says its id in its commit, before that is visible,
// so this holds for all that any view shows. Removals say nothing: a listing opens a thread in
// vain, and forgets it if it is not there.
type newest struct {
	kept   int // newestKept
	mu     sync.Mutex
	made   bool
	floor  string
	bounds map[string]bound // by thread
	// lastCopy is the last record that copies a thread: before it is made nothing is known of the
	// copy of a thread that was not written to, and a view has to show it.
	lastCopy base.LSN
}

// newestKept is how many threads are kept after there were twice as many, but for those of one id.
const newestKept = 2048

// bound is an id, and the last record that said it.
type bound struct {
	id  string
	lsn base.LSN
}

// put notes that record lsn gives a thread a checkpoint.
func (n *newest) put(threadID, id string, lsn base.LSN) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.add(threadID, bound{id, lsn})
}

// add raises the bound of a thread. mu is held.
func (n *newest) add(threadID string, b bound) {
	if b.id <= n.floor {
		return
	}
	if n.bounds == nil {
		n.bounds = map[string]bound{}
	}
	was := n.bounds[threadID]
	n.bounds[threadID] = bound{max(b.id, was.id), max(b.lsn, was.lsn)}
	if len(n.bounds) <= 2*n.kept {
		return
	}
	all := n.list()
	n.floor = all[n.kept].id
	for _, t := range all {
		if t.id <= n.floor {
			delete(n.bounds, t.thread)
		}
	}
}

// forget removes a thread that a view does not have, unless a record that the view does not show
// either has said its bound.
func (n *newest) forget(t boundThread, v *engine.View) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.bounds[t.thread] == t.bound && t.lsn <= v.LSN() {
		delete(n.bounds, t.thread)
	}
}

// boundThread is a thread with its bound.
type boundThread struct {
	thread string
	bound
}

// list are the threads, the greatest bound first. mu is held.
func (n *newest) list() []boundThread {
	all := make([]boundThread, 0, len(n.bounds))
	for thread, b := range n.bounds {
		all = append(all, boundThread{thread, b})
	}
	slices.SortFunc(all, func(a, b boundThread) int { return cmp.Or(cmp.Compare(b.id, a.id), cmp.Compare(a.thread, b.thread)) })
	return all
}

// copied notes that record lsn copies a thread. The commit of the copy calls it.
func (n *newest) copied(src, dst string, lsn base.LSN) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lastCopy = max(n.lastCopy, lsn)
	n.add(dst, bound{n.bounds[src].id, lsn})
}

// allRead is called when put was called for all threads of a view.
func (n *newest) allRead(v *engine.View) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.made = n.made || n.lastCopy <= v.LSN()
}

// newestThreads are the threads that may have an id above floor in a view, the greatest bound
// first, if that is known.
type newestThreads struct {
	threads []boundThread
	floor   string
	known   bool
}

// viewed takes a view and what is known of it at once: a thread that it shows is forgotten as soon
// as another listing has a later view, which does not.
func (n *newest) viewed(take func() (*engine.View, error)) (v *engine.View, of newestThreads, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if v, err = take(); err == nil && n.made {
		of = newestThreads{n.list(), n.floor, true}
	}
	return v, of, err
}

// merge are threads whose checkpoints come in the order of a listing: those that were opened, by
// their next one, and those that were not, by their bound. It is a heap.
type merge []opened

// opened is a thread of a merge with what is left of it.
type opened struct {
	boundThread
	left []foundEntry // nil: not opened yet
}

// Len implements heap.Interface.
func (m merge) Len() int { return len(m) }

// Less implements heap.Interface. A thread that is not opened comes first, as its bound may be an
// id.
func (m merge) Less(i, j int) bool {
	a, b := &m[i], &m[j]
	switch {
	case a.left != nil && b.left != nil:
		return a.left[0].at.CompareListing(b.left[0].at) < 0
	case a.left == nil && b.left == nil:
		return a.id > b.id
	case a.left == nil:
		return a.id >= b.left[0].at.CheckpointID
	}
	return a.left[0].at.CheckpointID > b.id
}

// Swap implements heap.Interface.
func (m merge) Swap(i, j int) { m[i], m[j] = m[j], m[i] }

// Push implements heap.Interface.
func (m *merge) Push(x any) { *m = append(*m, x.(opened)) }

// Pop implements heap.Interface.
func (m *merge) Pop() any {
	last := (*m)[len(*m)-1]
	*m = (*m)[:len(*m)-1]
	return last
}

// open opens the thread that comes first.
func (m merge) open(n *newest, v *engine.View, q saver.Query) error {
	top := &m[0]
	t, err := v.Partition(layout.ThreadKey(top.thread))
	if err != nil {
		return err
	}
	top.left = []foundEntry{}
	if t == nil {
		n.forget(top.boundThread, v)
		return nil
	}
	top.left = selectEntries(t, q, top.left)
	slices.SortFunc(top.left, func(a, b foundEntry) int { return a.at.CompareListing(b.at) })
	return nil
}

// listSome is listAll where few checkpoints are wanted: it opens the threads that have the newest,
// and reads the others if these do not suffice.
func (s *Saver) listSome(v *engine.View, q saver.Query, of newestThreads, visit func(*index.Partition, *index.Entry) error) error {
	if !of.known {
		return s.listAll(v, q, true, visit)
	}
	floor, m := of.floor, make(merge, len(of.threads))
	for i, t := range of.threads {
		m[i] = opened{boundThread: t}
	}
	for heap.Init(&m); m.Len() > 0; {
		if top := &m[0]; top.left == nil {
			if err := m.open(s.newest, v, q); err != nil {
				return err
			}
		} else {
			if top.left[0].at.CheckpointID <= floor {
				break
			}
			if err := visit(top.left[0].thread, top.left[0].entry); err != nil {
				return err
			}
			top.left = top.left[1:]
		}
		if len(m[0].left) == 0 {
			heap.Pop(&m)
		} else {
			heap.Fix(&m, 0)
		}
	}
	if floor == "" {
		return nil
	}
	if rest := floor + "\x00"; q.Before == "" || q.Before > rest {
		q.Before = rest
	}
	return s.listAll(v, q, false, visit)
}

// read notes the greatest id of a checkpoint of a thread, which a view shows.
func (n *newest) read(t *index.Partition, v *engine.View) {
	greatest := ""
	t.Ascend(string(layout.KeyCheckpoint), func(it *index.Entry) bool {
		if _, id, ok := layout.ParseCheckpointKey(it.Key); ok {
			greatest = max(greatest, id)
		}
		return true
	})
	n.put(strings.TrimPrefix(t.ID, layout.SpaceThread), greatest, v.LSN())
}
