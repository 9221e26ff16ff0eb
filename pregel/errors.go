package pregel

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"runtime/debug"
	"strings"
	"time"

	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/saver"
)

// Errors of the engine. Match with errors.Is.
var (
	// ErrInvalidGraph matches every GraphError.
	ErrInvalidGraph = errors.New("invalid graph")
	// ErrInvalidArgument matches every ArgumentError.
	ErrInvalidArgument = errors.New("invalid argument")
	// ErrInvalidUpdate matches every InvalidUpdateError and channel.UpdateError.
	ErrInvalidUpdate = channel.ErrInvalidUpdate
	// ErrNoSaver: the call needs a saver and the graph has none.
	ErrNoSaver = errors.New("the graph has no saver; set Options.Saver")
	// ErrNoCache: the call needs a cache and the graph has none.
	ErrNoCache = errors.New("no cache is set for this graph")
	// ErrEmptyInput: there is nothing to do. There is no input for the graph's channels,
	// the Command has no effect, or the input is nil and the thread has no checkpoint.
	ErrEmptyInput = errors.New("received no input")
	// ErrNoInterrupt: a Command has an answer, but no stored question waits, or the one it names was answered
	// before with something else, also in a graph inside. Exit keeps no answer to compare with. The text says
	// which case it is and what to do. Nothing was run or stored.
	ErrNoInterrupt = errors.New("nothing is waiting to be resumed")
	// ErrAmbiguousResume matches every AmbiguousResumeError.
	ErrAmbiguousResume = errors.New("several interrupts are pending")
	// ErrUnknownInterrupt matches every UnknownInterruptError.
	ErrUnknownInterrupt = errors.New("no such interrupt is pending")
	// ErrInterrupted matches every InterruptError.
	ErrInterrupted = errors.New("interrupted")
	// ErrRecursionLimit matches every RecursionError.
	ErrRecursionLimit = errors.New("recursion limit reached")
	// ErrDrained matches every DrainedError.
	ErrDrained = errors.New("drained")
	// ErrPersist matches every PersistError.
	ErrPersist = errors.New("the saver failed")
	// ErrConflict: another run owns the thread (a *saver.OwnedError), or moved its head
	// meanwhile (a *saver.ConflictError).
	ErrConflict = saver.ErrConflict
	// ErrWaiting is that of new input on a thread that waits, with RefuseWaiting of Options or RunOptions.
	ErrWaiting = errors.New("the thread waits for an answer or at a breakpoint")
	// ErrSleeping matches every SleepingError.
	ErrSleeping = errors.New("the thread sleeps")
	// ErrUnfinished matches every UnfinishedError.
	ErrUnfinished = errors.New("the thread is unfinished")
	// ErrGivenUp: all attempts at recovering a thread from one checkpoint are used up.
	// Invoke with nil still runs what is left, and DiscardUnfinished drops it.
	ErrGivenUp = errors.New("all attempts at recovery are used up")
	// ErrOtherVersion matches every OtherVersionError.
	ErrOtherVersion = errors.New("another version of the graph stored what this one does not know")
	// ErrUnknownNode matches every UnknownNodeError.
	ErrUnknownNode = errors.New("the graph does not have a node that is left to run")
	// ErrCallMismatch matches every CallMismatchError.
	ErrCallMismatch = errors.New("the body does not make the calls that it made before")
	// ErrNodeTimeout matches every NodeTimeoutError.
	ErrNodeTimeout = errors.New("node timed out")
	// ErrStepTimeout: a superstep took longer than Options.StepTimeout. What its finished
	// tasks wrote is kept.
	ErrStepTimeout = errors.New("superstep timed out")
	// ErrOutsideTask: the function needs the context of a running task.
	ErrOutsideTask = errors.New("called outside of a running task")
)

// GraphError says what is wrong with a graph. It matches ErrInvalidGraph.
type GraphError struct {
	Node    string // "" if it is about no node
	Channel string // "" if it is about no channel
	Field   string // of the state of a typed graph, as in Go; "" if it is about none
	Reason  string
}

