package runs

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"time"

	"github.com/stele-go/stele/base/jsontext"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/layout"
	"github.com/stele-go/stele/saver/serde"
	"github.com/stele-go/stele/store"
)

// Items: how runs are stored, made durable, and read.

// storedRun is the item of a run, written with each change of it. Its Spec, which never changes, has
// an item of its own, which also has the run as it was submitted: until it changes, that is all there
// is of it. Seq is a number that its events reach at least.
type storedRun struct {
	Run
	Seq int64 `json:"seq,omitempty"`
	// Last is the number of the first event that is in the item of the run itself, 0 for none. Those of a
	// run that has ended may be: a short run has no other items of events.
	Last   int64 `json:"last,omitempty"`
	events any   // those in the item, as eventsIn reads them, unless the run is in memory
}

// Namespaces of the items. Events of a run have one of their own below.
var (
	runsSpace      = store.Namespace{"stele.runs", "runs"}
	specsSpace     = store.Namespace{"stele.runs", "specs"}
	eventsSpace    = store.Namespace{"stele.runs", "events"}
	schedulesSpace = store.Namespace{"stele.runs", "schedules"}
)

// change is the new state of a run, and the items to store for it.
type change struct {
	r      *localRun
	to     storedRun
	events []Event
	ops    []store.Op
	kin    []change // of the parent and the children of one that ends
}

// save stores the new state of a run, with numbered events, including the last one if it ends, and
// other items; then it changes the run in memory. The caller holds mu and, if there are events, the
// run's appending lock.
func (q *Local) save(ctx context.Context, r *localRun, to Run, events []Event, others ...store.Op) error {
	c, err := q.change(r, to, events)
	if err == nil {
		err = q.write(ctx, append(c.ops, others...)...)
	}
	if err != nil {
		return err
	}
	q.made(c)
	return nil
}

// ending is the context of the write that ends a claim. A cancelled run ends also on a full disk: who clears that
// deletes threads, and their runs end first. Its last events may be large, so the write is urgent without them alone.
func ending(ctx context.Context, r Run, o Outcome) context.Context {
	if r.Cancel != "" && len(o.Events) == 0 {
		ctx = layout.Urgent(ctx)
	}
	return ctx
}

// change returns what save stores.
func (q *Local) change(r *localRun, to Run, events []Event) (change, error) {
	stored := storedRun{Run: to, Seq: r.Seq + int64(len(events))}
	if to.Status.Ended() {
		status, err := q.opts.Serializer.Encode(string(to.Status))
		if err != nil {
			return change{}, err
		}
		at := to.Ended
		if n := len(events); n > 0 { // it is stored with them
			at = events[n-1].Time
		}
		stored.Seq++
		events = append(events, Event{Seq: stored.Seq, Attempt: to.Attempt, Kind: KindEnd, Data: status, Time: at})
	}
	var ops []store.Op
	var last []byte
	if to.Status.Ended() && fitsRun(events) {
		stored.Last = events[0].Seq
		last, _ = packEvents(events)
	} else {
		ops = eventOps(to.ID, events)
	}
	if r.Last > 0 { // the run continues: its events become an item like those before
		ops = append(ops, eventsOp(to.ID, r.Last, r.events))
	}
	item, err := appendRun(make([]byte, 0, 512), &stored)
	if err != nil {
		return change{}, err
	}
	op := textOp(runsSpace, to.ID, string(item))
	if stored.Last > 0 {
		op.Value[eventsField] = last
	}
	if r.ID == "" {
		spec, err := appendSpec(make([]byte, 0, 1024), &to.Spec)
		if err != nil {
			return change{}, err
		}
		op = textOp(specsSpace, to.ID, string(spec))
		op.Value[bornField] = string(item)
	}
	c := change{r: r, to: stored, events: events, ops: append(ops, op)}
	if to.Status.Ended() {
		c.kin, err = q.kin(to, false)
		for _, other := range c.kin {
			c.ops = append(c.ops, other.ops...)
		}
	}
	return c, err
}

