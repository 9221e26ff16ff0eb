package server

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"iter"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/store"
)

// threadIndex answers searches of threads without a look at their records: it has the threads
// in the order in which they were made, and for each value in their metadata those that have it.
//
// It is in memory alone and made of the records when the server begins, in the background: so
// there is nothing that a crash could leave behind the records, and nothing to rebuild but by
// another start. Meanwhile, and where it cannot be had, searches read the records. It follows
// the log of the store, and catches up before each answer, so that a client finds what it has
// made, whoever in this process made it. On a store that other processes write to there is
// none. Keys in the log beside each record would cost every thread several more writes, and
// indexes of their own as large as this; they would also have to be checked against the records
// of servers that do not know them.
type threadIndex struct {
	records records[thread]
	saver   saver.Saver
	items   *store.Local
	watch   *store.Watch // since make was called
	log     *slog.Logger

	ready atomic.Bool   // there is an answer
	lost  chan struct{} // what changed was lost
	mu    sync.Mutex
	by    map[string]*indexedThread
	all   *threadList // those that searches may show
	// partial are those of them that have more in their metadata than mostIndexed, and are in no
	// list of have: a search looks at their records.
	partial *threadList
	have    map[term]*threadList
	// stored is how many there are of which the server has no record.
	stored int
}

// indexedThread is what the index has of a thread. It is not changed, but for version, what changed it last, and gone.
type indexedThread struct {
	id      string
	created int64 // unix µs
	version uint64
	updated int64         // when the record was changed, as created
	run     string        // that the record names
	saved   int64         // when the saver wrote to it last, as created; 0 if the saver does not have it
	lists   []*threadList // that it is in; none if searches do not show it
	partial bool          // it is in the list of these
	stored  bool          // the server has no record of it
	gone    bool
}

// mostIndexed is how many names in the metadata of a thread the index has, and mostTerms how many
// of a search: a client may send hundreds of thousands, and all others wait meanwhile.
const (
	mostIndexed = 64
	mostTerms   = 16
)

// newThreadIndex returns nil if the store is not in this process, or not with the saver.
func newThreadIndex(items store.Store, states saver.Saver, records records[thread], log *slog.Logger) *threadIndex {
	local, ok := items.(*store.Local)
	if !ok || !local.SharesLog(states) {
		return nil
	}
	return &threadIndex{records: records, saver: states, items: local, lost: make(chan struct{}, 1), log: log}
}

// remakeMost bounds the time between two attempts to make the index.
const remakeMost = time.Minute

// run makes the index, and keeps it until ctx ends.
func (x *threadIndex) run(ctx context.Context) {
	defer func() {
		if x.watch != nil {
			x.watch.Close()
		}
	}()
	defer x.ready.Store(false)
	pause := time.Second
	for ctx.Err() == nil {
		if err := x.make(ctx); err != nil {
			if ctx.Err() != nil || errors.Is(err, fault.ErrClosed) {
				return
			}
			x.log.Error("the index of threads cannot be made, and searches read the records", "error", err, "again in", pause)
			select {
			case <-ctx.Done():
			case <-time.After(pause):
			}
			pause = min(2*pause, remakeMost)
			continue
		}
		pause = time.Second
		for x.ready.Load() {
			select {
			case <-ctx.Done():
				return
			case <-x.lost:
			case <-x.watch.Many():
				x.mu.Lock()
				x.catchUp(ctx)
				x.mu.Unlock()
			}
		}
	}
}

// make makes the index from what there is. A watch that has begun tells only what changed, so
// this begins another.
func (x *threadIndex) make(ctx context.Context) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.watch != nil {
		x.watch.Close()
	}
	x.watch = x.items.Watch(x.records.ns)
	x.by, x.have, x.stored = map[string]*indexedThread{}, map[term]*threadList{}, 0
	x.all, x.partial = &threadList{}, &threadList{}
	if err := x.follow(ctx); err != nil {
		return err
	}
	for info, err := range x.saver.Threads(ctx, saver.ThreadQuery{WithoutNotes: true}) {
		if err != nil {
			return err
		}
		x.putStored(info)
	}
	if err := x.follow(ctx); err != nil { // of threads that changed meanwhile
		return err
	}
	x.all.inOrder()
	x.partial.inOrder()
	for _, l := range x.have {
		l.inOrder()
	}
	x.ready.Store(true)
	return nil
}

// catchUp takes into account what has changed. After an error the index is made again. mu is held.
func (x *threadIndex) catchUp(ctx context.Context) bool {
	if err := x.follow(ctx); err != nil {
		x.log.Error("the index of threads is made again", "error", err)
		x.ready.Store(false)
		select {
		case x.lost <- struct{}{}:
		default:
		}
		return false
	}
	return true
}