// Error names node, channel and field.
func (e *GraphError) Error() string {
	var b strings.Builder
	b.WriteString("invalid graph")
	if e.Node != "" {
		fmt.Fprintf(&b, ": node %q", e.Node)
	}
	if e.Channel != "" {
		fmt.Fprintf(&b, ": channel %q", e.Channel)
	}
	if e.Field != "" {
		fmt.Fprintf(&b, ": field %s", e.Field)
	}
	return b.String() + ": " + e.Reason
}

// Is makes every GraphError match ErrInvalidGraph.
func (e *GraphError) Is(target error) bool { return target == ErrInvalidGraph }

// ArgumentError says which field of an Address or of options is wrong. It matches
// ErrInvalidArgument. Nothing was run or stored.
type ArgumentError struct{ Field, Reason string }

// Error names the field.
func (e *ArgumentError) Error() string { return "invalid argument: " + e.Field + ": " + e.Reason }

// Is makes every ArgumentError match ErrInvalidArgument.
func (e *ArgumentError) Is(target error) bool { return target == ErrInvalidArgument }

// InvalidUpdateError: an output, input or state update does not fit the graph.
// It matches ErrInvalidUpdate.
type InvalidUpdateError struct {
	Node   string // "" if it is about no node
	Reason string
	Err    error // underlying cause, may be nil
}

