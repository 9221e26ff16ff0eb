package pregel

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stele-go/stele/saver/layout"
	"github.com/stele-go/stele/saver/serde"
	"github.com/stele-go/stele/store"
)

// The signals to a thread that nobody has taken are items of the store, its inbox. Those of a name are a topic
// that the store appends to, so they are in the order in which it acknowledged them, and a key counts once.
// Those that a Receive refused lie in a topic of their own. Earlier releases ordered signals by the clock of who
// sent them; theirs come first, from the namespace that they have. docs/adr/0026-waits-and-signals.md has what a
// crash at each place leaves.

// refusedTopic is no label of a name.
const refusedTopic = "!"

// label is a text as a label, which may not be any text.
func label(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }

// inboxOf is the namespace of a thread's inbox, whose topics are below it.
func inboxOf(thread string) store.Namespace {
	labels, _ := layout.Inbox(thread)
	return labels
}

// formerInboxOf is where earlier releases put all signals to a thread, and a mark for each key that was used.
func formerInboxOf(thread string) store.Namespace {
	_, former := layout.Inbox(thread)
	return former
}

func (b *inbox) topic(label string) store.Namespace { return append(inboxOf(b.thread), label) }

// signal is one signal of an inbox, or one that was taken.
type signal struct {
	at    string // orders it among the signals of the thread
	key   string // hash of its key; "" if it has none
	name  string
	typed serde.Typed
}

// former reports whether an earlier release stored s: its place has a blank.
func (s *signal) former() bool { return strings.Contains(s.at, " ") }

// formerKey is the item of a signal of an earlier release.
func (s *signal) formerKey() string {
	if s.key != "" {
		return "key " + s.key
	}
	return "at " + s.at
}

// formerMark is the item of the mark that a signal of an earlier release leaves when it is taken.
func formerMark(key string) string { return "taken " + key }

func (s *signal) record() map[string]any {
	return map[string]any{"at": s.at, "key": s.key, "name": s.name, "kind": s.typed.Kind, "data": base64.StdEncoding.EncodeToString(s.typed.Data)}
}

// signalOf reads a record. ok is false for what another program has stored in its place.
func signalOf(v any) (s signal, ok bool) {
	record, _ := v.(map[string]any)
	s.at, _ = record["at"].(string)
	s.key, _ = record["key"].(string)
	s.name, _ = record["name"].(string)
	s.typed.Kind, _ = record["kind"].(string)
	text, isText := record["data"].(string)
	data, err := base64.StdEncoding.DecodeString(text)
	s.typed.Data = data
	return s, s.name != "" && isText && err == nil
}

// lastSignal is the time of the last signal that this process has stored, in microseconds.
var lastSignal atomic.Int64

// signalTime is the order of a signal in a store that gives none: behind all that this process sent.
func signalTime(micros int64) string {
	for {
		last := lastSignal.Load()
		if next := max(micros, last+1); lastSignal.CompareAndSwap(last, next) {
			return store.AppendKey(next) + "-" + rand.Text()[:8]
		}
	}
}

func keyHash(key string) string {
	if key == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}

// inbox are the signals of a thread, as a run of it and all graphs inside see them.
type inbox struct {
	items  store.Store
	thread string

	// taking is held while a task takes a signal. It may wait for loops, which lock only look.
	taking sync.Mutex
	// look guards what follows. waiting is the wait for each name that is not over, by its id. names are those
	// of which there was a signal when a loop first asked; nil if none has. bound are the places of those that
	// the superstep has taken: a process that died as it put them back has left them here too.
	look    sync.Mutex
	waiting map[string]string
	names   map[string]bool
	bound   map[string]bool
}

// hide notes that a superstep has taken signals.
func (b *inbox) hide(w *waitsReached) {
	if b == nil || len(w.bound) == 0 {
		return
	}
	b.look.Lock()
	defer b.look.Unlock()
	if b.bound == nil {
		b.bound = map[string]bool{}
	}
	for _, s := range w.signals() {
		b.bound[s.at] = true
	}
}

