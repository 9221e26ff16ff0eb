package channel

import (
	"fmt"

	"github.com/stele-go/stele/saver/serde"
)

// DefaultSnapshotFrequency is how many updates a delta channel takes between
// two snapshots unless it says otherwise: LangGraph's default.
const DefaultSnapshotFrequency = 100

// DeltaChannel is a channel whose value is not stored in every checkpoint but
// rebuilt from the writes since its last snapshot. The engine decides when a
// snapshot is due.
type DeltaChannel interface {
	Channel
	// SnapshotFrequency is the number of updates between two snapshots.
	SnapshotFrequency() int
	// Snapshot is the value wrapped so that a checkpoint can hold it.
	Snapshot() serde.DeltaSnapshot
	// Replay folds stored writes, oldest first, onto the value.
	Replay(writes []any) error
}

type delta[T, W any] struct {
	base
	slot[T]
	reduce    func(T, []W) (T, error)
	accepts   func(W) error // why the reducer cannot read a write; nil: it can read all
	frequency int
	reducer   string // the name of reduce; "": it has none

	newID        func() string       // names messages; nil: random UUIDs
	messagesOnly bool                // all writes are messages
	name         func(write any) any // names what is written; nil: Messages are named
}

// Delta is a channel that folds all writes of a superstep at once. Its reducer must be
// deterministic and must not depend on how writes are grouped: reduce(reduce(s, xs), ys)
// equals reduce(s, xs followed by ys). The reason is that stored writes are replayed in
// larger groups than they were made. frequency is the number of updates between two
// snapshots. 0 means DefaultSnapshotFrequency, and a negative one panics. A Message that is
// written without an id gets one before it is stored.
func Delta[T, W any](frequency int, reduce func(value T, writes []W) (T, error)) Channel {
	if frequency < 0 {
		panic(fmt.Sprintf("channel.Delta: snapshot frequency %d is not positive", frequency))
	}
	if frequency == 0 {
		frequency = DefaultSnapshotFrequency
	}
	return &delta[T, W]{reduce: reduce, frequency: frequency}
}

// DeltaAccepted is Delta for a reducer that cannot read every write, and whose writes have ids.
// accepts says why it cannot read one, so that the write is refused before anything is stored. name
// returns a write with an id for each part that has none; see Namer.
func DeltaAccepted[T, W any](frequency int, reduce func(value T, writes []W) (T, error), accepts func(write W) error, name func(write any) any) Channel {
	c := Delta(frequency, reduce).(*delta[T, W])
	c.accepts, c.name = accepts, name
	return c
}

func (c *delta[T, W]) fresh(key string) *delta[T, W] {
	d := *c
	d.base, d.slot = base{key}, slot[T]{}
	return &d
}

// SnapshotFrequency implements DeltaChannel.
func (c *delta[T, W]) SnapshotFrequency() int { return c.frequency }

// Snapshot implements DeltaChannel.
func (c *delta[T, W]) Snapshot() serde.DeltaSnapshot { return serde.DeltaSnapshot{Value: c.value} }

// Named implements Channel.
func (c *delta[T, W]) Named(key string) Channel { return c.fresh(key) }

// Get implements Channel.
func (c *delta[T, W]) Get() (any, bool) { return c.getClipped() }

// Checkpoint stores nothing. The engine decides when to store a Snapshot.
func (c *delta[T, W]) Checkpoint() (any, bool) { return nil, false }

// Copy implements Channel.
func (c *delta[T, W]) Copy() Channel {
	d := *c
	d.value = clip(c.value)
	return &d
}

// Restore reads a snapshot, or the plain value that the channel stored before it became a
// delta channel. Without a value, and from a null, the channel starts from zero and is available.
func (c *delta[T, W]) Restore(v Stored) (Channel, error) {
	d := c.fresh(c.key)
	if v != nil && !storedNull(v) {
		return d, d.restoreSnapshot(c.key, v)
	}
	zero, _ := zeroOf[T]()
	d.put(zero)
	return d, nil
}

// storedNull reports whether v is a null. What cannot be read is none, and neither is what is longer than
// a null that is encrypted.
func storedNull(v Stored) bool {
	if typed, ok := v.(interface{ View() (serde.Typed, error) }); ok {
		if t, err := typed.View(); err != nil || len(t.Data) > 64 {
			return false
		}
	}
	x, err := v.Any()
	return err == nil && x == nil
}