// made changes the run in memory to the state that was written. The caller holds the locks of save.
func (q *Local) made(c change) {
	r, to := c.r, c.to
	if to.Epoch == r.Epoch || r.ID == "" {
		r.saved = q.writes.Load()
	}
	r.storedRun = to
	wasHeld := q.unreleased[to.ID]
	delete(q.unreleased, to.ID)
	r.keep(c.events)
	r.added = q.writes.Load()
	switch {
	case to.Status.Ended():
		q.drop(r)
		q.noteLast(to.Run)
		q.ends.Changed(to.ID)
	case (to.Status == Pending || wasHeld) && q.open[to.ID] == r:
		q.place(r)
	}
	for _, other := range c.kin {
		q.made(other)
	}
	q.Changed(to.ID)
	// Otherwise it was begun, or has ended and holds up nobody.
	if to.Status == Pending || to.Cancel != "" || to.Status != Running && q.threads[to.ThreadID] != nil {
		if to.Status == Pending || q.threads[to.ThreadID] != nil {
			q.withdrawAll() // another run may be the next
		}
		q.Changed("")
	}
}

// write writes items; sync makes them durable. It does not stop when ctx ends: memory would then differ
// from the store.
func (q *Local) write(ctx context.Context, ops ...store.Op) error {
	if err := ctx.Err(); err != nil || len(ops) == 0 {
		return err
	}
	_, err := q.items.Batch(saver.DeferSync(context.WithoutCancel(ctx)), ops...)
	if err == nil {
		q.writes.Add(1)
	}
	return err
}

