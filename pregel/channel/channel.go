package channel

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Stored is a value as a checkpoint holds it. It is decoded on demand. saver.Value
// implements it.
type Stored interface {
	// Any decodes into plain data.
	Any() (any, error)
	// Decode decodes into dst, a non-nil pointer.
	Decode(dst any) error
}

// Channel is one channel of a graph. A Channel made by a constructor of this
// package is a specification; the engine works on copies made by Restore.
//
// A new kind also decides what else it is: Typed (the type of its values), Untracked (never stored),
// DeltaChannel (rebuilt from writes), IsFold (reduces, so a value that was never stored can be told
// from none), isSteady (changes only by writes), isLastValue, and whether it has check, for Check. It
// joins the specs of property_test.go, and the kinds of steady_test.go.
type Channel interface {
	// Key is the name the channel has in its graph; "" before it has one.
	Key() string
	// Named is an empty channel of this kind with the name key.
	Named(key string) Channel
	// Copy is an independent copy with the same value.
	Copy() Channel
	// Restore is a channel of this kind that holds the stored value v, or no
	// value if v is nil. The receiver does not change.
	Restore(v Stored) (Channel, error)
	// Checkpoint is the value to store; ok is false if nothing is stored.
	Checkpoint() (v any, ok bool)
	// Get is the current value; ok is false if the channel is empty.
	Get() (v any, ok bool)
	// Available reports whether Get has a value.
	Available() bool
	// Update applies the writes of one superstep in their order and reports
	// whether the channel changed. If nobody wrote to the channel, it is called
	// without values. After an error the channel is unchanged.
	Update(values []any) (changed bool, err error)
	// Consume tells the channel that the nodes that it triggered have run, and
	// reports whether it changed.
	Consume() bool
	// Finish tells the channel that no node is left to run, and reports whether
	// it changed.
	Finish() bool
	// Equal reports whether other is the same kind of channel, so that two
	// schemas may declare one key.
	Equal(other Channel) bool
}

// Declared is a type of a state's field that knows its channel: a schema made of a struct keeps
// the field in it, unless it is told another.
type Declared interface {
	// Channel returns a new channel. The receiver is a zero value.
	Channel() Channel
}

// Check returns the error with which Update would refuse values because of their types or
// number. It calls no reducer, so it does not find what a reducer would refuse. The channel
// does not change.
func Check(ch Channel, values []any) error {
	if c, ok := ch.(interface{ check(values []any) error }); ok {
		return c.check(values)
	}
	_, err := ch.Copy().Update(values)
	return err
}

// IsSteady reports whether an Update without values leaves ch as it is, so that who reads a channel
// to which nobody wrote needs no copy of it. It is false for a kind of channel that it does not
// know.
func IsSteady(ch Channel) bool { _, ok := ch.(interface{ isSteady() }); return ok }

// Untracked is implemented by channels whose values are never stored, neither
// in checkpoints nor as pending writes.
type Untracked interface {
	Channel
	// Untracked does nothing; it marks the channel.
	Untracked()
}

// ErrInvalidUpdate matches every UpdateError.
var ErrInvalidUpdate = errors.New("invalid update")

// CodeConcurrentUpdate is the code LangGraph gives to two writes where one is
// allowed.
const CodeConcurrentUpdate = "INVALID_CONCURRENT_GRAPH_UPDATE"

// UpdateError: the writes of a superstep do not fit the channel. It matches
// ErrInvalidUpdate. The channel did not change.
type UpdateError struct {
	Channel string
	Nodes   []string // who wrote, sorted; nil if not known
	Reason  string
	Code    string // LangGraph's error code, or ""
	Err     error  // underlying cause, may be nil
}

// Error names the channel, the writers and what to do.
func (e *UpdateError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "At key '%s': %s", e.Channel, e.Reason)
	if len(e.Nodes) > 0 {
		fmt.Fprintf(&b, " (written by %s)", strings.Join(e.Nodes, ", "))
	}
	if e.Err != nil {
		fmt.Fprintf(&b, ": %v", e.Err)
	}
	return b.String()
}

// Unwrap returns the underlying cause.
func (e *UpdateError) Unwrap() error { return e.Err }

// Is makes every UpdateError match ErrInvalidUpdate.
func (e *UpdateError) Is(target error) bool { return target == ErrInvalidUpdate }

// base is what all channels share.
type base struct{ key string }

// Key implements Channel.
func (b *base) Key() string { return b.key }

// Consume implements Channel.
func (b *base) Consume() bool { return false }

// Finish implements Channel.
func (b *base) Finish() bool { return false }

func (b *base) typeError(err error) error {
	return &UpdateError{Channel: b.key, Reason: "a value of the wrong type was written", Err: err}
}

// clip returns v without spare capacity if it is a slice. So appending to it never writes to
// memory to which another copy of the channel may also append.
func clip[T any](v T) T {
	switch x := any(v).(type) {
	case nil:
		return v
	case []any:
		return any(slices.Clip(x)).(T)
	}
	rv := reflect.ValueOf(v)
	if rv.Kind() != reflect.Slice || rv.Cap() == rv.Len() {
		return v
	}
	return rv.Slice3(0, rv.Len(), rv.Len()).Interface().(T)
}
