package memory

import (
	"bytes"
	"context"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stele-go/stele/internal/rules"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/serde"
)

// Options configure a Saver. The zero value is ready for use.
type Options struct {
	// Serializer encodes Go values and decodes stored ones. Nil is
	// serde.Default().
	Serializer serde.Serializer
	// Clock tells the time of writes and deletions. Nil is time.Now.
	Clock func() time.Time
	// Random gives the fractions of minted versions, floats in [0,1). It must be
	// safe for concurrent use. Nil is math/rand.
	Random func() float64
	// DeletedMemory is how long a deletion is remembered; see rules.Deleted.
	// Zero is rules.DefaultDeletedMemory, negative not at all.
	DeletedMemory time.Duration
	// DefaultTTL is how long a thread lives after its last write, if SetTTL does not
	// say otherwise; 0 means for ever. Sweep deletes what is over it.
	DefaultTTL time.Duration
}

// Saver is a saver.Saver with all optional powers, in memory. Its methods are
// safe for concurrent use. It holds no resources; Close only refuses later
// calls.
type Saver struct {
	opts  Options
	owned rules.Owners

	mu      sync.RWMutex // guards everything below
	threads map[string]*thread
	deleted map[string]rules.Deleted // by thread id; may hold expired ones
	commits uint64                   // number of the last commit
	closed  bool
}

var (
	_ saver.Saver         = (*Saver)(nil)
	_ saver.ThreadManager = (*Saver)(nil)
	_ saver.Retainer      = (*Saver)(nil)
	_ saver.Eraser        = (*Saver)(nil)
	_ saver.Coordinator   = (*Saver)(nil)
	_ io.Closer           = (*Saver)(nil)
)

// thread holds its namespaces; it has at least one.
type thread struct {
	namespaces map[string]*namespace
	updated    time.Time     // last write, UTC, whole microseconds
	ttl        time.Duration // its own, or 0
}

// namespace holds checkpoints and writes by checkpoint id; at least one of
// either. Writes may hang on an id that has no checkpoint.
type namespace struct {
	checkpoints map[string]*checkpoint
	newest      string            // the greatest id of checkpoints, "" if there is none
	calls       map[string][]call // in commit order; append-only
	attempts    map[string]int    // of recovery, by checkpoint
}

// checkpoint is immutable once it is in its namespace.
type checkpoint struct {
	record rules.Record
	slots  []slot // in the order of channels; none for a channel nobody stored
}

func byChannel(sl slot, channel string) int { return strings.Compare(sl.channel, channel) }

// slot finds what cp reads for a channel.
func (cp *checkpoint) slot(channel string) (slot, bool) {
	i, ok := slices.BinarySearchFunc(cp.slots, channel, byChannel)
	if !ok {
		return slot{}, false
	}
	return cp.slots[i], true
}

// set replaces or adds a slot, while cp is being made.
func (cp *checkpoint) set(sl slot) {
	i, ok := slices.BinarySearchFunc(cp.slots, sl.channel, byChannel)
	if ok {
		cp.slots[i] = sl
		return
	}
	cp.slots = slices.Insert(cp.slots, i, sl)
}

// slot is what a checkpoint reads for one channel.
type slot struct {
	channel string
	value   serde.Typed
	empty   bool   // the channel got its version without a value
	commit  uint64 // the commit that stored it
}

// call is one PutWrites, as it was asked for; the rules of repeated writes are
// applied on reading. Immutable.
type call struct{ rules.WritesPlan }

// New returns an empty Saver.
func New(opts Options) *Saver {
	if opts.Serializer == nil {
		opts.Serializer = serde.Default()
	}
	if opts.Clock == nil {
		opts.Clock = time.Now
	}
	if opts.DeletedMemory == 0 {
		opts.DeletedMemory = rules.DefaultDeletedMemory
	}
	return &Saver{opts: opts, threads: map[string]*thread{}, deleted: map[string]rules.Deleted{}}
}

// NextVersion implements saver.Saver: LangGraph's mint.
func (s *Saver) NextVersion(current saver.Version, _ string) (saver.Version, error) {
	return saver.NextVersion(current, s.opts.Random)
}

// Own implements saver.Coordinator.
func (s *Saver) Own(ctx context.Context, threadID string, wait bool) (release func(), err error) {
	return s.owned.Own(ctx, threadID, wait)
}

// Sync implements saver.Coordinator. There is nothing to wait for.
func (s *Saver) Sync(ctx context.Context) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.ready(ctx)
}

// Close refuses all later calls with saver.ErrClosed. Tuples handed out before
// stay readable. Closing again is no error.
func (s *Saver) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return nil
}

// ready refuses a call that comes too late. The caller holds mu.
func (s *Saver) ready(ctx context.Context) error {
	if s.closed {
		return saver.ErrClosed
	}
	return ctx.Err()
}

// now is the clock's time as it is stored.
func (s *Saver) now() time.Time { return s.opts.Clock().UTC().Truncate(time.Microsecond) }

// namespace returns a namespace, which is empty and not stored if there is none.
// The caller holds mu.
func (s *Saver) namespace(threadID, ns string) *namespace {
	if t := s.threads[threadID]; t != nil && t.namespaces[ns] != nil {
		return t.namespaces[ns]
	}
	return &namespace{}
}

// makeNamespace returns a namespace to write into. The caller holds mu for
// writing and has decided that the write goes through.
func (s *Saver) makeNamespace(threadID, ns string) *namespace {
	t := s.threads[threadID]
	if t == nil {
		t = &thread{namespaces: map[string]*namespace{}}
		s.threads[threadID] = t
	}
	t.updated = s.now()
	if t.namespaces[ns] == nil {
		t.namespaces[ns] = &namespace{checkpoints: map[string]*checkpoint{}, calls: map[string][]call{}, attempts: map[string]int{}}
	}
	return t.namespaces[ns]
}

// keep stores a checkpoint.
func (n *namespace) keep(id string, cp *checkpoint) {
	n.checkpoints[id] = cp
	n.newest = max(n.newest, id)
}

// remove takes a checkpoint, its writes and its count of attempts away. Values that others read are
// theirs.
func (n *namespace) remove(id string) {
	delete(n.checkpoints, id)
	delete(n.calls, id)
	delete(n.attempts, id)
	if id != n.newest {
		return
	}
	n.newest = ""
	for other := range n.checkpoints {
		n.newest = max(n.newest, other)
	}
}

func (n *namespace) empty() bool { return len(n.checkpoints) == 0 && len(n.calls) == 0 }

// hasCheckpoints reports whether the thread has any, in any namespace.
func (t *thread) hasCheckpoints() bool {
	for _, n := range t.namespaces {
		if len(n.checkpoints) > 0 {
			return true
		}
	}
	return false
}

func cloneTyped(t serde.Typed) serde.Typed {
	return serde.Typed{Kind: t.Kind, Data: bytes.Clone(t.Data)}
}

// Serializer implements saver.Coordinator.
func (s *Saver) Serializer() serde.Serializer { return s.opts.Serializer }