// Error names the node.
func (e *InvalidUpdateError) Error() string {
	s := "invalid update: "
	if e.Node != "" {
		s += fmt.Sprintf("node %q: ", e.Node)
	}
	s += e.Reason
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns the underlying cause.
func (e *InvalidUpdateError) Unwrap() error { return e.Err }

// Is makes every InvalidUpdateError match ErrInvalidUpdate.
func (e *InvalidUpdateError) Is(target error) bool { return target == ErrInvalidUpdate }

// TaskError is the failure of one task. Unwrap gives what the node returned.
type TaskError struct {
	Node   string
	TaskID string
	NS     string // the task's namespace
	Err    error
}

// Error names the node and the task.
func (e *TaskError) Error() string {
	if enc, ok := e.Err.(*EncodeError); ok && enc.Node == e.Node { //nolint:errorlint // it would name the node again
		return fmt.Sprintf("node %q (task %s): %v", e.Node, e.TaskID, &EncodeError{Channel: enc.Channel, Err: enc.Err})
	}
	return fmt.Sprintf("node %q (task %s): %v", e.Node, e.TaskID, e.Err)
}

// Unwrap returns what the node returned.
func (e *TaskError) Unwrap() error { return e.Err }

// PanicError is a panic of a node. It is caught so that the writes of the node's siblings
// are kept. LogError logs its Stack.
type PanicError struct {
	Value any
	Stack []byte
}

// LogError is err as attributes of a log: error, and stack if err wraps a PanicError.
func LogError(err error) slog.Attr {
	var p *PanicError
	if errors.As(err, &p) {
		return slog.Group("", slog.Any("error", err), slog.String("stack", string(p.Stack)))
	}
	return slog.Any("error", err)
}

// Error is the value of the panic, and the file and line where it was, on one line. Of a value that holds itself, or very much, it is the
// type: to print it would overflow the stack, which no process survives.
func (e *PanicError) Error() string {
	text := strings.Join(strings.FieldsFunc(e.text(), func(r rune) bool { return r == '\r' || r == '\n' }), "; ")
	if at := e.place(); at != "" {
		return text + " (" + at + ")"
	}
	return text
}

// place is the file, without its directories, and the line of the function that panicked; "" if the stack does
// not say. It has no directories, because clients may be shown it. What a checkpoint has of the error is without it.
func (e *PanicError) place() string {
	_, frames, _ := bytes.Cut(e.Stack, []byte("\npanic("))
	_, frames, _ = bytes.Cut(frames, []byte("\n")) // the rest of that line; then its place, and two lines for each caller
	lines := strings.Split(string(frames), "\n")
	for i := 1; i+1 < len(lines); i += 2 {
		if strings.HasPrefix(lines[i], "runtime.") {
			continue // that of an index out of range, or of a nil pointer
		}
		at, _, _ := strings.Cut(strings.TrimSpace(lines[i+1]), " ")
		return at[strings.LastIndexAny(at, "/\\")+1:]
	}
	return ""
}

// text is the value of the panic as text.
func (e *PanicError) text() string {
	switch e.Value.(type) {
	case error, fmt.Stringer: // says itself what it is, however much it holds
		return fmt.Sprintf("panic: %v", e.Value)
	}
	left := maxPanicValues
	if v := reflect.ValueOf(e.Value); v.IsValid() && !printable(reflect.Indirect(v), &left) {
		return fmt.Sprintf("panic: a %T", e.Value)
	}
	return fmt.Sprintf("panic: %v", e.Value)
}

// maxPanicValues is how many values that of a panic may hold to be printed.
const maxPanicValues = 10_000

// printable reports whether v holds no more than so many values that are left, and counts them.
// Pointers inside are printed as addresses.
func printable(v reflect.Value, left *int) bool {
	if *left--; *left < 0 {
		return false
	}
	switch v.Kind() {
	case reflect.Interface:
		return v.IsNil() || printable(v.Elem(), left)
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			if !printable(it.Key(), left) || !printable(it.Value(), left) {
				return false
			}
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			if !printable(v.Index(i), left) {
				return false
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if !printable(v.Field(i), left) {
				return false
			}
		}
	default: // holds no others
	}
	return true
}

// Unwrap returns the panic's value if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// InterruptError is returned by Ask when there is no answer yet, and by a graph inside when
// one of its tasks waits. The node must return it, wrapped or not. It matches
// ErrInterrupted.
type InterruptError struct{ Interrupts []Interrupt }

// Error says how many interrupts wait.
func (e *InterruptError) Error() string {
	return fmt.Sprintf("interrupted: %d waiting", len(e.Interrupts))
}

// Is makes every InterruptError match ErrInterrupted.
func (e *InterruptError) Is(target error) bool { return target == ErrInterrupted }

// ParentCommandError carries a Command to a graph further out. A node that gets one from a
// graph inside must return it.
type ParentCommandError struct{ Command Command }

// Error names the graph the command is for.
func (e *ParentCommandError) Error() string {
	return fmt.Sprintf("command for graph %q", e.Command.Graph)
}

// AmbiguousResumeError: a single answer was given while several interrupts wait.
// It matches ErrAmbiguousResume.
type AmbiguousResumeError struct{ Pending []string }

// Error lists the ids that wait.
func (e *AmbiguousResumeError) Error() string {
	return fmt.Sprintf("When there are multiple pending interrupts, you must specify the interrupt id when resuming: pending are %s",
		strings.Join(e.Pending, ", "))
}

// Is makes every AmbiguousResumeError match ErrAmbiguousResume.
func (e *AmbiguousResumeError) Is(target error) bool { return target == ErrAmbiguousResume }

// UnknownInterruptError: an answer names questions that nobody asked in this superstep,
// while others wait. It matches ErrUnknownInterrupt. Nothing was run or stored.
type UnknownInterruptError struct{ Unknown, Pending []string }

// Error lists both.
func (e *UnknownInterruptError) Error() string {
	if len(e.Unknown) == 0 {
		return fmt.Sprintf("unknown interrupts: the map of answers names no question; pending are %v", e.Pending)
	}
	return fmt.Sprintf("unknown interrupts %v; pending are %v", e.Unknown, e.Pending)
}

// Is makes every UnknownInterruptError match ErrUnknownInterrupt.
func (e *UnknownInterruptError) Is(target error) bool { return target == ErrUnknownInterrupt }

// AnswerError: an answer is not what its question takes. It is not recorded as given, so the
// question still waits. Err is a *channel.TypeError if AskFor refused the answer, or what
// AskOptions.Check returned.
type AnswerError struct {
	Interrupt string // the id of the question
	Err       error
	// again is the question, if an earlier run had recorded the answer: then it is no longer
	// stored, but the one behind it, that of stale.
	again *Interrupt
	stale []string
	// thread is that of the question: a node may pass on the error of another.
	thread string
}

// Error is what is wrong with the answer, for the person who gave it.
func (e *AnswerError) Error() string {
	why := e.Err.Error()
	if mistyped, ok := e.Err.(*channel.TypeError); ok { //nolint:errorlint // what is around another has said it
		why = mistyped.Plain()
	}
	return "the answer to a question is refused: " + why
}

// Unwrap returns the cause.
func (e *AnswerError) Unwrap() error { return e.Err }

// RecursionError: the graph did not end within the limit of supersteps. The last checkpoint
// is stored, and a run with nil goes on from there. It matches ErrRecursionLimit.
type RecursionError struct {
	Limit     int
	langGraph bool // the words are LangGraph's
}

// Error names the limit, and how to raise it.
func (e *RecursionError) Error() string {
	if !e.langGraph {
		return fmt.Sprintf("%v: the graph did not end within %d supersteps. If it is no endless loop, raise RecursionLimit (over HTTP recursion_limit) of the run",
			ErrRecursionLimit, e.Limit)
	}
	return fmt.Sprintf("Recursion limit of %d reached without hitting a stop condition. You can increase the limit by setting the recursion limit of the run (GRAPH_RECURSION_LIMIT)", e.Limit)
}

// Is makes every RecursionError match ErrRecursionLimit.
func (e *RecursionError) Is(target error) bool { return target == ErrRecursionLimit }

// DrainedError: the run stopped between supersteps because Control asked it to. Its
// progress is stored, and a run with nil goes on. It matches ErrDrained.
type DrainedError struct{ Reason string }

// Error gives the reason.
func (e *DrainedError) Error() string { return "drained: " + e.Reason }

// Is makes every DrainedError match ErrDrained.
func (e *DrainedError) Is(target error) bool { return target == ErrDrained }

// PersistError: a call to the saver failed, and the run with it. What was stored before is
// intact. It matches ErrPersist; Unwrap returns the saver's error.
type PersistError struct {
	Op  string // what was asked: "store checkpoint …", "store writes of node …", "load checkpoint …", "mint a version"
	Err error
}

// Error names what was asked of the saver.
func (e *PersistError) Error() string {
	op := e.Op
	if len(op) > mostOp { // it has a name that the saver refuses as too long
		op = strings.ToValidUTF8(op[:mostOp], "") + "…"
	}
	return fmt.Sprintf("%s: %v", op, e.Err)
}

// mostOp is how much of PersistError.Op its text has.
const mostOp = 1500

// Unwrap returns the saver's error.
func (e *PersistError) Unwrap() error { return e.Err }

// Is makes every PersistError match ErrPersist.
func (e *PersistError) Is(target error) bool { return target == ErrPersist }

// UnfinishedError: new input was not taken because an earlier run left the thread
// unfinished. It matches ErrUnfinished. Nothing of the input is stored.
//
// Under RefuseUnfinished the thread is unchanged. Under FinishFirst the earlier run was
// resumed and did not reach its end. Either it failed with Err, or it stopped and waits for
// Interrupts, or at a breakpoint if there are none. The next input is then taken, as on any
// thread that failed or waits. Some failures are not stored, such as the timeout of a
// superstep; after those the thread is still unfinished.
//
// An earlier run that cannot be resumed was not started. Then Graph names the graph that
// left it, or Err matches ErrUnknownNode because the graph was changed, or ErrGivenUp
// because it was tried too often. All new input is refused until a graph that can resumes
// the thread (Invoke with nil), or until what is left is given up (DiscardUnfinished).
type UnfinishedError struct {
	ThreadID string
	// Next are the nodes that are left to run, each once. It is empty if all ended and only
	// the checkpoint of their superstep is missing.
	Next []string
	// Graph is the graph that left them, if that is not this one and both have names.
	Graph string
	// Stopped: the earlier run was resumed, and now waits for Interrupts or at a
	// breakpoint.
	Stopped    bool
	Interrupts []Interrupt
	// Err is what the earlier run failed with, or why it could not be resumed. It is nil
	// if the run was not resumed, or stopped.
	Err error
}

// Error says what is left, and what came of finishing it.
func (e *UnfinishedError) Error() string {
	left := fmt.Sprintf("nodes %q of an earlier run are left", e.Next)
	if len(e.Next) == 0 {
		left = "the last superstep of an earlier run has no checkpoint yet"
	}
	s := fmt.Sprintf("thread %q: %v: %s; the input was not taken", e.ThreadID, ErrUnfinished, left)
	switch {
	case e.Graph != "":
		return fmt.Sprintf("%s: that was a run of graph %q, which has to finish it", s, e.Graph)
	case e.Err != nil:
		return s + ": finishing first: " + e.Err.Error()
	case e.Stopped && len(e.Interrupts) == 1:
		return s + ": finishing first: a question waits for an answer"
	case e.Stopped && len(e.Interrupts) > 0:
		return fmt.Sprintf("%s: finishing first: %d questions wait for an answer", s, len(e.Interrupts))
	case e.Stopped:
		return s + ": finishing first: stopped at a breakpoint"
	}
	return s
}

// Unwrap returns what the earlier run failed with.
func (e *UnfinishedError) Unwrap() error { return e.Err }

// Is makes every UnfinishedError match ErrUnfinished.
func (e *UnfinishedError) Is(target error) bool { return target == ErrUnfinished }

// UnknownNodeError: an earlier run left nodes that the graph no longer has, or whose names a Migration gives to others. It
// matches ErrUnknownNode. Nothing was run or stored, and a graph that has the nodes can resume the
// thread. To drop their work, give new input with DiscardUnfinished, or use UpdateState,
// which can also name the node to go on after. With Options.LangGraph missing nodes are
// skipped.
type UnknownNodeError struct {
	ThreadID string
	// Nodes are their names, each once. If an ended node has reached a join that the graph lacks though it has
	// all its nodes, it is "join:a+b:c".
	Nodes []string
}

// Error names the nodes.
func (e *UnknownNodeError) Error() string {
	return fmt.Sprintf("thread %q: an earlier run left nodes %q, which the graph does not have", e.ThreadID, e.Nodes)
}

// Is makes every UnknownNodeError match ErrUnknownNode.
func (e *UnknownNodeError) Is(target error) bool { return target == ErrUnknownNode }

// OtherVersionError: a program of another version has stored keys on a thread that this graph does not know, and
// would be gone with the next checkpoint. It matches ErrOtherVersion. It is for graphs whose authors name versions
// (Options.Version): usually this program is older, and was rolled back to. Nothing was run or stored. A Migration
// from that version says what becomes of the keys; one without functions drops them. So does OnUnknown, of a typed
// graph. A program of that version goes on as if nothing had been.
type OtherVersionError struct {
	ThreadID, Namespace, CheckpointID string
	Version, Own                      string   // that stored the thread, and of the graph
	Keys                              []string // as "zip", or "home.zip" within the value of another key
}

// Error names the thread, the versions and the keys, and says what to do.
func (e *OtherVersionError) Error() string {
	return fmt.Sprintf("thread %q, checkpoint %s of version %q: the keys %q are not known, and would be lost; %s", e.ThreadID, e.CheckpointID, e.Version,
		e.Keys, adviceOf(e.Version, e.Own))
}

// Is makes every OtherVersionError match ErrOtherVersion.
func (e *OtherVersionError) Is(target error) bool { return target == ErrOtherVersion }

// NodeTimeoutError: an attempt of a node took too long, and its writes were discarded. It
// matches ErrNodeTimeout. Default retry policies try again.
type NodeTimeoutError struct {
	Node        string
	Kind        string        // "run" or "idle"
	Timeout     time.Duration // the bound that was passed
	Elapsed     time.Duration
	RunTimeout  time.Duration // as configured; 0 is none
	IdleTimeout time.Duration
}

// Error names the node and the bound.
func (e *NodeTimeoutError) Error() string {
	return fmt.Sprintf("node %q: %s timeout of %v passed after %v", e.Node, e.Kind, e.Timeout, e.Elapsed)
}

// Is makes every NodeTimeoutError match ErrNodeTimeout.
func (e *NodeTimeoutError) Is(target error) bool { return target == ErrNodeTimeout }

// NodeCancelledError: a node returned context.Canceled although nobody cancelled it.
type NodeCancelledError struct {
	Node string
	Err  error
}

// Error names the node.
func (e *NodeCancelledError) Error() string {
	return fmt.Sprintf("node %q cancelled itself: %v", e.Node, e.Err)
}

// Unwrap returns what the node returned.
func (e *NodeCancelledError) Unwrap() error { return e.Err }

// SubgraphError: a namespace names no graph inside this one.
type SubgraphError struct{ Namespace string }

// Error names the namespace.
func (e *SubgraphError) Error() string { return fmt.Sprintf("Subgraph %s not found", e.Namespace) }

// EncodeError: a value cannot be stored. Err names the path inside the value.
type EncodeError struct {
	Node    string // who wrote it; "" if nobody in particular
	Channel string
	Err     error
}

// Error names node, channel and path.
func (e *EncodeError) Error() string {
	s := fmt.Sprintf("channel %q: ", e.Channel)
	if e.Channel == Start { // has the input, which nobody else writes
		s = "the input: "
	}
	if e.Node != "" {
		s = fmt.Sprintf("node %q: %s", e.Node, s)
	}
	return fmt.Sprint(s, e.Err)
}

// Unwrap returns the serializer's error.
func (e *EncodeError) Unwrap() error { return e.Err }

// StoredTypeError: a value that is stored for a thread cannot be read as what the graph's
// channel holds now, because the graph has changed or the value is damaged. Nothing was run
// or stored, and a graph with the old channel can go on. Err is a *channel.RestoreError.
type StoredTypeError struct {
	ThreadID, Namespace, CheckpointID string
	Channel                           string
	// Version is that of the program that stored it, "" if it is unknown, and Own that of the graph.
	Version, Own string
	// Through are the migrations that changed it since, with their functions.
	Through []string
	Err     error
}

// Error names the thread, the checkpoint, the channel, and the versions, and says what to do.
func (e *StoredTypeError) Error() string {
	text := fmt.Sprintf("thread %q, checkpoint %s", e.ThreadID, e.CheckpointID)
	if e.Version != "" {
		text += fmt.Sprintf(" of version %q", e.Version)
	}
	if len(e.Through) > 0 {
		text += ", after " + strings.Join(e.Through, " and ")
	}
	text += fmt.Sprintf(": %v", e.Err)
	if e.Version != e.Own && e.Version != "" && len(e.Through) == 0 {
		text += "; " + adviceOf(e.Version, e.Own)
	}
	return text
}

// adviceOf is what to do about a thread of a version that a graph of another one cannot go on with.
func adviceOf(stored, own string) string {
	return fmt.Sprintf("this program is version %q: give it a Migration from %q, or let a program of that version continue", own, stored)
}

// Unwrap returns the cause.
func (e *StoredTypeError) Unwrap() error { return e.Err }

// isBubble reports whether err is not a failure but a message to the graph.
func isBubble(err error) bool {
	var in *InterruptError
	var pc *ParentCommandError
	var dr *DrainedError
	return errors.As(err, &in) || errors.As(err, &pc) || errors.As(err, &dr)
}

// storedError is the error that a failed task left: the error itself, or one with the
// stored text.
func storedError(v any) error {
	if err, ok := v.(error); ok {
		return err
	}
	return errors.New(fmt.Sprint(v))
}

// ownError is what a node returned, without the wrappers of the graphs inside that it came
// through. LangGraph shows and stores it like this.
func ownError(err error) error {
	for {
		te, ok := err.(*TaskError) //nolint:errorlint // what a node wrapped itself stays
		if !ok {
			return err
		}
		err = te.Err
	}
}

// errorText is an error as it is stored.
func errorText(err error) string {
	err = ownError(err)
	var p *PanicError
	if errors.As(err, &p) {
		return p.text()
	}
	return err.Error()
}

// guard calls f and turns a panic into an error.
func guard(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = panicError(p)
		}
	}()
	return f()
}

func panicError(p any) error { return &PanicError{Value: p, Stack: debug.Stack()} }

// alsoFailed is the outcome of a run that ends with err, when storing failed with saveErr.
// An interrupt that is not stored did not happen.
func alsoFailed(err, saveErr error) error {
	switch {
	case saveErr == nil || errors.Is(err, saveErr):
		return err
	case err == nil || isBubble(err):
		return saveErr
	}
	return fmt.Errorf("%w; and %w", err, saveErr)
}