// sync makes all writes up to number want durable. The caller does not hold mu.
func (q *Local) sync(ctx context.Context, want int64) error {
	if q.durable.Load() >= want {
		return nil
	}
	q.syncing.Lock()
	defer q.syncing.Unlock()
	if q.durable.Load() >= want {
		return nil
	}
	now := q.writes.Load()
	if err := q.items.Sync(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	q.durable.Store(now)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.unsettled = slices.DeleteFunc(q.unsettled, func(id string) bool { q.forget(id); return q.watched[id] == nil || q.watched[id].saved <= now })
	return nil
}

// synced makes the writes of a call durable, if err is nil.
func (q *Local) synced(ctx context.Context, err error) error {
	if err != nil {
		return err
	}
	return q.sync(ctx, q.writes.Load())
}

// Sync returns when everything that was stored before in the log of the queue is durable. Calls
// that come together share a sync.
func (q *Local) Sync(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return q.sync(ctx, q.writes.Add(1))
}

// Get implements Queue.
func (q *Local) Get(ctx context.Context, id string) (Run, error) {
	q.mu.Lock()
	r := q.inMemory(id)
	if r == nil {
		q.mu.Unlock()
		if err := q.items.Current(ctx); err != nil {
			return Run{}, err
		}
		q.mu.Lock()
		r = q.inMemory(id) // it may have been tried again meanwhile
	}
	if r == nil {
		defer q.mu.Unlock()
		stored, err := q.stored(ctx, id)
		return stored.Run, err
	}
	run, saved := r.Run, r.saved
	q.mu.Unlock()
	if saver.SyncDeferred(ctx) {
		return run, nil
	}
	return run, q.sync(ctx, saved)
}

func (q *Local) get(ctx context.Context, id string) (Run, error) {
	if r := q.inMemory(id); r != nil {
		return r.Run, nil
	}
	r, err := q.stored(ctx, id)
	return r.Run, err
}

// inMemory returns a run that has not ended, or that somebody watches; nil for others. The caller holds
// mu.
func (q *Local) inMemory(id string) *localRun {
	if r := q.open[id]; r != nil {
		return r
	}
	return q.watched[id]
}

// stored reads a run from the store, where it may have ended. With an UnreadableError it returns the
// fields that can be decoded. The caller holds mu: so a leader's lease, which can be long in coming, is not asked for. Who answers
// with what it returns asks for it before, with Current of the store.
func (q *Local) stored(ctx context.Context, id string) (storedRun, error) {
	ctx = store.WithoutLease(ctx)
	r, err := q.item(ctx, id)
	if err == nil || errors.Is(err, ErrUnreadable) {
		err = q.readSpec(ctx, &r, err)
	}
	return r, cmp.Or(err, q.lost[id]) // of one whose events cannot be decoded
}

// item reads the item of a run: the run without its Spec, and with the events that are in the item.
func (q *Local) item(ctx context.Context, id string) (r storedRun, err error) {
	if checkName("run", id) != nil {
		return r, ErrNotFound
	}
	item, err := getItem(ctx, q.items, runsSpace, id)
	if errors.Is(err, ErrNotFound) {
		if item, err = getItem(ctx, q.items, specsSpace, id); err == nil {
			item, err = born(item)
		}
	}
	if err == nil {
		r.events = item.Value[eventsField]
		err = r.decode(item)
	}
	r.ID = id
	return r, unreadable(id, err)
}

// decode reads the item of a run. With an UnreadableError, the fields that can be decoded are set.
func (r *storedRun) decode(item *store.Item) error {
	err := unreadable(item.Key, valueOf(item, r, &r.Spec))
	if r.ID = item.Key; r.After.IsZero() {
		r.After = r.Created
	}
	if err == nil {
		err = CheckStored(r.Run)
	}
	return err
}

// readSpec reads the Spec of a run, which never changes. Before 0.1.0 it was in the item of the run:
// then it gets an item of its own before the run changes. undecoded is the error of decoding the run's
// item. If it is not nil it is returned, whatever else fails.
func (q *Local) readSpec(ctx context.Context, r *storedRun, undecoded error) error {
	item, err := getItem(ctx, q.items, specsSpace, r.ID)
	return q.specOf(ctx, item, err, r, undecoded)
}

// specOf is readSpec with the item, or the error of reading it.
func (q *Local) specOf(ctx context.Context, item *store.Item, err error, r *storedRun, undecoded error) error {
	if err == nil {
		err = valueOf(item, &r.Spec, &r.Spec)
	}
	if undecoded != nil {
		return undecoded
	}
	if !errors.Is(err, ErrNotFound) || r.Graph == "" || q.follows != nil {
		return unreadable(r.ID, err)
	}
	op, err := putOp(specsSpace, r.ID, r.Spec)
	if err != nil {
		return err
	}
	return q.write(ctx, op)
}

// scanRuns yields the stored runs by their ids. With an UnreadableError it yields the fields that can
// be decoded, and then continues.
func (q *Local) scanRuns(ctx context.Context) iter.Seq2[storedRun, error] {
	return func(yield func(storedRun, error) bool) {
		specs, stop := iter.Pull2(q.scanItems(ctx, specsSpace))
		defer stop()
		items, end := iter.Pull2(q.scanItems(ctx, runsSpace))
		defer end()
		for spec, item := next(specs), next(items); spec.there || item.there; {
			if err := cmp.Or(spec.err, item.err); err != nil {
				yield(storedRun{}, err)
				return
			}
			var r storedRun
			var err, missing error
			at, of := item.item, spec.item
			switch {
			case !spec.there || item.there && at.Key < of.Key: // it was stored before 0.1.0
				r.ID, missing, item = at.Key, ErrNotFound, next(items)
			case !item.there || of.Key < at.Key: // it has not changed
				r.ID, spec = of.Key, next(specs)
				at, err = born(of)
			default:
				r.ID, spec, item = at.Key, next(specs), next(items)
			}
			if err == nil {
				err = r.decode(at)
			}
			err = q.specOf(ctx, of, missing, &r, unreadable(r.ID, err))
			if errors.Is(err, ErrNotFound) { // its Spec is lost
				continue
			}
			if !yield(r, err) || err != nil && !errors.Is(err, ErrUnreadable) {
				return
			}
		}
	}
}

// scanned is an item of a scan; there is false behind the last.
type scanned struct {
	item  *store.Item
	err   error
	there bool
}

func next(pull func() (*store.Item, error, bool)) scanned {
	item, err, there := pull()
	return scanned{item, err, there}
}

// scanItems yields the items of a namespace by key.
func (q *Local) scanItems(ctx context.Context, ns store.Namespace) iter.Seq2[*store.Item, error] {
	return func(yield func(*store.Item, error) bool) {
		for found, err := range q.items.Scan(ctx, store.Query{Prefix: ns, ByKey: true, NoRefresh: true}) {
			if err != nil {
				yield(nil, fmt.Errorf("%v: %w", ns, err))
				return
			}
			if !yield(&found.Item, nil) {
				return
			}
		}
	}
}

// An item has one field, the JSON of a value: Run and Schedule say how. Nothing searches
// for fields of their own, and to store them as such would convert each value twice. That of a run
// may have a second one, its last events, and that of a Spec has the JSON of the run as it
// was submitted. An item of events has only these; packEvents says how.
const (
	jsonField   = "json"
	eventsField = "events"
	bornField   = "run"
)

// born is the item of a run that has none of its own: the run as it was submitted, from the item of
// its Spec.
func born(spec *store.Item) (*store.Item, error) {
	text, ok := spec.Value[bornField]
	if !ok {
		return nil, fmt.Errorf("no run beside its Spec: %w", serde.ErrMalformed)
	}
	return &store.Item{Key: spec.Key, Value: map[string]any{jsonField: text}}, nil
}

// putOp stores an item for ever, whatever the default of the store is.
func putOp(ns store.Namespace, key string, v any) (store.PutOp, error) {
	text, err := json.Marshal(v)
	return textOp(ns, key, string(text)), err
}

func textOp(ns store.Namespace, key, text string) store.PutOp {
	return store.PutOp{Namespace: ns, Key: key, Value: map[string]any{jsonField: text}, TTL: -1, NoIndex: true}
}

// valueOf reads an item. s is the Spec in v; nil if there is none.
func valueOf(item *store.Item, v any, s *Spec) error {
	text, ok := item.Value[jsonField].(string)
	if !ok { // queues before 0.1.0 stored the fields themselves
		fields, err := json.Marshal(item.Value)
		if err != nil {
			return err
		}
		text = string(fields)
	}
	if s == nil {
		return json.Unmarshal([]byte(text), v)
	}
	return unmarshalExact([]byte(text), v, s)
}

func getItem(ctx context.Context, items *store.Local, ns store.Namespace, key string) (*store.Item, error) {
	item, err := items.Get(ctx, ns, key)
	if errors.Is(err, store.ErrNotFound) {
		return nil, ErrNotFound
	}
	return item, err
}

// unreadable is the error of reading a run: an UnreadableError if it is about what is stored of the
// run, and not about the store.
func unreadable(id string, err error) error {
	if errors.Is(err, ErrUnreadable) {
		return err
	}
	var syntax *json.SyntaxError
	var mistyped *json.UnmarshalTypeError
	if errors.As(err, &syntax) || errors.As(err, &mistyped) {
		return &UnreadableError{id, err}
	}
	for _, of := range []error{saver.ErrCorrupt, serde.ErrMalformed, serde.ErrDecodeLimit, serde.ErrUnknownKind, serde.ErrDecrypt, serde.ErrPlaintext} {
		if errors.Is(err, of) {
			return &UnreadableError{id, err}
		}
	}
	return err
}

// The functions below write what package json reads, in a fraction of the time that it takes to write it.
// Like its option omitempty they leave out what is empty.

// fields writes the fields of an object.
type fields struct {
	b   []byte
	err error
}

func (f *fields) name(name string) {
	if f.b[len(f.b)-1] != '{' {
		f.b = append(f.b, ',')
	}
	f.b = append(append(append(f.b, '"'), name...), '"', ':')
}

func (f *fields) text(name, s string) {
	if s != "" {
		f.name(name)
		f.b = jsontext.AppendString(f.b, s)
	}
}

func (f *fields) whole(name string, n int64) {
	if n != 0 {
		f.name(name)
		f.b = strconv.AppendInt(f.b, n, 10)
	}
}

func (f *fields) flag(name string, set bool) {
	if set {
		f.name(name)
		f.b = append(f.b, "true"...)
	}
}

func (f *fields) time(name string, t time.Time) {
	if t.IsZero() {
		return
	}
	f.name(name)
	f.b = append(f.b, '"')
	b, err := t.AppendText(f.b)
	if err != nil {
		f.err = err
		return
	}
	f.b = append(b, '"')
}

func (f *fields) typed(name string, t serde.Typed) {
	f.name(name)
	f.b = jsontext.AppendString(append(f.b, `{"Kind":`...), t.Kind)
	if t.Data == nil {
		f.b = append(f.b, `,"Data":null}`...)
		return
	}
	f.b = base64.StdEncoding.AppendEncode(append(f.b, `,"Data":"`...), t.Data)
	f.b = append(f.b, `"}`...)
}

func (f *fields) object(name string, m map[string]any) {
	if len(m) == 0 {
		return
	}
	f.name(name)
	b, ok := jsontext.Append(f.b, m, false)
	if f.b = b; !ok {
		f.value(m)
	}
}

// value writes a value by package json.
func (f *fields) value(v any) {
	text, err := json.Marshal(v)
	if err != nil {
		f.err = err
	}
	f.b = append(f.b, text...)
}

func texts[T ~string](f *fields, name string, list []T) {
	if len(list) == 0 {
		return
	}
	f.name(name)
	for i, s := range list {
		f.b = append(f.b, "[,"[min(i, 1)])
		f.b = jsontext.AppendString(f.b, string(s))
	}
	f.b = append(f.b, ']')
}

// appendNote appends the JSON of a TaskNote.
func appendNote(b []byte, n TaskNote) []byte {
	f := fields{b: append(b, '{')}
	f.text("id", n.ID)
	f.text("name", n.Name)
	f.flag("ended", n.Ended)
	f.whole("attempts", int64(n.Attempts))
	f.whole("took_ns", int64(n.Took))
	f.flag("failed", n.Failed)
	f.flag("waiting", n.Waiting)
	if len(n.Uses) > 0 {
		f.name("uses")
		f.value(n.Uses)
	}
	return append(f.b, '}')
}

// appendSpec appends the JSON of a Spec.
func appendSpec(b []byte, s *Spec) ([]byte, error) {
	f := fields{b: append(b, '{')}
	f.spec(s)
	return append(f.b, '}'), f.err
}

func (f *fields) spec(s *Spec) {
	f.text("thread_id", s.ThreadID)
	f.text("graph", s.Graph)
	f.typed("input", s.Input)
	f.text("checkpoint_id", s.CheckpointID)
	f.object("metadata", s.Metadata)
	f.object("configurable", s.Configurable)
	f.object("context", s.Context)
	texts(f, "tags", s.Tags)
	f.whole("recursion_limit", int64(s.RecursionLimit))
	f.whole("max_concurrency", int64(s.MaxConcurrency))
	f.text("durability", string(s.Durability))
	texts(f, "interrupt_before", s.InterruptBefore)
	texts(f, "interrupt_after", s.InterruptAfter)
	texts[pregel.Mode](f, "modes", s.Modes)
	f.flag("subgraphs", s.Subgraphs)
	f.flag("tasks", s.Tasks)
	f.text("multitask", string(s.Multitask))
	f.whole("priority", int64(s.Priority))
	f.whole("attempts", int64(s.Attempts))
	if len(s.Trace) > 0 {
		f.name("trace")
		f.value(s.Trace)
	}
	f.object("labels", s.Labels)
}

// appendRun appends the JSON of a run without its Spec and its ID, which is the key. After is left out
// if it is the time of creation.
func appendRun(b []byte, r *storedRun) ([]byte, error) {
	f := fields{b: append(b, '{')}
	f.text("key", r.Key)
	f.text("status", string(r.Status))
	f.whole("attempt", int64(r.Attempt))
	f.flag("waiting", r.Waiting)
	f.text("error", r.Error)
	f.text("cancel", string(r.Cancel))
	f.text("worker", r.Worker)
	f.whole("epoch", r.Epoch)
	f.text("mark", r.Mark)
	f.text("version", r.Version)
	f.flag("pinned", r.Pinned)
	f.text("parent", r.Parent)
	f.flag("detached", r.Detached)
	if !r.After.Equal(r.Created) {
		f.time("after", r.After)
	}
	f.time("created", r.Created)
	f.time("started", r.Started)
	f.time("ended", r.Ended)
	f.whole("seq", r.Seq)
	f.whole("last", r.Last)
	return append(f.b, '}'), f.err
}
