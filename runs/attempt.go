package runs

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stele-go/stele/message"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/saver"
)

// invoke runs the graph of a run, from where the thread is.
//
// First it owns the thread, then it checks with the queue that its claim holds, and only then it relies
// on the thread's state. A worker that was stopped behind its claim may wake up when others have
// executed this run and the next ones. Its claim is void then, and it stores nothing. If the claim
// holds after the thread was owned, no other worker has continued the run before. A worker that claims
// it later cannot own the thread until this worker's lease is over, and then this worker is fenced.
func (w *Worker) invoke(ctx context.Context, j *job) (waiting bool, err error) {
	c := j.claim
	g := w.Graphs[c.Graph]
	if g == nil {
		return false, fmt.Errorf("%w: this worker has no graph %q", pregel.ErrInvalidGraph, c.Graph)
	}
	lease, err := w.Saver.Own(ctx, c.ThreadID, false)
	if err != nil {
		return false, persistError("own thread "+c.ThreadID, err)
	}
	defer lease.Release()
	answer := ForWorker(w.Queue).Holds(ctx, c)
	b, err := w.beginning(ctx, j)
	c = j.claim
	if unbegun := w.confirm(j, answer); unbegun != nil { // it may be errCancelled
		j.cancel(unbegun)
		return false, fmt.Errorf("begin the attempt: %w", unbegun)
	}
	if j.back = b.back; err == nil && j.back != nil {
		return false, nil
	}
	events := newRecorder(ctx, w.Queue, c, j.cancel, Event{Kind: KindAttempt, Data: text(w.Queue.Serializer(), c.Worker)})
	defer func() {
		if err != nil {
			events.add(Event{Kind: KindError, Data: failureData(w.Queue.Serializer(), err)})
		}
		var closed error
		if j.last, closed = events.close(); closed != nil { // it may be why the graph was ended
			err = closed
		}
	}()
	if err != nil {
		return false, err
	}
	if b.over {
		if !b.waiting {
			err = w.outputEvent(ctx, j, g)
		}
		return b.waiting, cmp.Or(err, w.again(ctx, g, c, events))
	}
	kin := children{w, c}
	// Whoever reads the run while it is executed has the same maps; a node may change those that it gets.
	c.Metadata, c.Configurable, c.Context = owned(c.Metadata), owned(c.Configurable), owned(c.Context)
	o := pregel.RunOptions{
		RunID: c.ID, Metadata: withRun(c), Configurable: c.Configurable, Tags: c.Tags, RecursionLimit: c.RecursionLimit,
		MaxConcurrency: c.MaxConcurrency,
		Durability:     c.Durability, InterruptBefore: c.InterruptBefore, InterruptAfter: c.InterruptAfter,
		Modes: c.Modes, Subgraphs: c.Subgraphs, Control: &j.control, Lease: lease,
		DeferSync: w.sharesLog(), Children: kin,
	}
	var spent *meter
	running := ctx
	if c.Tasks {
		spent, o.SubgraphTasks = &meter{}, true
		running = message.WithMeter(ctx, spent.add)
	}
	if c.Discard || b.other != "" && b.other != g.Name() {
		o.Unfinished = pregel.DiscardUnfinished
	}
	if c.Tasks && !slices.Contains(o.Modes, pregel.ModeTasks) {
		o.Modes = append(slices.Clone(o.Modes), pregel.ModeTasks)
	}
	if len(o.Modes) == 0 {
		o.Modes = []pregel.Mode{pregel.ModeUpdates}
	}
	if w.Context != nil {
		if o.Context, err = w.Context(c.Run); err != nil {
			return false, fmt.Errorf("context: %w", err)
		}
	} else if c.Context != nil {
		o.Context = c.Context
	}
	for ev, err := range g.Stream(running, b.at, b.input, o) {
		if err == nil {
			err = w.record(events, c, ev, spent)
		}
		if err != nil {
			return false, err
		}
	}
	info, err := w.info(ctx, c.ThreadID)
	if err == nil && info.Status != saver.StatusWaiting {
		err = w.outputEvent(ctx, j, g)
	}
	if err != nil || info.Status != saver.StatusWaiting {
		return false, err
	}
	return true, w.sleeps(ctx, j, g)
}

// never is when a run is due that only a signal wakes.
var never = time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)

// asleep begins the mark of a run that has slept: it has taken its input, also if the state of the thread is
// updated by hand before it wakes. The checkpoint that the thread had when it slept first follows. What the run
// stores behind that is told by its id, so the mark is written once. Earlier builds go on with it too; they
// wrote slept, or " at " and the checkpoint behind it, for a run that keeps its thread.
const asleep, slept = "asleep at ", "slept"

