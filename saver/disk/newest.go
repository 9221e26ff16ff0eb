package disk

import (
	"cmp"
	"container/heap"
	"context"
	"encoding/binary"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/engine"
	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/layout"
)

// newest knows the threads with the greatest checkpoint ids of a store, so that a listing over all
// threads that ends after a few checkpoints reads those threads alone. It is in memory, bounded, and
// made by the first listing that could use it, which reads all threads. Saver and all that
// WithSerializer makes of it share one. It has an upper bound for each of its threads: no checkpoint of
// the thread has a greater id. A thread that it does not have has no checkpoint above floor. A put adds
// its id in its commit, before that is visible, so the bounds hold for every view. A commit that the
// log refuses leaves a bound that is too high. Removals, erasures too, change nothing: a listing then
// opens a thread in vain, and forgets it if it is not there. So bounds and floor may have what was
// erased: keep decides what of it goes into a file.
type newest struct {
	kept   int // newestKept
	least  int // newestLeast
	mu     sync.Mutex
	made   bool
	never  bool     // at a follower, whose puts are made elsewhere
	opened base.LSN // the last record when the store was opened
	floor  string
	bounds map[string]bound // by thread
}

// newestKept is how many threads remain when their number has reached twice that. Threads with equal
// ids are kept or dropped together.
const newestKept = 2048

// newestLeast is how many threads a store has at least that keeps it at Close: fewer are read as fast.
const newestLeast = 256

// newNewest is that of a store that was opened. Of one without a record all is known.
func newNewest(e *engine.Engine) *newest {
	at := e.Index.LSN()
	return &newest{kept: newestKept, least: newestLeast, opened: at, made: at == 0, never: errors.Is(e.MayWrite(), fault.ErrFollower)}
}

// bound is the greatest id that records said.
type bound struct {
	id  string
	lsn base.LSN // of the last of the records
	// since is no later than the first of the records. If the thread was begun later, an earlier life of
	// it may have had the id. 0: another thread may have.
	since base.LSN
}

// put notes that record lsn gives a thread a checkpoint.
func (n *newest) put(threadID, id string, lsn base.LSN) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.add(threadID, bound{id: id, lsn: lsn, since: lsn})
}

// add raises the bound of a thread. mu is held.
func (n *newest) add(threadID string, b bound) {
	if b.id <= n.floor {
		return
	}
	if n.bounds == nil {
		n.bounds = map[string]bound{}
	}
	if was, ok := n.bounds[threadID]; ok {
		b = bound{id: max(b.id, was.id), lsn: max(b.lsn, was.lsn), since: min(b.since, was.since)}
	}
	n.bounds[threadID] = b
	if len(n.bounds) <= 2*n.kept {
		return
	}
	n.raise(n.list()[n.kept].id)
}

// raise raises floor. mu is held.
func (n *newest) raise(floor string) {
	n.floor = max(n.floor, floor)
	maps.DeleteFunc(n.bounds, func(_ string, b bound) bool { return b.id <= n.floor })
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
	slices.SortFunc(all, boundThread.compare)
	return all
}

func (t boundThread) compare(o boundThread) int {
	return cmp.Or(cmp.Compare(o.id, t.id), cmp.Compare(t.thread, o.thread))
}

// copied notes that record lsn copies thread from. The commit of the copy calls it. If the log refuses
// that, dst never has the id.
func (n *newest) copied(from *index.Partition, dst string, lsn base.LSN) {
	id := greatest(from)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.add(dst, bound{id: id, lsn: lsn})
}

// allRead is called when put was called for all threads of a view.
func (n *newest) allRead() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.made = true
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
func (n *newest) viewed(e *engine.Engine) (*engine.View, newestThreads, error) {
	v, of, err := n.viewedNow(e)
	if err != nil || of.known || n.never {
		return v, of, err
	}
	err = n.load(e, v)
	v.Release()
	if err != nil {
		return nil, of, err
	}
	return n.viewedNow(e)
}

func (n *newest) viewedNow(e *engine.Engine) (v *engine.View, of newestThreads, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if v, err = e.View(); err == nil && n.made && !n.never {
		of = newestThreads{n.list(), n.floor, true}
	}
	return v, of, err
}

// load makes it of what Close has kept, if that is of this store, and of the threads that were
// written to since. Where that is damaged it is made as if there were none; with AllowDamage damage
// leaves entries out without an error, so there it always is.
func (n *newest) load(e *engine.Engine, v *engine.View) error {
	if e.Opts.AllowDamage {
		return nil
	}
	t, err := v.Partition(layout.NewestPartition)
	if t == nil || err != nil {
		return notCorrupt(err)
	}
	rest := t.Get("")
	if rest == nil || rest.Slots.Len() != 1 || rest.Slots.At(0).Name != storeNumber(e.StoreID()) {
		return nil
	}
	n.mu.Lock()
	n.raise(rest.Slots.At(0).Tag)
	t.Ascend("", func(it *index.Entry) bool {
		if it.Key != "" && it.Slots.Len() == 1 {
			n.add(it.Key, bound{id: it.Slots.At(0).Tag, lsn: t.LSN, since: t.LSN})
		}
		return true
	})
	n.mu.Unlock()
	if t.LSN < n.opened {
		aerr := v.Ascend(layout.SpaceThread, func(th *index.Partition) bool {
			if !strings.HasPrefix(th.ID, layout.SpaceThread) {
				return false
			}
			if th.LSN > t.LSN {
				if th, err = v.Load(th); err == nil {
					n.read(th, v)
				}
			}
			return err == nil
		})
		if err = cmp.Or(err, aerr); err != nil {
			return notCorrupt(err)
		}
	}
	n.allRead()
	return nil
}

