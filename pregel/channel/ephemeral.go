package channel

// Guard says whether a second write in one superstep is an error.
type Guard bool

// The two guards. Guarded is what LangGraph calls guard=True, its default.
const (
	Guarded   Guard = true
	Unguarded Guard = false
)

type ephemeral[T any] struct {
	base
	slot[T]
	guard Guard
}

// Ephemeral keeps a value for one superstep. A superstep without a write clears it. It is
// stored in checkpoints, so that a pending trigger survives a restart. If it is Unguarded,
// the last of several writes counts.
func Ephemeral[T any](guard Guard) Channel { return &ephemeral[T]{guard: guard} }

// Named implements Channel.
func (c *ephemeral[T]) Named(key string) Channel {
	return &ephemeral[T]{base: base{key}, guard: c.guard}
}

// Copy implements Channel.
func (c *ephemeral[T]) Copy() Channel { d := *c; return &d }

// Restore implements Channel.
func (c *ephemeral[T]) Restore(v Stored) (Channel, error) {
	d := &ephemeral[T]{base: c.base, guard: c.guard}
	return d, d.restore(c.key, v)
}

// Update implements Channel.
func (c *ephemeral[T]) Update(values []any) (bool, error) {
	if len(values) == 0 {
		changed := c.set
		c.clear()
		return changed, nil
	}
	return putGuarded(&c.base, &c.slot, values, "EphemeralValue", c.guard)
}

// putGuarded is putLast. If guarded, a second value is an error.
func putGuarded[T any](b *base, s *slot[T], values []any, kind string, guard Guard) (bool, error) {
	if len(values) > 1 && guard == Guarded {
		return false, &UpdateError{Channel: b.key, Code: CodeConcurrentUpdate,
			Reason: kind + "(guard=True) can receive only one value per step. Use guard=False if you want to store any one of multiple values."}
	}
	return putLast(b, s, values)
}

// Equal implements Channel.
func (c *ephemeral[T]) Equal(other Channel) bool {
	o, ok := other.(*ephemeral[T])
	return ok && o.guard == c.guard
}

type untracked[T any] struct {
	base
	slot[T]
	guard Guard
}

// UntrackedValue keeps the value written last. It is never stored, neither in checkpoints nor
// as a pending write. After a restart it is empty.
func UntrackedValue[T any](guard Guard) Channel { return &untracked[T]{guard: guard} }

// Untracked implements the interface of that name.
func (c *untracked[T]) Untracked() {}

// Named implements Channel.
func (c *untracked[T]) Named(key string) Channel {
	return &untracked[T]{base: base{key}, guard: c.guard}
}

// Copy implements Channel.
func (c *untracked[T]) Copy() Channel { d := *c; return &d }

// Checkpoint implements Channel.
func (c *untracked[T]) Checkpoint() (any, bool) { return nil, false }

// Restore implements Channel.
func (c *untracked[T]) Restore(Stored) (Channel, error) {
	return &untracked[T]{base: c.base, guard: c.guard}, nil
}

// Update implements Channel.
func (c *untracked[T]) Update(values []any) (bool, error) {
	if len(values) == 0 {
		return false, nil
	}
	return putGuarded(&c.base, &c.slot, values, "UntrackedValue", c.guard)
}

// Equal implements Channel.
func (c *untracked[T]) Equal(other Channel) bool {
	o, ok := other.(*untracked[T])
	return ok && o.guard == c.guard
}