// await notes that a wait is for a name. It returns false if another one is.
func (b *inbox) await(name, id string) bool {
	b.look.Lock()
	defer b.look.Unlock()
	if other := b.waiting[name]; other != "" && other != id {
		return false
	}
	b.waiting[name] = id
	return true
}

// took notes that the wait for a name is over.
func (b *inbox) took(name string) {
	b.look.Lock()
	defer b.look.Unlock()
	delete(b.waiting, name)
}

// former are the signals of earlier releases in what was found in their namespace, in order. The caller holds look.
func (b *inbox) former(found []store.Found) (list []*signal) {
	marks := map[string]bool{}
	for _, it := range found {
		marks[it.Key] = true
	}
	for _, it := range found {
		s, ok := signalOf(it.Value)
		if ok && it.Key == s.formerKey() && !b.bound[s.at] && !(s.key != "" && marks[formerMark(s.key)]) {
			list = append(list, &s)
		}
	}
	slices.SortFunc(list, func(x, y *signal) int { return cmp.Compare(x.at, y.at) })
	return list
}

// allFormer is the query for what earlier releases have stored.
func (b *inbox) allFormer() store.Query {
	return store.Query{Prefix: formerInboxOf(b.thread), Limit: store.NoLimit, NoRefresh: true}
}

// head is the query for the first signals of a topic: one more than may be hidden. The caller holds look.
func (b *inbox) head(topic string) store.Query {
	return store.Query{Prefix: b.topic(topic), Limit: 1 + len(b.bound), ByKey: true, NoRefresh: true}
}

// visible is the first of signals that were found which no superstep has taken; nil if there is none. The caller
// holds look.
func (b *inbox) visible(found []store.Found) *signal {
	for _, it := range found {
		if s, ok := signalOf(it.Value); ok && !b.bound[it.Key] {
			s.at = it.Key
			return &s
		}
	}
	return nil
}

// first is the first signal of a name; nil if there is none.
func (b *inbox) first(ctx context.Context, name string) (*signal, error) {
	b.look.Lock()
	defer b.look.Unlock()
	return b.find(ctx, name)
}

// find is first. It reads no other signal. The caller holds look.
func (b *inbox) find(ctx context.Context, name string) (*signal, error) {
	found, err := b.items.Batch(ctx, b.allFormer(), b.head(label(name)))
	if err != nil {
		return nil, fmt.Errorf("read the signals of thread %q: %w", b.thread, err)
	}
	for _, s := range b.former(found[0].Found) {
		if s.name == name {
			return s, nil
		}
	}
	return b.visible(found[1].Found), nil
}

// has reports whether a signal of a name was there when the run first asked. It reads no signal.
func (b *inbox) has(ctx context.Context, name string) (bool, error) {
	if b == nil {
		return false, nil
	}
	b.look.Lock()
	defer b.look.Unlock()
	if b.names == nil {
		path := inboxOf(b.thread)
		topics := store.NamespaceQuery{Match: []store.Match{{Kind: store.MatchPrefix, Path: path}}, Limit: store.NoLimit}
		found, err := b.items.Batch(ctx, b.allFormer(), topics)
		if err != nil {
			return false, fmt.Errorf("read the signals of thread %q: %w", b.thread, err)
		}
		names := map[string]bool{}
		for _, ns := range found[1].Namespaces {
			names[ns[len(ns)-1]] = len(ns) > len(path)
		}
		for _, s := range b.former(found[0].Found) {
			names[label(s.name)] = true
		}
		b.names = names
	}
	if !b.names[label(name)] || len(b.bound) == 0 {
		return b.names[label(name)], nil
	}
	s, err := b.find(ctx, name)
	return s != nil, err
}

// sentSignal is a signal with the time at which the store took it.
type sentSignal struct {
	signal
	sent time.Time
}

