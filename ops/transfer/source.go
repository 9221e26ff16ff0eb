package transfer

import (
	"context"
	"fmt"
	"iter"

	"github.com/stele-go/stele/saver"
)

// Source gives checkpoints.
type Source interface {
	// Tuples yields the checkpoints that sel selects. All of a thread come together, and a
	// checkpoint comes after its parent. A *Rejected as error says that something cannot
	// be read; the iteration goes on after it. Any other error is yielded once and last.
	Tuples(ctx context.Context, sel Selection) iter.Seq2[*Tuple, error]
}

// Selection selects threads. The zero Selection selects all. A thread is selected if all
// that is set selects it.
type Selection struct {
	// Threads are the ids of the threads; nil does not limit. An id that the source does
	// not have is no error.
	Threads []string
	// Prefix limits to ids that begin with it.
	Prefix string
	// Metadata limits to threads with a checkpoint, in any namespace, whose metadata
	// matches all of it, as saver.ThreadQuery.Metadata does.
	Metadata map[string]any
}

// Rejected is something that was not copied, and why.
type Rejected struct {
	// Config names the checkpoint; CheckpointID is "" if that is not known.
	Config saver.Config
	// What names the thing that was not copied: "checkpoint", "writes" of a thread without one,
	// "write", "channel", "field" or "line". The rest of the checkpoint of a channel or of a field was
	// copied.
	What string
	// Name says which channel or field it is, or which task and index, or which line.
	Name string
	// Kind and Raw are its bytes, as the source has them. Raw is nil if Tuple is set, or
	// if the source could not give them.
	Kind string
	Raw  []byte
	// Tuple is the checkpoint, if the source could read it and the target refused it.
	Tuple *Tuple
	// Reason is why.
	Reason error
}

// Error names the checkpoint, and says what was not copied and why.
func (r *Rejected) Error() string {
	s := r.What
	if r.Name != "" {
		s += fmt.Sprintf(" %q", r.Name)
	}
	if r.Config.ThreadID != "" {
		s += fmt.Sprintf(" of thread %q", r.Config.ThreadID)
		if r.Config.Namespace != "" {
			s += fmt.Sprintf(" namespace %q", r.Config.Namespace)
		}
		if r.Config.CheckpointID != "" && r.Name != r.Config.CheckpointID {
			s += fmt.Sprintf(" checkpoint %q", r.Config.CheckpointID)
		}
	}
	return fmt.Sprintf("%s: %v", s, r.Reason)
}

// Unwrap gives the reason.
func (r *Rejected) Unwrap() error { return r.Reason }
