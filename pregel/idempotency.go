package pregel

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/stele-go/stele/saver"
)

// IdempotencyKey is a key for a side effect of the running task, in the shape of a
// UUID: whoever is asked to do something, such as a payment service, is given the key
// and does it once, however often the task runs. A retry gets the same key, and so
// does the task when it runs again after an interrupt, a failure, a crash of the
// process, or a power cut: in every durability mode, because IdempotencyKey returns
// only when everything that the key rests on is durable. For that it waits for the
// saves under way, asks a saver that is a Coordinator to sync, and stores the checkpoint
// of an Exit run at once, which its history shows.
//
// name tells the effects of one task apart: the same name gives the same key, another
// name another one, wherever in the node and how often they are asked for. So two
// mails that one task sends need two names, such as "mail/" and the recipient.
//
// The key belongs to the task: to its thread, the checkpoint that its superstep starts
// from, and its place in it. It is another one for the next superstep, for each Send,
// for each call of a TaskFunc, for each call of a graph inside, on a copy of the
// thread, and for a run that begins with a checkpoint of its own, as a fork of an
// older one does. A run that answers a question at an older checkpoint again runs the
// old tasks, and gets the old keys. A graph inside that stores no checkpoints begins
// anew with the task around it: there the key is for the node's place in that graph,
// and the graph must take the same way again.
//
// Errors: ErrOutsideTask, ErrNoSaver for a graph that stores nothing, or what storing
// failed with; then there is no key, and nothing should be done.
func IdempotencyKey(ctx context.Context, name string) (string, error) {
	r, err := runFrom(ctx)
	if err != nil {
		return "", fmt.Errorf("idempotency key: %w", err)
	}
	r.att.touch()
	task, place := r.anchor()
	if task == nil {
		return "", fmt.Errorf("idempotency key: %w", ErrNoSaver)
	}
	if err := r.settle(ctx); err != nil {
		return "", fmt.Errorf("idempotency key: %w", err)
	}
	parts := append([]string{r.step.l.thread}, append(place, name)...)
	for i, p := range parts {
		parts[i] = strconv.Quote(p)
	}
	return uuid5(task.id, strings.Join(parts, ","))
}

// anchor is the nearest task around, or r's own, whose id is the same in every run:
// its graph stores checkpoints. place is where in the graphs inside of it r stands.
// It is nil if there is none.
func (r *taskRun) anchor() (t *task, place []string) {
	for {
		l := r.step.l
		switch {
		case l.saver != nil:
			return r.task, place
		case l.parent == nil:
			return nil, nil
		}
		nth := strings.TrimPrefix(l.ns, l.parent.task.ns)
		place = append([]string{nth, strconv.Itoa(r.step.step), r.task.pathStr, r.task.name}, place...)
		r = l.parent
	}
}

// settle returns when everything that r's task was made from is durable: the
// checkpoints of its graph and of those around, the outermost first, and the writes
// of a Command that steered the run.
func (r *taskRun) settle(ctx context.Context) error {
	var runs []*taskRun
	for x := r; x != nil; x = x.step.l.parent {
		runs = append(runs, x)
	}
	var sync func(context.Context) error
	for _, x := range slices.Backward(runs) {
		s := x.step
		if s.pipe == nil {
			continue
		}
		if s.l.exits() {
			if err := s.storeFirst(); err != nil {
				return err
			}
		}
		if err := s.pipe.flush(); err != nil {
			return err
		}
		if y, ok := s.l.saver.(saver.Coordinator); ok {
			sync = y.Sync
		}
	}
	if sync != nil {
		if err := sync(ctx); err != nil {
			return &PersistError{Op: "sync", Err: err}
		}
	}
	return ctx.Err()
}

// storeFirst asks the superstep's loop to store the checkpoint it starts from.
func (s *superstep) storeFirst() error {
	m := message{kind: msgStore, stored: make(chan error, 1)}
	if !s.tell(m) {
		return ErrOutsideTask
	}
	return <-m.stored
}

// storeNow stores the checkpoint of an Exit run that the superstep starts from, as at
// the run's end; the run goes on as if it had begun with it. Delta channels are
// stored whole, so that nothing that was kept back is needed to read them.
func (l *loop) storeNow(ctx context.Context) error {
	if l.cp.id == l.savedID {
		return nil
	}
	for _, w := range l.delta.exit {
		l.delta.forced[w.channel] = true
	}
	if err := l.storeCheckpoint(ctx, countersOf(l.md), true); err != nil {
		return err
	}
	l.savedID, l.from = l.cp.id, originNewest
	d := &l.delta
	d.initial, d.exit, d.commandExit, d.firstStep = l.place, nil, nil, nil
	clear(d.storedWrites)
	return nil
}