// pending are the signals that nobody has taken, at most so many, 0 for all, by name and in order. It reads no more
// than it returns, beside those of earlier releases.
func (b *inbox) pending(ctx context.Context, most int) (list []sentSignal, err error) {
	path := inboxOf(b.thread)
	topics := store.NamespaceQuery{Match: []store.Match{{Kind: store.MatchPrefix, Path: path}}, Limit: store.NoLimit}
	found, err := b.items.Batch(ctx, b.allFormer(), topics)
	if err != nil {
		return nil, err
	}
	sent := map[string]time.Time{}
	for _, it := range found[0].Found {
		sent[it.Key] = it.CreatedAt
	}
	for _, s := range b.former(found[0].Found) {
		list = append(list, sentSignal{*s, sent[s.formerKey()]})
	}
	for _, ns := range found[1].Namespaces {
		topic := ns[len(ns)-1]
		if len(ns) == len(path) || topic == refusedTopic {
			continue // the marks of keys, and what was set aside
		}
		q := store.Query{Prefix: ns, Limit: store.NoLimit, ByKey: true, NoRefresh: true}
		if most > 0 {
			q.Limit = most - len(list)
		}
		if q.Limit <= 0 {
			break
		}
		items, err := b.items.Search(ctx, q)
		if err != nil {
			return nil, err
		}
		for _, it := range items {
			if s, ok := signalOf(it.Value); ok {
				s.at = it.Key
				list = append(list, sentSignal{s, it.CreatedAt})
			}
		}
	}
	if most > 0 {
		list = list[:min(most, len(list))]
	}
	slices.SortStableFunc(list, func(x, y sentSignal) int { return cmp.Compare(x.name, y.name) })
	return list, nil
}

// last is when the last signal was sent; zero if none was.
func (b *inbox) last(ctx context.Context) (at time.Time, err error) {
	if _, ordered := b.items.(store.Appender); ordered {
		item, err := b.items.Get(ctx, inboxOf(b.thread), store.AppendLast, store.NoRefresh())
		if err != nil {
			if errors.Is(err, store.ErrNotFound) {
				err = nil
			}
			return at, err
		}
		return item.UpdatedAt, nil
	}
	waiting, err := b.pending(ctx, 0)
	for _, s := range waiting {
		if s.sent.After(at) {
			at = s.sent
		}
	}
	return at, err
}

// put puts an item of the inbox, which neither expires with those of programs nor is embedded.
func (b *inbox) put(ns store.Namespace, key string, value map[string]any) store.PutOp {
	return store.PutOp{Namespace: ns, Key: key, Value: value, TTL: -1, NoIndex: true}
}

// clear removes everything.
func (b *inbox) clear(ctx context.Context) error {
	for _, ns := range []store.Namespace{formerInboxOf(b.thread), inboxOf(b.thread)} {
		found, err := b.items.Search(ctx, store.Query{Prefix: ns, Limit: store.NoLimit, NoRefresh: true})
		if err != nil {
			return err
		}
		ops := make([]store.Op, len(found))
		for i, it := range found {
			ops[i] = store.PutOp{Namespace: it.Namespace, Key: it.Key}
		}
		if err := store.Batched(b.items.Batch).InBatches(ctx, ops); err != nil {
			return err
		}
	}
	return nil
}

// removal removes a signal that was taken.
func (b *inbox) removal(s *signal) []store.Op {
	if !s.former() {
		return []store.Op{store.PutOp{Namespace: b.topic(label(s.name)), Key: s.at}}
	}
	ops := []store.Op{store.PutOp{Namespace: formerInboxOf(b.thread), Key: s.formerKey()}}
	if s.key != "" {
		ops = append(ops, b.put(formerInboxOf(b.thread), formerMark(s.key), map[string]any{"thread": b.thread}))
	}
	return ops
}

