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
	"sync"
	"sync/atomic"

	"github.com/stele-go/stele/saver/serde"
	"github.com/stele-go/stele/store"
)

// The signals to a thread that nobody has taken are items of the store, its inbox. Of a signal with a key, a
// mark stays when it is taken: another one with the key is dropped then, also if it was stored meanwhile.
// docs/adr/0026-waits-and-signals.md has what a crash at each place leaves.

// signalsSpace is the first label of the namespaces of inboxes.
const signalsSpace = "__stele_signals__"

// inboxOf is the namespace of a thread's inbox. A thread may have a name that is no label.
func inboxOf(thread string) store.Namespace {
	return store.Namespace{signalsSpace, base64.RawURLEncoding.EncodeToString([]byte(thread))}
}

// signal is one signal of an inbox, or one that was taken.
type signal struct {
	at    string // orders it among the signals of the thread, and names its item if it has no key
	key   string // hash of its key; "" if it has none
	name  string
	typed serde.Typed
}

func (s *signal) item() string {
	if s.key != "" {
		return "key " + s.key
	}
	return "at " + s.at
}

// taken is the item of the mark that a signal with a key leaves.
func (s *signal) taken() string { return "taken " + s.key }

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
	return s, s.at != "" && s.name != "" && isText && err == nil
}

// lastSignal is the time of the last signal that this process has stored, in microseconds.
var lastSignal atomic.Int64

// signalTime is the order of a signal that is sent now: behind all that this process sent.
func signalTime(micros int64) string {
	for {
		last := lastSignal.Load()
		if next := max(micros, last+1); lastSignal.CompareAndSwap(last, next) {
			return fmt.Sprintf("%020d %s", next, rand.Text()[:8])
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
	// of the signals that were there when a loop first asked; nil if none has. bound are the items of those that
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
		b.bound[s.item()] = true
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

// all returns what is in the inbox: signals, and marks of keys.
func (b *inbox) all(ctx context.Context) ([]store.Found, error) {
	return b.items.Search(ctx, store.Query{Prefix: inboxOf(b.thread), Limit: store.NoLimit, NoRefresh: true})
}

// read returns the signals, in order. The caller holds look.
func (b *inbox) read(ctx context.Context) ([]signal, error) {
	found, err := b.all(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the signals of thread %q: %w", b.thread, err)
	}
	marks := map[string]bool{}
	for _, it := range found {
		marks[it.Key] = true
	}
	var all []signal
	for _, it := range found {
		if s, ok := signalOf(it.Value); ok && it.Key == s.item() && !b.bound[it.Key] && !(s.key != "" && marks[s.taken()]) {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(x, y signal) int { return cmp.Compare(x.at, y.at) })
	return all, nil
}

// first is the first signal of a name; nil if there is none.
func (b *inbox) first(ctx context.Context, name string) (*signal, error) {
	b.look.Lock()
	defer b.look.Unlock()
	all, err := b.read(ctx)
	for _, s := range all {
		if s.name == name {
			return &s, err
		}
	}
	return nil, err
}

// put puts an item of the inbox, which neither expires with those of programs nor is embedded.
func (b *inbox) put(key string, value map[string]any) store.PutOp {
	return store.PutOp{Namespace: inboxOf(b.thread), Key: key, Value: value, TTL: -1, NoIndex: true}
}

// clear removes everything.
func (b *inbox) clear(ctx context.Context) error {
	found, err := b.all(ctx)
	if err != nil || len(found) == 0 {
		return err
	}
	ops := make([]store.Op, len(found))
	for i, it := range found {
		ops[i] = store.PutOp{Namespace: inboxOf(b.thread), Key: it.Key}
	}
	_, err = b.items.Batch(ctx, ops...)
	return err
}

// remove removes a signal that was taken.
func (b *inbox) remove(ctx context.Context, s *signal) error {
	ops := []store.Op{store.PutOp{Namespace: inboxOf(b.thread), Key: s.item()}}
	if s.key != "" {
		ops = append(ops, b.put(s.taken(), map[string]any{"thread": b.thread}))
	}
	_, err := b.items.Batch(ctx, ops...)
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
		ops = append(ops, b.put(s.item(), s.record()))
		if s.key != "" {
			ops = append(ops, store.PutOp{Namespace: inboxOf(b.thread), Key: s.taken()})
		}
	}
	_, err := b.items.Batch(ctx, ops...)
	return err
}

// send stores a signal, unless one with its key was sent before.
func (b *inbox) send(ctx context.Context, s *signal) error {
	if s.key != "" {
		for _, key := range []string{s.taken(), s.item()} {
			_, err := b.items.Get(ctx, inboxOf(b.thread), key)
			if err == nil || !errors.Is(err, store.ErrNotFound) {
				return err
			}
		}
	}
	_, err := b.items.Batch(ctx, b.put(s.item(), s.record()))
	return err
}

// has reports whether a signal of a name was there when the run first asked.
func (b *inbox) has(ctx context.Context, name string) (bool, error) {
	if b == nil {
		return false, nil
	}
	b.look.Lock()
	defer b.look.Unlock()
	if b.names == nil {
		all, err := b.read(ctx)
		if err != nil {
			return false, err
		}
		b.names = map[string]bool{}
		for _, s := range all {
			b.names[s.name] = true
		}
	}
	return b.names[name], nil
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
