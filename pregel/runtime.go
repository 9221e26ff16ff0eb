package pregel

import (
	"context"
	"fmt"

	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/internal/answer"
)

// ReadState returns the state of the graph whose task this is, as its node gets it from an edge where the
// superstep began: of the keys that the node reads the value of a single channel, or a map[string]any, or what
// the node's Mapper makes of it. It is for a node that got something else as its input, from a Send. A node
// that reads no keys, and a call of an entrypoint, get what the graph streams. A graph inside reads its own state, and never that
// of the graph around it. The error is ErrOutsideTask if the task has ended.
func ReadState(ctx context.Context) (any, error) {
	r, err := attemptFrom(ctx)
	if err != nil {
		return nil, fmt.Errorf("read state: %w", err)
	}
	g := r.step.Get().g
	n := r.task.node
	if n == nil || len(n.Reads.Names) == 0 {
		n = &Node{Reads: g.stream}
	}
	values, err := r.readWithOwn(n.Reads)
	if err != nil || n.Mapper == nil {
		return selected(n.Reads, values), err
	}
	return n.Mapper(selected(n.Reads, values))
}

// Sent returns the Sends whose tasks run in this superstep, in their order, and the place among them of
// the one that made this task; -1 if none did. The error is ErrOutsideTask if the task has ended.
func Sent(ctx context.Context) (all []Send, own int, err error) {
	r, err := attemptFrom(ctx)
	if err != nil {
		return nil, 0, fmt.Errorf("read Sends: %w", err)
	}
	err = r.out.whileOpen(func([]write) error {
		packets, _ := r.step.Get().sent().([]any)
		all = make([]Send, len(packets))
		for i, p := range packets {
			all[i], _ = sendOf(p) // a packet that is none makes no task
		}
		return nil
	})
	if err != nil {
		return nil, 0, fmt.Errorf("read Sends: %w", err)
	}
	if own = -1; r.task.path == nil {
		own = r.task.packet
	}
	return all, own, nil
}

// Task is the running task whose context this is. ok is false outside of one.
func Task(ctx context.Context) (info TaskInfo, ok bool) {
	r, err := attemptFrom(ctx)
	if err != nil {
		return TaskInfo{}, false
	}
	step := r.step.Get()
	info = step.taskInfo(r.task, r.attempt, r.begin)
	if s := step.run.Get().items; s != nil {
		info.Store = &taskStore{s, r}
	}
	return info, true
}

// AskOptions say more about a question.
type AskOptions struct {
	// ResponseSchema is a JSON Schema of the answer. It is stored and shown with the
	// question (Interrupt.ResponseSchema), so that a form can be made for whoever answers.
	// Answers are not checked against it; AskFor checks the type of an answer.
	ResponseSchema map[string]any
	// Check, if not nil, refuses an answer by returning an error. It may be called again with an
	// answer that it took before.
	Check func(answer any) error
}

// Ask interrupts the run with a question for whoever runs it. As long as there is no answer
// it returns an *InterruptError, which the node must return. When there is one, the node
// runs again from its start, and its questions get their answers in the order in which they
// are asked. Where the outermost graph has no saver, a question fails with ErrNoSaver: nobody could
// answer it. The question must be a value that can be stored. For an answer that
// AskOptions.Check refuses the error is an *AnswerError. If the node returns that, the run
// fails, and a Command with another answer answers the question. Answers to later questions are
// void then. A node that goes on all the same must not ask something else: that would get the
// answer of this question. The last of opts counts.
func Ask(ctx context.Context, question any, opts ...AskOptions) (answer any, err error) {
	return ask(ctx, question, func(any) error { return nil }, opts)
}

// AskAfter returns a context in which a question, a Sleep or a Receive waits, before it begins, until
// all of earlier are closed. It is for a node that does parts of its work side by side: its questions
// and its waits must come in the same order each time it runs, because their answers and ends do.
func AskAfter(ctx context.Context, earlier []chan struct{}) context.Context {
	if len(earlier) == 0 {
		return ctx
	}
	return context.WithValue(ctx, askAfterKey{}, earlier)
}