// sleptAt reports whether a mark says that its run has slept, and the checkpoint that the thread had then; ""
// is unknown.
func sleptAt(mark string) (at string, has bool) {
	for _, prefix := range []string{asleep, slept + " at ", slept} {
		if at, has = strings.CutPrefix(mark, prefix); has {
			return at, true
		}
	}
	return "", false
}

// isGone reports whether the thread is gone with which a claimed run is to go on: it has slept, or is a
// command. There is none, or another one with its id. That one does not have the checkpoint of the mark, does
// not come from it, and has nothing of the run. A history whose beginning was removed may have lost it, and
// counts as the same. The run must not take its input for that of a new thread: what it did would be done
// again.
func (w *Worker) isGone(ctx context.Context, c Claim, head *saver.Tuple) (bool, error) {
	at, had := sleptAt(c.Mark)
	if !had {
		at, _, _ = strings.Cut(c.Mark, "/") // see pendingMark
		had = at != c.Mark && at != ""
	}
	if !had || head == nil || at == "" || at == head.Config.CheckpointID || head.Metadata.RunID() == c.ID {
		return had && head == nil, nil
	}
	for place := head.Config.At(at); ; place = *head.Parent {
		found, err := w.Saver.GetTuple(ctx, place)
		switch {
		case err == nil && place.CheckpointID == at:
			return false, nil
		case err == nil:
			head = found
		case !errors.Is(err, saver.ErrNotFound):
			return false, persistError("load thread "+place.ThreadID, err)
		case place.CheckpointID != at:
			return false, nil // the beginning is not there
		}
		switch {
		case head.Parent == nil:
			return true, nil
		case head.Parent.CheckpointID == at:
			return false, nil
		}
	}
}

// sleepsUntil is when a run with these waits is due; it is at if none of them has an instant.
func sleepsUntil(waits []pregel.Wait, at time.Time) time.Time {
	if len(waits) > 0 && !waits[0].Until.IsZero() {
		return waits[0].Until
	}
	return at
}

// sleeps finds out whether the thread of a job waits for something that needs no answer. Then the run is
// given back until that is over. If it waits for an answer too, it lets the run pass that brings one.
func (w *Worker) sleeps(ctx context.Context, j *job, g *pregel.Graph) error {
	st, err := g.GetState(ctx, pregel.Thread(j.claim.ThreadID))
	if err != nil || len(st.Waits) == 0 {
		return err
	}
	o := Outcome{Status: Pending, Waiting: true, After: sleepsUntil(st.Waits, never), Yields: len(st.Interrupts) > 0}
	if !strings.HasPrefix(j.claim.Mark, asleep) {
		if err := w.Queue.Mark(ctx, j.claim, asleep+st.Address.CheckpointID); err != nil {
			return persistError("mark run "+j.claim.ID, err)
		}
	}
	rests := o.resting(j.claim)
	j.back = &rests
	return nil
}

// resting is the outcome of a claim whose run sleeps until o.After. Where the clock of the queue is ahead of this one, the run
// was claimed before that, and would be again at once. It is left alone for a while by the clock of the queue, and
// has no place at a worker meanwhile.
func (o Outcome) resting(c Claim) Outcome {
	if early := time.Until(o.After); early > 0 && !o.After.After(c.After) {
		o.After, o.Delay = time.Time{}, min(early, earlyDelay)
	}
	return o
}

// earlyDelay is the longest time after which a run is looked at again that the queue calls due and that still sleeps.
const earlyDelay = time.Minute

// confirm waits for the answer whether the claim of a job holds. It also notices a cancellation that was
// requested before the job was first renewed: its hint may have come before there was a job.
func (w *Worker) confirm(j *job, answer func() (Run, error)) error {
	r, err := answer()
	switch {
	case errors.Is(err, ErrFenced):
		return ErrFenced
	case err != nil:
		return persistError("read run "+j.claim.ID, err)
	case r.Cancel == "":
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	j.how = r.Cancel
	return errCancelled
}

// owned is m with maps and lists of its own.
func owned(m map[string]any) map[string]any {
	if m == nil {
		return nil
	}
	return ownedValue(m).(map[string]any)
}

func ownedValue(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			out[k] = ownedValue(e)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = ownedValue(e)
		}
		return out
	case []string: // such as a user's permissions, a list that the next request shares
		return slices.Clone(v)
	}
	return v
}