// restoreSnapshot is restore of what a channel stored as a delta channel, or before or after that.
func (s *slot[T]) restoreSnapshot(key string, v Stored) error {
	x, isSnapshot, err := unwrapSnapshot[T](v)
	switch {
	case err != nil:
		return restoreError(key, err)
	case isSnapshot:
		s.put(x)
		return nil
	}
	return s.restore(key, v)
}

// unwrapSnapshot reads v if it is a snapshot of a delta channel.
func unwrapSnapshot[T any](v Stored) (out T, isSnapshot bool, err error) {
	if typed, ok := v.(interface{ View() (serde.Typed, error) }); ok {
		t, err := typed.View()
		if err != nil || !serde.MayBeDelta(t) {
			return out, false, err
		}
	}
	x, err := v.Any()
	if err != nil {
		return out, false, err
	}
	var inner any
	switch s := x.(type) {
	case serde.DeltaSnapshot:
		inner = s.Value
	case *serde.DeltaSnapshot:
		inner = s.Value
	default:
		return out, false, nil
	}
	out, err = Convert[T](inner)
	return out, true, err
}

func (c *delta[T, W]) overwriteValue(ow serde.Overwrite) (T, error) {
	if ow.Value == nil {
		zero, _ := zeroOf[T]()
		return zero, nil
	}
	x, err := Convert[T](ow.Value)
	return clip(x), err
}

// Replay folds stored writes. The value begins with the last Overwrite among them.
func (c *delta[T, W]) Replay(writes []any) error {
	next := c.slot
	start := 0
	for i, v := range writes {
		if ow, ok := serde.AsOverwrite(v); ok {
			x, err := c.overwriteValue(ow)
			if err != nil {
				return c.typeError(err)
			}
			next.put(x)
			start = i + 1
		}
	}
	if err := c.fold(&next, writes[start:]); err != nil {
		return err
	}
	c.slot = next
	return nil
}

// isSteady marks the channel for IsSteady.
func (c *delta[T, W]) isSteady() {}

// Update folds the writes of a superstep. If one of them is an Overwrite, the others are
// discarded.
func (c *delta[T, W]) Update(values []any) (bool, error) {
	if len(values) == 0 {
		return false, nil
	}
	var overwrite *serde.Overwrite
	for _, v := range values {
		if ow, ok := serde.AsOverwrite(v); ok {
			if overwrite != nil {
				return false, &UpdateError{Channel: c.key, Reason: oneOverwrite, Code: CodeConcurrentUpdate}
			}
			overwrite = &ow
		}
	}
	next := c.slot
	if overwrite != nil {
		x, err := c.overwriteValue(*overwrite)
		if err != nil {
			return false, c.typeError(err)
		}
		next.put(x)
	} else if err := c.fold(&next, values); err != nil {
		return false, err
	}
	c.slot = next
	return true, nil
}

func (c *delta[T, W]) fold(s *slot[T], values []any) error {
	if len(values) == 0 {
		return nil
	}
	writes := make([]W, len(values))
	for i, v := range values {
		w, err := Convert[W](v)
		if err != nil {
			return c.typeError(err)
		}
		writes[i] = w
	}
	if !s.set {
		zero, _ := zeroOf[T]()
		s.put(zero)
	}
	x, err := c.reduce(s.value, writes)
	if err != nil {
		return &UpdateError{Channel: c.key, Reason: "the reducer refused a write", Err: err}
	}
	s.put(x)
	return nil
}

// check is Update without the reducer, which may change the value in place.
func (c *delta[T, W]) check(values []any) error {
	d := *c
	d.reduce = func(v T, writes []W) (T, error) {
		for _, w := range writes {
			if c.accepts == nil {
				break
			}
			if err := c.accepts(w); err != nil {
				return v, err
			}
		}
		return v, nil
	}
	_, err := d.Update(values)
	return err
}

// Equal compares type and frequency; two reducers are taken as equal.
func (c *delta[T, W]) Equal(other Channel) bool {
	o, ok := other.(*delta[T, W])
	return ok && o.frequency == c.frequency
}
