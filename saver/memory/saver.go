package memory

import (
	"bytes"
	"context"
	"io"
	"sync"
	"time"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/rules"
	"github.com/stele-go/stele/saver/serde"
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
	// DeletedMemory is how long a deletion is remembered, so that late writes to a deleted
	// thread are refused. Zero is 30 days; with a negative one deletions are not
	// remembered.
	DeletedMemory time.Duration
	// DefaultTTL is how long a thread lives after its last write, unless SetTTL says
	// otherwise; 0 means for ever. Sweep deletes expired threads.
	DefaultTTL time.Duration
}

// Saver is a saver.Saver in memory, and a saver.Eraser. Its methods are safe for concurrent use. It holds no
// resources; Close only refuses later calls.
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
	_ saver.Saver  = (*Saver)(nil)
	_ saver.Eraser = (*Saver)(nil)
	_ io.Closer    = (*Saver)(nil)
)

// thread holds namespaces, at least one.
type thread struct {
	namespaces map[string]*namespace
	updated    time.Time     // last write, UTC, whole microseconds
	ttl        time.Duration // its own, or 0
}

// namespace holds checkpoints, and writes by checkpoint id; at least one of either. Writes may
// belong to an id without a checkpoint.
type namespace struct {
	checkpoints map[string]*checkpoint
	newest      string // the greatest id of checkpoints, "" if there is none
	// calls are those of PutWrites, in commit order; append-only. Repeated writes are resolved on
	// reading.
	calls    map[string][]rules.WritesPlan
	attempts map[string]int // of recovery, by checkpoint
}

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

// NextVersion implements saver.Saver. It mints versions as LangGraph does.
func (s *Saver) NextVersion(current saver.Version, _ string) (saver.Version, error) {
	return saver.NextVersion(current, s.opts.Random)
}

// Own implements saver.Saver.
func (s *Saver) Own(ctx context.Context, threadID string, wait bool) (*saver.Lease, error) {
	return s.owned.Own(ctx, threadID, wait)
}

// Sync implements saver.Saver. There is nothing to wait for.
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
	s.owned.Close()
	return nil
}

// ready refuses a call after Close or after its context ended. The caller holds mu.
func (s *Saver) ready(ctx context.Context) error {
	if s.closed {
		return saver.ErrClosed
	}
	return ctx.Err()
}

// now is the clock's time as it is stored.
func (s *Saver) now() time.Time { return s.opts.Clock().UTC().Truncate(time.Microsecond) }

// namespace returns a namespace. If it does not exist, the result is empty and not stored. The
// caller holds mu.
func (s *Saver) namespace(threadID, ns string) *namespace {
	if t := s.threads[threadID]; t != nil && t.namespaces[ns] != nil {
		return t.namespaces[ns]
	}
	return &namespace{}
}

// makeNamespace returns a namespace to write to, and creates it if necessary. The caller holds
// mu for writing, and must not fail after that.
func (s *Saver) makeNamespace(threadID, ns string) *namespace {
	t := s.threads[threadID]
	if t == nil {
		t = &thread{namespaces: map[string]*namespace{}}
		s.threads[threadID] = t
	}
	t.updated = s.now()
	if t.namespaces[ns] == nil {
		t.namespaces[ns] = &namespace{checkpoints: map[string]*checkpoint{}, calls: map[string][]rules.WritesPlan{}, attempts: map[string]int{}}
	}
	return t.namespaces[ns]
}

// keep stores a checkpoint.
func (n *namespace) keep(id string, cp *checkpoint) {
	n.checkpoints[id] = cp
	n.newest = max(n.newest, id)
}

// remove removes a checkpoint, its writes and its count of attempts. Other checkpoints keep the
// values that they share with it.
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

// Serializer implements saver.Saver.
func (s *Saver) Serializer() serde.Serializer { return s.opts.Serializer }