// record records an event of a run's graph, if the run keeps it. spent has the tokens of its tasks; nil if they are not noted.
func (w *Worker) record(events *recorder, c Claim, ev pregel.Event, spent *meter) error {
	if n, ok := noteOf(ev); ok && spent != nil {
		if n.Ended {
			n.Uses = spent.take(n.ID)
		}
		events.add(Event{Kind: KindTask, Namespace: ev.NS, Data: text(w.Queue.Serializer(), string(appendNote(make([]byte, 0, 128), n)))})
	}
	if len(c.Modes) == 0 || ev.Mode == pregel.ModeTasks && (!slices.Contains(c.Modes, pregel.ModeTasks) || len(ev.NS) > 0 && !c.Subgraphs) {
		return nil
	}
	data, err := eventData(w.Queue.Serializer(), ev)
	if err != nil {
		return fmt.Errorf("event of mode %s: %w", ev.Mode, err)
	}
	events.add(Event{Kind: Kind(ev.Mode), Namespace: ev.NS, Data: data})
	return nil
}

// again shows the values that an earlier attempt came to. Its worker may have died before it stored them.
func (w *Worker) again(ctx context.Context, g *pregel.Graph, c Claim, events *recorder) error {
	if !slices.Contains(c.Modes, pregel.ModeValues) {
		return nil
	}
	st, err := g.GetState(ctx, pregel.Thread(c.ThreadID))
	if err != nil {
		return err
	}
	data, err := eventData(w.Queue.Serializer(), pregel.Event{Mode: pregel.ModeValues, Data: st.Values, Interrupts: st.Interrupts})
	if err != nil {
		return fmt.Errorf("event of mode %s: %w", pregel.ModeValues, err)
	}
	events.add(Event{Kind: Kind(pregel.ModeValues), Data: data})
	return nil
}

// sharesLog reports whether saver and queue are in one log, so that storing the end of a run makes the
// graph's checkpoints durable.
func (w *Worker) sharesLog() bool {
	q, ok := w.Queue.(interface{ SharesLog(x any) bool })
	return ok && q.SharesLog(w.Saver)
}

// withRun returns the metadata of a run with its id and attempt added, so that events have them as
// well.
func withRun(c Claim) map[string]any {
	out := map[string]any{"run_id": c.ID, "run_attempt": c.Attempt}
	for k, v := range c.Metadata {
		if k != "run_id" && k != "run_attempt" {
			out[k] = v
		}
	}
	return out
}

// beginning says how an attempt begins.
type beginning struct {
	at    pregel.Address
	input any
	// other is the graph that left something on the thread; "" if nothing is left, or the
	// run goes on with it. A run of another graph cannot finish that.
	other string
	// back: the thread is another version's, and the run is given back.
	back *Outcome
	// over: an earlier attempt came to the end, and only that was not reported.
	over, waiting bool
}

// beginning finds out how far earlier attempts have come. The package documentation has the rule.
func (w *Worker) beginning(ctx context.Context, j *job) (b beginning, err error) {
	c := j.claim
	b.at = pregel.Thread(c.ThreadID)
	b.at.CheckpointID = c.CheckpointID
	if b.input, err = w.Queue.Serializer().Decode(c.Input); err != nil {
		return b, fmt.Errorf("%w: input: %w", pregel.ErrInvalidUpdate, err)
	}
	// Nobody can have begun it before the first claim. But a queue that does not share its log with
	// the saver may lose that claim with the power, while the saver keeps what came of it. The graph
	// itself notices input that its thread has taken from this run, unless a checkpoint is named.
	if c.Epoch == 1 && !isCommand(b.input) && (c.CheckpointID == "" || w.sharesLog()) {
		info, err := w.info(ctx, c.ThreadID)
		if b.other = info.Graph; err == nil {
			b.back, err = w.another(ctx, j, info, nil)
		}
		return b, err
	}
	head, info, err := w.thread(ctx, c.ThreadID)
	gone := false
	if err == nil {
		gone, err = w.isGone(ctx, c, head)
	}
	if gone {
		return b, fmt.Errorf("thread %q, with which run %s is to go on: %w", c.ThreadID, c.ID, saver.ErrThreadDeleted)
	}
	if err == nil {
		b.back, err = w.another(ctx, j, info, head)
		c = j.claim
	}
	if err != nil || b.back != nil {
		return b, err
	}
	own := head != nil && head.Metadata.RunID() == c.ID
	byHand := head != nil && head.Metadata.RunID() == ""
	at, hasSlept := sleptAt(c.Mark)
	took := own || hasSlept
	if hasSlept && at != "" && at != head.Config.CheckpointID && !own && !byHand { // another run has gone on
		b.over, b.waiting = true, info.Status == saver.StatusWaiting
		return b, nil
	}
	if isCommand(b.input) && !took {
		now, err := pendingMark(head)
		if err != nil {
			return b, err
		}
		if c.Mark == "" {
			return b, persistError("mark run "+c.ID, w.Queue.Mark(ctx, c, now))
		}
		took = c.Mark != now
	}
	if b.other = info.Graph; took {
		b.at, b.input, b.other = pregel.Thread(c.ThreadID), nil, ""
		if info.Status == saver.StatusWaiting {
			st, err := w.Graphs[c.Graph].GetState(ctx, b.at)
			if err != nil {
				return b, err
			}
			b.waiting = len(st.Waits) == 0 && !byHand // savers, who read no values, take a wait for a question
		}
		b.over = b.waiting || info.Status == saver.StatusDone
	}
	return b, nil
}