// notCorrupt is an error that is none of damage.
func notCorrupt(err error) error {
	if errors.Is(err, fault.ErrCorrupt) {
		return nil
	}
	return err
}

// storeNumber is the number of a store as a name.
func storeNumber(id uint64) string { return string(binary.BigEndian.AppendUint64(nil, id)) }

// keep keeps in the store what is known, if that is more than a little. It is derived: an error is
// one that Close returns as well, or the next listing reads all.
//
// It writes nothing that was erased: what it writes exists in its own commit. An erasure before that
// has dropped the whole partition, so that it has no entry of an erased thread, whose key would have to
// be written to delete it. An erasure behind it drops what was written here.
func (n *newest) keep(e *engine.Engine) {
	n.mu.Lock()
	few := !n.made || len(n.bounds) <= n.least
	n.mu.Unlock()
	if few || e.MayWrite() != nil {
		return
	}
	_ = e.CommitWith(context.Background(), engine.CommitOptions{Urgent: true, Deferred: true}, []string{layout.NewestPartition}, func(tx *engine.Tx) error {
		t := tx.Partition(layout.NewestPartition)
		if t != nil && t.LSN+1 == tx.LSN() {
			return nil // there was no other record since
		}
		all, floor := n.living(tx)
		if len(all) == 0 {
			return nil
		}
		if err := tx.Put(layout.NewestPartition, "", 0, []engine.SlotIn{{Name: storeNumber(e.StoreID()), Tag: floor}}); err != nil {
			return err
		}
		kept := map[string]bool{"": true}
		for _, b := range all {
			if b.id <= floor {
				continue
			}
			kept[b.thread] = true
			if t != nil {
				if it := t.Get(b.thread); it != nil && it.Slots.Len() == 1 && it.Slots.At(0).Tag == b.id {
					continue
				}
			}
			if err := tx.Put(layout.NewestPartition, b.thread, 0, []engine.SlotIn{{Tag: b.id}}); err != nil {
				return err
			}
		}
		if t == nil {
			return nil
		}
		var gone []string
		t.Ascend("", func(it *index.Entry) bool {
			if !kept[it.Key] {
				gone = append(gone, it.Key)
			}
			return true
		})
		return tx.Delete(layout.NewestPartition, gone...)
	})
}

// living are the threads that exist in a commit, the greatest bound first, and a floor for the others.
// Each bound is an id that its thread had, and the floor is one of the bounds, as newest.floor may be an
// id of a thread that was erased.
func (n *newest) living(tx *engine.Tx) (all []boundThread, floor string) {
	n.mu.Lock()
	known, floor := n.list(), n.floor
	n.mu.Unlock()
	for _, b := range known {
		key := layout.ThreadKey(b.thread)
		birth := tx.Birth(key)
		if birth > b.since {
			b.id = greatest(tx.Partition(key))
		}
		if birth > 0 && b.id > floor {
			all = append(all, b)
		}
	}
	slices.SortFunc(all, boundThread.compare)
	if len(all) > 0 && (floor != "" || len(all) > n.kept) {
		floor = all[min(n.kept, len(all)-1)].id
	}
	return all, floor
}

// merge are threads whose checkpoints come in the order of a listing: those that were opened, by
// their next one, and those that were not, by their bound. It is a heap.
type merge []opened

// opened is a thread in a merge, with its remaining checkpoints.
type opened struct {
	boundThread
	*walk // nil: not opened yet
}

// Len implements heap.Interface.
func (m merge) Len() int { return len(m) }

// Less implements heap.Interface. A thread that is not opened comes first, as its bound may be an
// id.
func (m merge) Less(i, j int) bool {
	a, b := &m[i], &m[j]
	switch {
	case a.walk != nil && b.walk != nil:
		return compareFound(a.left[0], b.left[0]) < 0
	case a.walk == nil && b.walk == nil:
		return a.id > b.id
	case a.walk == nil:
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
	if t == nil {
		top.walk = &walk{}
		n.forget(top.boundThread, v)
		return nil
	}
	top.walk = newWalk(t, q)
	return nil
}

// listSome is listAll for a few checkpoints: it opens the threads that have the newest ones, and reads
// the others only if these do not suffice.
func (s *Saver) listSome(v *engine.View, q saver.Query, of newestThreads, visit func(*index.Partition, *index.Entry) error) error {
	if !of.known {
		return s.listAll(v, q, true, visit)
	}
	floor, m := of.floor, make(merge, len(of.threads))
	for i, t := range of.threads {
		m[i] = opened{boundThread: t}
	}
	for heap.Init(&m); m.Len() > 0; {
		if top := &m[0]; top.walk == nil {
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
			top.advance()
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
	n.put(strings.TrimPrefix(t.ID, layout.SpaceThread), greatest(t), v.LSN())
}

// greatest is the greatest id of a checkpoint of a thread, whatever its namespace; "" of none.
func greatest(t *index.Partition) (id string) {
	if t == nil {
		return ""
	}
	t.Ascend(string(layout.KeyCheckpoint), func(it *index.Entry) bool {
		if _, at, ok := layout.ParseCheckpointKey(it.Key); ok {
			id = max(id, at)
		}
		return true
	})
	return id
}