type askAfterKey struct{}

// inTurn waits until it is the turn of a question or a wait; see AskAfter.
func inTurn(ctx context.Context) error {
	earlier, _ := ctx.Value(askAfterKey{}).([]chan struct{})
	for _, done := range earlier {
		select {
		case <-done:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// ask is Ask with a check of the answer. An answer that accept refuses is not recorded as
// given, so that the question waits for another.
func ask(ctx context.Context, question any, accept func(answer any) error, opts []AskOptions) (any, error) {
	r, err := attemptFrom(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask: %w", err)
	}
	if err := inTurn(ctx); err != nil {
		return nil, err
	}
	check := func(answer any) error {
		err := accept(answer)
		if f := lastOf(opts).Check; f != nil && err == nil {
			err = f(answer)
		}
		return err
	}
	t := r.task
	v, open := t.pad.Take(t.ns, int(t.asked.Add(1)-1), check, func(taken []any) { r.out.write(chResume, taken) })
	if open == nil {
		return v, nil
	}
	if !r.step.Get().run.Get().canWait {
		return nil, fmt.Errorf("ask: %w", ErrNoSaver)
	}
	in := Interrupt{Value: question, ID: answer.ID(t.ns, open.Question)}
	if schema := lastOf(opts).ResponseSchema; schema != nil {
		in.ResponseSchema = schema
	}
	if open.Refused == nil {
		asked := &InterruptError{Interrupts: []Interrupt{in}}
		t.seesError("question", open.Question, asked)
		return nil, asked
	}
	run := r.step.Get().run.Get()
	run.refused.Add(append([]string{in.ID}, t.pad.Shown()...)...) // a thread of LangGraph knows it by the id of the first
	refused := &AnswerError{Interrupt: in.ID, Err: open.Refused, thread: run.thread}
	t.seesError("question", open.Question, refused)
	if open.Recorded {
		refused.again, refused.stale = &in, t.pad.Shown()
	}
	return nil, refused
}

// AskFor is Ask for an answer of type T. It refuses an answer of another type as
// AskOptions.Check does: the error is an *AnswerError.
func AskFor[T any](ctx context.Context, question any, opts ...AskOptions) (T, error) {
	var converted T
	_, err := ask(ctx, question, func(answer any) (err error) {
		converted, err = channel.Convert[T](answer)
		return err
	}, opts)
	if err != nil {
		var zero T
		return zero, err
	}
	return converted, nil
}

// Emit sends v to whoever streams in mode custom. It waits while they are far behind.
func Emit(ctx context.Context, v any) error {
	r, err := attemptFrom(ctx)
	if err != nil {
		return fmt.Errorf("emit: %w", err)
	}
	r.out.touch()
	watch := r.step.Get().audience
	if watch.custom.wants(ModeCustom) {
		parts := splitNS(r.task.ns)
		watch.custom.emit(Event{NS: parts[:len(parts)-1], Mode: ModeCustom, Data: v})
	}
	watch.queue.waitRoom(ctx)
	return ctx.Err()
}

// EmitTool sends a step of a tool call to whoever streams in mode tools. The node that runs the tools sends them;
// see package tool. It waits while they are far behind.
func EmitTool(ctx context.Context, e ToolEvent) error {
	r, err := attemptFrom(ctx)
	if err != nil {
		return fmt.Errorf("emit a step of a tool: %w", err)
	}
	r.out.touch()
	watch := r.step.Get().audience
	if watch.custom.wants(ModeTools) {
		watch.custom.emit(Event{NS: graphNS(r.task), Mode: ModeTools, Data: e})
	}
	watch.queue.waitRoom(ctx)
	return ctx.Err()
}

// Heartbeat tells an idle timeout that the task is making progress.
func Heartbeat(ctx context.Context) error {
	r, err := attemptFrom(ctx)
	if err != nil {
		return fmt.Errorf("heartbeat: %w", err)
	}
	r.out.beat()
	return nil
}