// thread returns the newest checkpoint of a thread, nil if it has none, and its status.
func (w *Worker) thread(ctx context.Context, threadID string) (*saver.Tuple, saver.ThreadInfo, error) {
	head, err := w.Saver.GetTuple(ctx, saver.Config{ThreadID: threadID})
	if errors.Is(err, saver.ErrNotFound) {
		return nil, saver.ThreadInfo{}, nil
	}
	if err != nil {
		return head, saver.ThreadInfo{}, persistError("load thread "+threadID, err)
	}
	info, err := w.info(ctx, threadID)
	return head, info, err
}

// info returns the saver's information about a thread.
func (w *Worker) info(ctx context.Context, threadID string) (saver.ThreadInfo, error) {
	info, _, err := saver.ThreadOf(ctx, w.Saver, threadID)
	return info, persistError("describe thread "+threadID, err)
}

// persistError is an error of a call of the worker's own to the queue or the saver: like those of the graph's calls,
// it is no failure of the run.
func persistError(op string, err error) error {
	if err == nil {
		return nil
	}
	return &pregel.PersistError{Op: op, Err: err}
}

func isCommand(input any) bool {
	switch input.(type) {
	case pregel.Command, *pregel.Command:
		return true
	}
	return false
}

// pendingMark returns a mark that changes when a command has been taken, even before a checkpoint is
// made: it depends on the thread's newest checkpoint, and on the pending writes there that are answers
// or belong to no task.
func pendingMark(head *saver.Tuple) (string, error) {
	sum := sha256.New()
	id := ""
	if head != nil {
		id = head.Config.CheckpointID
		for _, w := range head.PendingWrites {
			if w.TaskID != saver.NullTaskID && w.Channel != saver.ChannelResume {
				continue
			}
			typed, err := w.Value.Typed()
			if err != nil {
				return "", err
			}
			fmt.Fprintf(sum, "%q %d %q %q %x\n", w.TaskID, w.Index, w.Channel, typed.Kind, typed.Data)
		}
	}
	return id + "/" + hex.EncodeToString(sum.Sum(nil)[:8]), nil
}

// recorder stores events in order. It stores the graph's first event immediately, and then in batches:
// those that come within a millisecond, or while a batch is being stored. As long as the queue knows
// that nobody waits for events of the run, it stores them less often: a short run ends before. It
// leaves the last events to the call that ends the attempt.
type recorder struct {
	ctx    context.Context
	q      Queue
	c      Claim
	cancel context.CancelCauseFunc

	mu      sync.Mutex
	room    *sync.Cond // there is room for an event, or no more are accepted
	batch   []Event
	bytes   int         // of the data of batch
	patient bool        // nobody waits for events
	closed  bool        // nothing is stored any more
	first   *time.Timer // begins to store
	failed  error
	// The rest is nil as long as nothing is to be stored.
	due     *time.Timer   // when to store those of batch if nobody does; it is not set without any
	come    chan struct{} // capacity 1: there are events to store
	closing chan struct{}
	ended   chan struct{}
}

const (
	// recorderMost and recorderBytes bound the events, and their bytes, that wait to be stored; beyond
	// them the graph waits. They also bound how much one call stores.
	recorderMost  = 1000
	recorderBytes = 16 << 20
	// recorderPause is the time between two batches, and recorderPatience if nobody waits for them.
	recorderPause    = time.Millisecond
	recorderPatience = 20 * time.Millisecond
	// recorderMany is the number of events, or of KiB of events, from which they are stored without
	// waiting for recorderPatience.
	recorderMany = eventsInItem
	// recorderRetry is the time between two tries to store a batch.
	recorderRetry = 200 * time.Millisecond
)