func (b *inbox) remove(ctx context.Context, s *signal) error {
	_, err := b.items.Batch(ctx, b.removal(s)...)
	return err
}

// refuse sets a signal aside that no Receive can take.
func (b *inbox) refuse(ctx context.Context, s *signal, why error) error {
	record := s.record()
	record["error"] = why.Error()
	_, err := b.items.Batch(ctx, append(b.removal(s), b.put(b.topic(refusedTopic), s.at, record))...)
	return err
}

// putBack puts signals that were taken back to their places.
func (b *inbox) putBack(ctx context.Context, taken []signal) error {
	if len(taken) == 0 {
		return nil
	}
	b.look.Lock()
	b.bound = nil
	b.look.Unlock()
	var ops []store.Op
	for _, s := range taken {
		if !s.former() {
			ops = append(ops, b.put(b.topic(label(s.name)), s.at, s.record()))
			continue
		}
		ops = append(ops, b.put(formerInboxOf(b.thread), s.formerKey(), s.record()))
		if s.key != "" {
			ops = append(ops, store.PutOp{Namespace: formerInboxOf(b.thread), Key: formerMark(s.key)})
		}
	}
	_, err := b.items.Batch(ctx, ops...)
	return err
}

// send stores a signal behind all others, unless one with its key was sent before. A store that is no Appender
// orders signals by the clock of who sends them; micros is its time.
func (b *inbox) send(ctx context.Context, s *signal, micros int64) error {
	mark := "once " + s.key
	if s.key != "" {
		seen, err := b.items.Batch(ctx, store.GetOp{Namespace: formerInboxOf(b.thread), Key: formerMark(s.key)},
			store.GetOp{Namespace: formerInboxOf(b.thread), Key: s.formerKey()}, store.GetOp{Namespace: inboxOf(b.thread), Key: mark})
		if err != nil || slices.ContainsFunc(seen, func(r store.Result) bool { return r.Item != nil }) {
			return err
		}
	}
	if a, ok := b.items.(store.Appender); ok {
		return a.Append(ctx, inboxOf(b.thread), label(s.name), s.key, s.record())
	}
	ops := []store.Op{b.put(b.topic(label(s.name)), signalTime(micros), s.record())}
	if s.key != "" {
		ops = append(ops, b.put(inboxOf(b.thread), mark, map[string]any{}))
	}
	_, err := b.items.Batch(ctx, ops...)
	return err
}

// inboxFor is the inbox of a thread of g; nil if it has no store.
func (g *Graph) inboxFor(thread string) *inbox {
	if g.opts.Store == nil || thread == "" {
		return nil
	}
	return &inbox{items: g.opts.Store, thread: thread, waiting: map[string]string{}}
}

// isReady reports whether a wait is over, or its signal is in the inbox.
func (g *Graph) isReady(ctx context.Context, b *inbox, w Wait) (bool, error) {
	if w.isOver(g.env.Now().UTC()) {
		return true, nil
	}
	if w.Signal == "" {
		return false, nil
	}
	return b.has(ctx, w.Signal)
}

// isReady reports whether a task that waits is to run for the wait. Without a queue nobody knows of children.
func (r *runConfig) isReady(ctx context.Context, w Wait) (bool, error) {
	if w.Child == "" || r.children == nil || w.isOver(r.now()) {
		return r.g.isReady(ctx, r.inbox, w)
	}
	end, err := r.childEnd(ctx, w.Child)
	return end != nil, err
}

// anyReady reports whether one of a thread's waits is over, or its signal was sent, or taken.
func (g *Graph) anyReady(ctx context.Context, thread string, waits []Wait, reached *waitsReached) (bool, error) {
	b := g.inboxFor(thread)
	b.hide(reached)
	for _, w := range waits {
		if reached.over[w.ID] {
			return true, nil
		}
		if ready, err := g.isReady(ctx, b, w); ready || err != nil {
			return ready, err
		}
	}
	return false, nil
}