// follow reads what the watch tells of. mu is held.
func (x *threadIndex) follow(ctx context.Context) error {
	news, err := x.watch.Next()
	if err != nil {
		return err
	}
	ids := slices.SortedFunc(maps.Keys(news.Keys), func(a, b string) int { return cmp.Compare(news.Keys[a], news.Keys[b]) })
	for _, id := range ids { // as they lie on disk
		version := news.Keys[id]
		if e := x.by[id]; e != nil && !e.stored && e.version == version {
			continue
		}
		if err := x.read(ctx, id, version); err != nil {
			return err
		}
	}
	if news.All {
		for id, e := range x.by {
			if _, is := news.Keys[id]; !is && !e.stored {
				news.Threads = append(news.Threads, id)
				x.drop(id)
			}
		}
	}
	for _, id := range news.Threads {
		if err := x.readStored(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// read reads the record of a thread.
func (x *threadIndex) read(ctx context.Context, id string, version uint64) error {
	t, ok, err := x.records.get(ctx, id)
	if errors.Is(err, errUndecoded) {
		x.log.Error("a record cannot be decoded", "error", err)
		ok, err = false, nil
	}
	if err != nil {
		return err
	}
	if !ok {
		x.drop(id)
		return x.readStored(ctx, id)
	}
	e := &indexedThread{id: id, created: t.Created.UnixMicro(), version: version, updated: t.Updated.UnixMicro(), run: t.Run}
	if old := x.by[id]; old != nil {
		e.saved = old.saved
	}
	if t.Temporary {
		x.drop(id)
		x.by[id] = e
		return nil
	}
	x.put(e, t.Metadata)
	return nil
}

// readStored looks what the saver has of a thread.
func (x *threadIndex) readStored(ctx context.Context, id string) error {
	for info, err := range x.saver.Threads(ctx, saver.ThreadQuery{ThreadID: id, WithoutNotes: true}) {
		if err == nil {
			x.putStored(info)
		}
		return err
	}
	if e := x.by[id]; e != nil && !e.stored {
		e.saved = 0
	} else {
		x.drop(id)
	}
	return nil
}

// putStored notes when the saver wrote to a thread last, of which there may be no record.
func (x *threadIndex) putStored(info saver.ThreadInfo) {
	at := info.UpdatedAt.UnixMicro()
	if e := x.by[info.ThreadID]; e != nil && !e.stored {
		e.saved = at
	} else {
		x.put(&indexedThread{id: info.ThreadID, created: at, updated: at, saved: at, stored: true}, nil)
	}
}

// put puts a thread in the place of what the index has of it.
func (x *threadIndex) put(e *indexedThread, metadata map[string]any) {
	e.partial = len(metadata) > mostIndexed
	e.lists = append(make([]*threadList, 0, min(len(metadata), mostIndexed)+1), x.all)
	if e.partial {
		e.lists, metadata = append(e.lists, x.partial), nil
	}
	for key, v := range metadata {
		if k, ok := termOf(key, v); ok {
			if x.have[k] == nil {
				x.have[k] = &threadList{term: k}
			}
			e.lists = append(e.lists, x.have[k])
		}
	}
	if old := x.by[e.id]; old != nil && old.created == e.created && old.stored == e.stored && sameLists(old.lists, e.lists) {
		old.version, old.updated, old.run, old.saved = e.version, e.updated, e.run, e.saved
		return
	}
	x.drop(e.id)
	x.by[e.id] = e
	if e.stored {
		x.stored++
	}
	for _, l := range e.lists {
		if x.have[l.term] == nil && l != x.all && l != x.partial { // drop has removed it
			x.have[l.term] = l
		}
		l.threads = append(l.threads, e)
		l.live++
	}
}

func sameLists(a, b []*threadList) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(l *threadList) bool { return !slices.Contains(b, l) })
}

// drop removes a thread.
func (x *threadIndex) drop(id string) {
	e := x.by[id]
	if e == nil {
		return
	}
	delete(x.by, id)
	e.gone = true
	if e.stored {
		x.stored--
	}
	for _, l := range e.lists {
		if l.live--; l.live == 0 && l != x.all && l != x.partial {
			delete(x.have, l.term)
		}
		l.clean()
	}
}

// threadList are threads in the order in which they were made, and of those made at once by id,
// the greatest first: those that have gone still among them, and behind sorted in no order.
type threadList struct {
	term    term
	threads []*indexedThread
	sorted  int
	live    int
}

// clean removes those that have gone, if they are most of the list: what that costs is in
// proportion to what went.
func (l *threadList) clean() {
	if len(l.threads) <= 2*l.live+16 {
		return
	}
	kept, sorted := make([]*indexedThread, 0, l.live), 0
	for i, e := range l.threads {
		if i == l.sorted {
			sorted = len(kept)
		}
		if !e.gone {
			kept = append(kept, e)
		}
	}
	if l.sorted == len(l.threads) {
		sorted = len(kept)
	}
	l.threads, l.sorted = kept, sorted
}

// inOrder sorts what was added, and merges it with the rest from the end on: what is new mostly
// stays there.
func (l *threadList) inOrder() []*indexedThread {
	added := slices.Clone(l.threads[l.sorted:])
	slices.SortFunc(added, (*indexedThread).compare)
	for to, old := len(l.threads)-1, l.sorted-1; len(added) > 0; to-- {
		if last := added[len(added)-1]; old < 0 || l.threads[old].compare(last) <= 0 {
			l.threads[to], added = last, added[:len(added)-1]
		} else {
			l.threads[to] = l.threads[old]
			old--
		}
	}
	l.sorted = len(l.threads)
	return l.threads
}

func (e *indexedThread) compare(o *indexedThread) int {
	return cmp.Or(cmp.Compare(e.created, o.created), strings.Compare(o.id, e.id))
}

// newestFirst goes backward through two lists in order, as if they were one.
func newestFirst(a, b []*indexedThread) iter.Seq[*indexedThread] {
	return func(yield func(*indexedThread) bool) {
		for len(a)+len(b) > 0 {
			from := &a
			if len(a) == 0 || len(b) > 0 && a[len(a)-1].compare(b[len(b)-1]) < 0 {
				from = &b
			}
			e := (*from)[len(*from)-1]
			if *from = (*from)[:len(*from)-1]; !yield(e) {
				return
			}
		}
	}
}

// term is a name in metadata with a value, as a hash.
type term [16]byte

// termOf is the term of a value; false if it is an object, a list or a very large number, which has none. Two values
// have one term if same says that they are equal.
func termOf(name string, value any) (term, bool) {
	b := append(binary.AppendUvarint(nil, uint64(len(name))), name...)
	switch x := value.(type) {
	case nil:
		b = append(b, 'n')
	case string:
		b = append(append(b, 's'), x...)
	case bool:
		b = append(b, 'f')
		if x {
			b[len(b)-1] = 't'
		}
	default:
		f, ok := asNumber(value)
		if !ok || math.IsNaN(f) || math.Abs(f) >= 1<<53 { // of integers so long a float64 holds not each
			return term{}, false
		}
		if f == 0 {
			f = 0 // and not -0
		}
		b = binary.BigEndian.AppendUint64(append(b, '1'), math.Float64bits(f))
	}
	sum := sha256.Sum256(b)
	return term(sum[:16]), true
}

// threadSelection is what a search of threads selects by, as far as the index can.
type threadSelection struct {
	terms []term
	// rest: there is more in metadata and grant, and the record has to be looked at.
	rest     bool
	metadata map[string]any
	grant    Grant
	prefixes []string
	without  map[string]bool // threads of which no client was told yet
}

// selection is what a search selects by; false if it asks for more than the index has.
func (x *threadIndex) selection(c *call) (sel threadSelection, ok bool) {
	stele, by := c.body.text("stele_status"), c.body.text("sort_by")
	if _, named := c.body["ids"]; named || len(c.body.object("values")) > 0 || c.body.text("status") != "" ||
		stele != "" && stele != anyStatus || by != "" && by != "created_at" && by != "thread_id" && by != "updated_at" {
		return sel, false
	}
	sel = threadSelection{metadata: c.body.object("metadata"), grant: c.grant, prefixes: c.body.texts("stele_prefix"), without: map[string]bool{}}
	for name, want := range sel.metadata {
		sel.add(name, want)
	}
	for name, want := range c.grant.Filter {
		if m, ok := want.(map[string]any); ok && len(m) == 1 && m["$eq"] != nil {
			want = m["$eq"]
		}
		sel.add(name, want)
	}
	return sel, true
}

func (sel *threadSelection) add(name string, want any) {
	if len(sel.terms) < mostTerms {
		if t, ok := termOf(name, want); ok {
			sel.terms = append(sel.terms, t)
			return
		}
	}
	sel.rest = true
}

// find returns the threads that a search selects, newest first, at most so many, or all if that is 0; with
// count only their number. It is not ok where the index has no answer.
func (x *threadIndex) find(ctx context.Context, sel threadSelection, most int, count bool) (found []*foundThread, n int, ok bool, err error) {
	candidates, n, ok := x.candidates(ctx, sel, most, count)
	if !ok {
		return nil, 0, false, nil
	}
	for _, f := range candidates {
		if f.unsure {
			t, is, err := x.records.get(ctx, f.ID)
			if err != nil && !errors.Is(err, errUndecoded) {
				return nil, 0, true, err
			}
			if !is || err != nil || !sel.grant.admits(t.Metadata) || !contains(t.Metadata, sel.metadata) {
				continue
			}
			n++
		}
		if !count {
			found = append(found, f)
		}
		if len(found) > 0 && len(found) == most {
			break
		}
	}
	return found, n, true, nil
}

// candidates is find by terms alone. Those that are unsure are returned beside those that are
// wanted, also with count, and are not in the number.
func (x *threadIndex) candidates(ctx context.Context, sel threadSelection, most int, count bool) (found []*foundThread, n int, ok bool) {
	if !x.ready.Load() { // nobody waits until it is made
		return nil, 0, false
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.ready.Load() || !x.catchUp(context.WithoutCancel(ctx)) {
		return nil, 0, false
	}
	foreign := sel.grant.Filter == nil && x.stored > 0
	if _, named := sel.metadata["graph_id"]; named && foreign {
		return nil, 0, false // their graphs are in their checkpoints
	}
	least, lists := x.all, make([]*threadList, 0, len(sel.terms))
	for _, t := range sel.terms {
		l := x.have[t]
		if l == nil {
			l = &threadList{}
		}
		lists = append(lists, l)
		if l.live < least.live {
			least = l
		}
	}
	partial := x.partial
	if len(lists) == 0 {
		partial = &threadList{} // they are in all
	}
	if count && !sel.rest && partial.live == 0 && len(lists) <= 1 && len(sel.prefixes) == 0 && len(sel.without) == 0 && (foreign || x.stored == 0) {
		return nil, least.live, true
	}
	begins := func(id string) bool {
		return len(sel.prefixes) == 0 || slices.ContainsFunc(sel.prefixes, func(p string) bool { return strings.HasPrefix(id, p) })
	}
	for e := range newestFirst(least.inOrder(), partial.inOrder()) {
		unsure := sel.rest || e.partial && len(lists) > 0
		if e.gone || e.stored && (sel.grant.Filter != nil || sel.without[e.id]) || !begins(e.id) ||
			!e.partial && slices.ContainsFunc(lists, func(l *threadList) bool { return !slices.Contains(e.lists, l) }) {
			continue
		}
		if !unsure {
			n++
		}
		if !count || unsure {
			found = append(found, &foundThread{unsure: unsure, thread: thread{ID: e.id, Created: time.UnixMicro(e.created).UTC(), Stored: e.stored,
				Updated: time.UnixMicro(e.updated).UTC(), Run: e.run}, at: threadStatus{at: time.UnixMicro(max(e.updated, e.saved)).UTC()}})
		}
		if n > 0 && n == most {
			break
		}
	}
	return found, n, true
}

// findByIndex answers find or count from the index; ok is false if the index cannot. In the default
// order it stops after offset+limit+1 threads: one more than the page, which shows whether another page
// follows.
func (s *threadAPI) findByIndex(c *call, count bool) (found []*foundThread, n int, ok bool, err error) {
	if s.index == nil {
		return nil, 0, false, nil
	}
	sel, ok := s.index.selection(c)
	by := c.body.text("sort_by")
	if !ok || by == "updated_at" && s.withStore == nil {
		return nil, 0, false, nil
	}
	for h, err := range s.unfinished.all(c.ctx) {
		if err != nil {
			return nil, 0, true, err
		}
		sel.without[h.Thread] = true
	}
	most := 0
	if by == "" || by == "created_at" && !strings.EqualFold(c.body.text("sort_order"), "asc") {
		most = c.body.integer("offset", 0) + c.body.integer("limit", 10) + 1
	}
	if count {
		most = 0
	}
	if found, n, ok, err = s.index.find(c.ctx, sel, most, count); !ok || err != nil {
		return found, n, ok, err
	}
	for i := 0; i < len(found) && by == "updated_at" && err == nil; i++ {
		err = s.noteRun(c.ctx, found[i])
	}
	threadOrder.sort(c.body, found)
	return found, n, ok, err
}

// noteRun takes the newest run into account in when a thread of the index was changed last.
func (s *threadAPI) noteRun(ctx context.Context, f *foundThread) error {
	id, changed := s.withStore.Newest(f.ID)
	if id != "" && changed.IsZero() || f.Run > id { // it is not in memory, or was removed
		at, _, err := s.outline(ctx, f.thread, saver.ThreadInfo{UpdatedAt: f.at.at}, "")
		f.at.at = at.at
		return err
	}
	if changed.After(f.at.at) {
		f.at.at = changed
	}
	return nil
}