// newRecorder begins with an event that is stored together with the graph's first one, or after
// recorderPause if somebody may wait for events.
func newRecorder(ctx context.Context, q Queue, c Claim, cancel context.CancelCauseFunc, begin Event) *recorder {
	r := &recorder{ctx: ctx, q: q, c: c, cancel: cancel, batch: append(make([]Event, 0, 16), begin), patient: true}
	r.room = sync.NewCond(&r.mu)
	r.mu.Lock()
	r.first = time.AfterFunc(recorderPatience, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.start()
	})
	r.mu.Unlock()
	ForWorker(q).WhenAsked(c, r.hurry)
	return r
}

// start begins to store events. The caller holds mu.
func (r *recorder) start() {
	if r.come != nil || r.closed {
		return
	}
	r.first.Stop()
	r.come, r.closing, r.ended = make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
	r.come <- struct{}{}
	r.due = time.NewTimer(recorderPatience)
	r.due.Stop()
	go r.run()
}

func (r *recorder) run() {
	defer close(r.ended)
	defer r.due.Stop()
	for {
		select {
		case <-r.come:
		case <-r.due.C:
		case <-r.closing:
			return
		}
		batch, patient := r.take()
		if len(batch) == 0 {
			continue
		}
		if err := r.store(batch); err != nil {
			r.fail(err)
			r.cancel(err)
			return
		}
		if !patient {
			_ = pause(context.Background(), r.closing, recorderPause)
		}
	}
}

// hurry ends the patience.
func (r *recorder) hurry() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.patient = false
	switch {
	case r.closed:
	case r.come == nil:
		r.first.Reset(recorderPause)
	default:
		r.due.Reset(recorderPause)
	}
}

// store stores a batch, and tries again for a while: a disk that is full may get room. A batch that
// may be stored already is not stored again, as its events would be there twice.
func (r *recorder) store(batch []Event) error {
	// The end of tasks is stored even when the run was cancelled.
	ctx, done := context.WithTimeout(context.WithoutCancel(r.ctx), r.q.LeaseTime())
	defer done()
	for {
		_, err := r.q.Append(ctx, r.c, batch)
		if err == nil || errors.Is(err, ErrFenced) || errors.Is(err, saver.ErrOutcomeUnknown) || refused(err) || r.ctx.Err() != nil || ctx.Err() != nil {
			return err
		}
		_ = pause(r.ctx, nil, recorderRetry)
	}
}

// refused reports whether err means that the queue will never store the events.
func refused(err error) bool {
	return errors.Is(err, saver.ErrTooLarge) || errors.Is(err, saver.ErrInvalid) || errors.Is(err, ErrInvalid)
}

// take removes and returns the events that wait to be stored. patient reports whether nobody waits for
// them.
func (r *recorder) take() (batch []Event, patient bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	batch = r.batch
	r.batch, r.bytes = nil, 0
	r.room.Broadcast()
	return batch, r.patient
}

// fail makes add and close return.
func (r *recorder) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed, r.batch = err, nil
	r.room.Broadcast()
}

// add records an event. It waits while there are too many.
func (r *recorder) add(ev Event) {
	r.mu.Lock()
	for (len(r.batch) >= recorderMost || r.bytes >= recorderBytes) && r.failed == nil {
		r.room.Wait()
	}
	if r.failed == nil {
		r.batch = append(r.batch, ev)
		r.bytes += len(ev.Data.Data)
	}
	later := r.patient && len(r.batch) < recorderMany && r.bytes < recorderMany<<10
	switch {
	case later && r.come != nil && len(r.batch) == 1:
		r.due.Reset(recorderPatience)
	case later:
	case r.come == nil:
		r.start()
	default:
		select {
		case r.come <- struct{}{}:
		default: // it is known
		}
	}
	r.mu.Unlock()
}

// close returns the events that are not stored.
func (r *recorder) close() ([]Event, error) {
	r.mu.Lock()
	r.closed = true
	r.first.Stop()
	started := r.come != nil
	r.mu.Unlock()
	if started {
		close(r.closing)
		<-r.ended
	}
	if r.failed != nil {
		return nil, &pregel.PersistError{Op: "store events", Err: r.failed}
	}
	return r.batch, nil
}
