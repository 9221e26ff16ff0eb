package pregel

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/stele-go/stele/saver"
)

// IdempotencyKey returns a key for a side effect of the running task, in the shape of a UUID. Pass it
// to a service that must act only once, such as a payment service. The task gets the same key in a
// retry, and when it runs again after an interrupt, a failure, a crash or a power cut, in every
// durability mode. This holds because IdempotencyKey returns only when everything the key derives from
// is durable. It waits for the saves under way, syncs the saver, and stores the checkpoint of an Exit
// run immediately, which the history shows. If the saver keeps its log in object storage (disk.Options.Replica),
// that has it as well, so the key is the same though the machine is lost; disk.Replica.LocalKeys does without.
// A saver of your own around that one needs saver.EffectSyncer.
//
// name tells the side effects of one task apart. The same name gives the same key, wherever in the node
// and however often it is used. So a task that sends two mails needs two names, such as "mail/" and the
// recipient.
//
// A key belongs to one task: to its thread, the checkpoint its superstep starts from, and its place in
// the superstep. Another superstep, another Send, another call of a TaskFunc or of a graph inside, a
// copy of the thread, and a run that begins with a checkpoint of its own, such as a fork, all have
// other keys. A run that again answers a question at an old checkpoint runs the old tasks and gets the
// old keys. A graph inside that stores no checkpoints starts over with the task around it. There the
// key is for the node's place in that graph, and the graph must take the same path again.
//
// Errors are ErrOutsideTask, ErrNoSaver if the graph stores nothing, or the failure of a save. Then
// there is no key, and nothing should be done.
func IdempotencyKey(ctx context.Context, name string) (string, error) {
	r, err := attemptFrom(ctx)
	if err != nil {
		return "", fmt.Errorf("idempotency key: %w", err)
	}
	r.out.touch()
	_, key, err := r.effectKey(name)
	if err != nil {
		return "", fmt.Errorf("idempotency key: %w", err)
	}
	if err := r.settle(ctx, syncEffects); err != nil {
		return "", fmt.Errorf("idempotency key: %w", err)
	}
	return key, nil
}

// effectKey is the key of an effect of r's task, and the task that it derives from. It may be used when r has settled.
func (r *taskAttempt) effectKey(name string) (at *taskAttempt, key string, err error) {
	at, place := r.anchor()
	if at == nil {
		return nil, "", ErrNoSaver
	}
	parts := append([]string{r.step.Get().run.Get().thread}, append(place, name)...)
	for i, p := range parts {
		parts[i] = strconv.Quote(p)
	}
	key, err = uuid5(at.task.id, strings.Join(parts, ","))
	return at, key, err
}

// anchor returns the nearest task, from r's own outwards, whose id is the same in every run because its
// graph stores checkpoints; nil if there is none. place is the place of r in the graphs inside that
// task.
func (r *taskAttempt) anchor() (at *taskAttempt, place []string) {
	for {
		step := r.step.Get()
		run := step.run.Get()
		around := run.parent
		switch {
		case run.saver != nil:
			return r, place
		case around == nil:
			return nil, nil
		}
		nth := strings.TrimPrefix(run.ns, around.task.ns)
		place = append([]string{nth, strconv.Itoa(step.step), r.task.pathStr, r.task.name}, place...)
		r = around
	}
}

// syncEffects is Sync of a saver, and SyncEffects of one that has it: what an effect outside rests on must outlive more than
// what is done in the store itself.
func syncEffects(s saver.Saver, ctx context.Context) error {
	if e, ok := s.(saver.EffectSyncer); ok {
		return e.SyncEffects(ctx)
	}
	return s.Sync(ctx)
}

// settle returns when everything that r's task derives from is durable: the checkpoints of
// its graph and of those around, outermost first, the writes of a Command that steered the run,
// and the records of the calls that it runs in. sync is how the saver is synced.
func (r *taskAttempt) settle(ctx context.Context, sync func(saver.Saver, context.Context) error) error {
	var tasks []*taskAttempt
	for x := r; x != nil; {
		tasks = append(tasks, x)
		step := x.step.Get()
		x = step.run.Get().parent
	}
	var in saver.Saver
	for _, x := range slices.Backward(tasks) {
		s := x.step.Get()
		if s.pipe == nil {
			continue
		}
		run := s.run.Get()
		if run.exits() {
			if err := s.storeFirst(); err != nil {
				return err
			}
		}
		if err := x.recordCall(true); err != nil {
			return err
		}
		if err := s.pipe.flush(); err != nil {
			return err
		}
		in = run.saver
	}
	if in != nil {
		if err := sync(in, ctx); err != nil {
			return &PersistError{Op: "sync", Err: err}
		}
	}
	return ctx.Err()
}

// recordCall asks the superstep's loop to record the call that r runs in, if it does; see loop.recordCall.
func (r *taskAttempt) recordCall(now bool) error {
	step := r.step.Get()
	if run := step.run.Get(); r.task.call == nil || !run.recordsCalls() {
		return nil
	}
	return step.ask(request{kind: reqRecord, task: r.task, now: now, stored: make(chan error, 1)})
}

// storeFirst asks the superstep's loop to store the checkpoint it starts from.
func (s *stepView) storeFirst() error {
	return s.ask(request{kind: reqStore, stored: make(chan error, 1)})
}

// ask sends a request for a save, and returns its error.
func (s *stepView) ask(m request) error {
	if !s.tell(m) {
		return ErrOutsideTask
	}
	return <-m.stored
}
