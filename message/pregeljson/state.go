package pregeljson

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/stele-go/stele/pregel"
)

// ThreadState is the state of a thread at one checkpoint.
type ThreadState struct {
	Values             any            `json:"values"`
	Next               []string       `json:"next"`
	Tasks              []Task         `json:"tasks"`
	Metadata           map[string]any `json:"metadata"`
	CreatedAt          *string        `json:"created_at"`
	Checkpoint         *Checkpoint    `json:"checkpoint"`
	ParentCheckpoint   *Checkpoint    `json:"parent_checkpoint"`
	Interrupts         []any          `json:"interrupts"`
	CheckpointID       *string        `json:"checkpoint_id"`
	ParentCheckpointID *string        `json:"parent_checkpoint_id"`
	// Exposed is stele's own: see pregel.Expose.
	Exposed any `json:"stele_exposed,omitempty"`
}

// Task is a task of a ThreadState.
type Task struct {
	ID         string       `json:"id"`
	Name       string       `json:"name"`
	Path       pregel.Path  `json:"path"`
	Error      any          `json:"error"`
	Interrupts []any        `json:"interrupts"`
	Checkpoint *Checkpoint  `json:"checkpoint"`
	State      *ThreadState `json:"state"`
	Result     any          `json:"result"`
}

// Checkpoint says where a checkpoint is.
type Checkpoint struct {
	CheckpointID  string            `json:"checkpoint_id,omitempty"`
	ThreadID      string            `json:"thread_id"`
	CheckpointNS  string            `json:"checkpoint_ns"`
	CheckpointMap map[string]string `json:"checkpoint_map,omitempty"`
}

// CheckpointOf is an address as clients see it.
func CheckpointOf(a pregel.Address) *Checkpoint {
	return &Checkpoint{CheckpointID: a.CheckpointID, ThreadID: a.ThreadID, CheckpointNS: a.Namespace, CheckpointMap: a.CheckpointMap}
}

// State is a snapshot as clients see it. The error is that of Marshal, for a value that JSON
// cannot hold.
func State(s *pregel.StateSnapshot) (*ThreadState, error) {
	values, err := plain(s.Values, 0)
	if err != nil {
		return nil, err
	}
	if values == nil {
		values = map[string]any{}
	}
	st := &ThreadState{Values: values, Next: s.Next, Tasks: make([]Task, len(s.Tasks))}
	if st.Next == nil {
		st.Next = []string{}
	}
	if st.Interrupts, err = questions(s.Interrupts); err != nil {
		return nil, err
	}
	if s.Exposed != nil {
		if st.Exposed, err = plain(s.Exposed, 0); err != nil {
			return nil, err
		}
	}
	if s.CreatedAt != "" {
		st.CreatedAt = &s.CreatedAt
		metadata, err := plain(map[string]any(s.Metadata), 0)
		if err != nil {
			return nil, err
		}
		st.Metadata = metadata.(map[string]any)
	}
	if s.Address.CheckpointID != "" {
		st.Checkpoint, st.CheckpointID = CheckpointOf(s.Address), &s.Address.CheckpointID
	}
	if s.Parent != nil {
		st.ParentCheckpoint, st.ParentCheckpointID = CheckpointOf(*s.Parent), &s.Parent.CheckpointID
	}
	for i, t := range s.Tasks {
		if st.Tasks[i], err = taskOf(t); err != nil {
			return nil, err
		}
	}
	return st, nil
}

func taskOf(t pregel.TaskState) (out Task, err error) {
	out = Task{ID: t.ID, Name: t.Name, Path: t.Path, Error: failed(t.Err)}
	if out.Interrupts, err = questions(t.Interrupts); err != nil {
		return out, err
	}
	if t.Finished {
		if out.Result, err = plain(t.Result, 0); err != nil {
			return out, err
		}
	}
	switch {
	case t.State != nil:
		out.State, err = State(t.State)
	case t.StateAddress != nil:
		out.Checkpoint = CheckpointOf(*t.StateAddress)
	}
	return out, err
}

// failed is the error of a task: nil or a text.
func failed(err any) any {
	if err == nil {
		return nil
	}
	return fmt.Sprint(err)
}

// questions are interrupts as states show them.
func questions(list []pregel.Interrupt) ([]any, error) {
	out := make([]any, len(list))
	for i, in := range list {
		m := map[string]any{"id": in.ID, "value": in.Value}
		if in.ResponseSchema != nil {
			m["response_schema"] = in.ResponseSchema
		}
		p, err := plain(m, 0)
		if err != nil {
			return nil, err
		}
		out[i] = p
	}
	return out, nil
}

// Failure is an error as clients see it.
type Failure struct {
	// Error is the kind: LangGraph's name of the class, or the name of the type in Go.
	Error   string `json:"error"`
	Message string `json:"message"`
}

// kinds are LangGraph's names of errors.
var kinds = []struct {
	err  error
	name string
}{
	{pregel.ErrEmptyInput, "EmptyInputError"},
	{pregel.ErrRecursionLimit, "GraphRecursionError"},
	{pregel.ErrNodeTimeout, "NodeTimeoutError"},
	{pregel.ErrInvalidUpdate, "InvalidUpdateError"},
	{pregel.ErrConflict, "ConflictError"},
	{pregel.ErrNoInterrupt, "NoInterruptError"},
	{pregel.ErrWaiting, "WaitingError"},
}

// FailureOf is err as clients see it. The failure of a node is told as the node returned it.
func FailureOf(err error) Failure {
	var task *pregel.TaskError
	if errors.As(err, &task) {
		err = task.Err
	}
	f := Failure{Error: "Error", Message: err.Error()}
	if errors.As(err, new(*pregel.AnswerError)) { // also one of a graph inside
		f.Error = "AnswerError"
		return f
	}
	for _, k := range kinds {
		if errors.Is(err, k.err) {
			f.Error = k.name
			return f
		}
	}
	t := reflect.TypeOf(err)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if name := t.Name(); name != "" && name[0] >= 'A' && name[0] <= 'Z' {
		f.Error = name
	}
	return f
}
