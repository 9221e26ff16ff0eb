package buckettest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stele-go/stele/replica/bucket"
)

// Fate is what becomes of one call of a client of a Sim.
type Fate int

// The fates of a call. A call that cannot have one has the fate Applied.
const (
	// Applied: as it should be.
	Applied Fate = iota
	// NotApplied: it has no effect, and the client cannot know: it has no answer, or one like
	// 500, 503 or 409.
	NotApplied
	// AnswerLost: it was applied, and the client cannot know, as with NotApplied.
	AnswerLost
	// Cut: the body that a Get returns ends in its middle, with io.ErrUnexpectedEOF.
	Cut
	// Twice: a Put is applied twice, and has the second answer: ErrCondition because of itself.
	Twice
	// Again: a Put or Delete is applied, and then once more, as if it were Late.
	Again
	// Late: a Put or Delete has no answer, and is applied when Sim.Deliver is called.
	Late
)

// LateBy is Late, or applied once calls more calls were made by all clients, whichever comes first.
// calls is at least 1.
func LateBy(calls int) Fate { return Late + Fate(calls) }

var fateNames = []string{"applied", "not applied", "answer lost", "cut", "twice", "again", "late"}

// String is what becomes of the call.
func (f Fate) String() string {
	if f > Late {
		return fmt.Sprintf("late by %d calls", int(f-Late))
	}
	return fateNames[f]
}

// Op is a method of a Bucket.
type Op string

// The methods.
const (
	Put    Op = "put"
	Get    Op = "get"
	List   Op = "list"
	Delete Op = "delete"
)

// Fates are those that a call can have, but Applied.
func Fates(c Call) []Fate {
	fates := []Fate{NotApplied, AnswerLost}
	switch c.Op {
	case Get:
		return append(fates, Cut)
	case Put:
		return append(fates, Twice, Again, Late, LateBy(1), LateBy(2))
	case Delete:
		return append(fates, Again, Late, LateBy(1), LateBy(2))
	}
	return fates
}

// Call is one call of a client.
type Call struct {
	N      int    // in the order in which the bucket saw them, from 0
	Client string // who made it
	Nth    int    // how many such calls, of the client with the method and the key, came before
	Op     Op
	Key    string // of a Delete the first one, of a List the prefix
	Cond   bucket.Condition
	Fate   Fate
	Result string // what the client was told; empty while it is not
}

// String is one line.
func (c Call) String() string {
	cond := ""
	if c.Cond.IfAbsent {
		cond = " if absent"
	} else if c.Cond.IfMatch != "" {
		cond = fmt.Sprintf(" if %.8s", c.Cond.IfMatch)
	}
	return fmt.Sprintf("%4d %s: %s %s%s: %s: %s", c.N, c.Client, c.Op, c.Key, cond, c.Fate, c.Result)
}

// ErrUnknown is the error of a call whose outcome its client does not know: it wraps none of
// package bucket.
var ErrUnknown = errors.New("no answer")

// Sim is a bucket in memory whose clients see the failures of networks and servers. Its tags are
// those of contents, as with S3: a content that comes again has its tag again. It is as
// deterministic as its callers, and may be used concurrently.
//
// A Sim is itself a Bucket: as it is, without failures, delays or history.
type Sim struct {
	fate func(Call) Fate

	mu      sync.Mutex
	objects map[string][]byte
	calls   []Call
	nth     map[Call]int
	late    []*lateCall
	cut     map[string]bool
	stalled map[string]*stall
}

// stall keeps the calls of a client.
type stall struct {
	over   chan struct{}
	asleep []func() // what is applied at the end, though the callers have gone
}

var _ bucket.Bucket = (*Sim)(nil)

// lateCall waits to be applied.
type lateCall struct {
	apply func()
	left  int // calls until then; 0 or less: they do not count
}

// NewSim returns an empty bucket. fate says what becomes of each call, which it sees before it is
// applied; nil is Applied for all. It must not use the Sim.
func NewSim(fate func(Call) Fate) *Sim {
	if fate == nil {
		fate = func(Call) Fate { return Applied }
	}
	return &Sim{fate: fate, objects: map[string][]byte{}, nth: map[Call]int{}, cut: map[string]bool{}, stalled: map[string]*stall{}}
}

// Seeded draws a fate for one call of every, for all methods alike. What a call draws depends on its
// client, method, key and number among those alone, and so not on the order in which goroutines run.
func Seeded(seed uint64, every int) func(Call) Fate {
	return func(c Call) Fate {
		h := fnv.New64a()
		fmt.Fprintf(h, "%s\x00%s\x00%s\x00%d", c.Client, c.Op, c.Key, c.Nth)
		random := rand.New(rand.NewPCG(seed, h.Sum64()))
		if random.IntN(every) > 0 {
			return Applied
		}
		fates := Fates(c)
		f := fates[random.IntN(len(fates))]
		if f > Late {
			f = LateBy(1 + random.IntN(20))
		}
		return f
	}
}

// EachFault runs a test once without a failure, and then once for each call that it made and each
// fate of that call. run must make the same calls until the first failure, from one goroutine.
func EachFault(t *testing.T, run func(t *testing.T, s *Sim)) {
	whole := NewSim(nil)
	run(t, whole)
	for _, c := range whole.History() {
		for _, f := range Fates(c) {
			s := NewSim(func(other Call) Fate {
				if other.N == c.N {
					return f
				}
				return Applied
			})
			t.Run(fmt.Sprintf("call %d, %s %s, %s", c.N, c.Op, c.Key, f), func(t *testing.T) {
				defer func() {
					if t.Failed() {
						t.Logf("the calls:\n%s", s)
					}
				}()
				run(t, s)
			})
		}
	}
}

// Client returns the bucket as one client sees it.
func (s *Sim) Client(name string) bucket.Bucket { return &client{s, name} }

// Disconnect cuts a client off: its calls are not applied and have no answer, until Connect. What
// is Late stays so.
func (s *Sim) Disconnect(client string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cut[client] = true
}

// Connect ends Disconnect.
func (s *Sim) Connect(client string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.cut, client)
}

// Stall keeps the calls of a client, before they are applied, until Resume. One whose context ends
// meanwhile has no answer, and is applied after Resume all the same, if it is a Put or Delete.
func (s *Sim) Stall(client string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stalled[client] == nil {
		s.stalled[client] = &stall{over: make(chan struct{})}
	}
}

// Resume ends Stall.
func (s *Sim) Resume(client string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if st := s.stalled[client]; st != nil {
		delete(s.stalled, client)
		for _, apply := range st.asleep {
			apply()
		}
		close(st.over)
	}
}

// Deliver applies what is Late, in the order in which it was called.
func (s *Sim) Deliver() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.late {
		l.apply()
	}
	s.late = nil
}

// History returns the calls of clients so far.
func (s *Sim) History() []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

// String is the history, a line for each call, and what is in the bucket.
func (s *Sim) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	for _, c := range s.calls {
		fmt.Fprintln(&b, c)
	}
	for _, key := range slices.Sorted(maps.Keys(s.objects)) {
		fmt.Fprintf(&b, "%s: %d bytes, tag %.8s\n", key, len(s.objects[key]), tagOf(s.objects[key]))
	}
	return b.String()
}

func tagOf(body []byte) bucket.ETag {
	return bucket.ETag(fmt.Sprintf("%x", sha256.Sum256(body)))
}

// apply runs f under the lock, and returns its error unless the context has ended.
func (s *Sim) apply(ctx context.Context, f func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	return f()
}

// Put implements bucket.Bucket, without failures.
func (s *Sim) Put(ctx context.Context, key string, body *io.SectionReader, cond bucket.Condition) (tag bucket.ETag, err error) {
	text, err := readPut(key, body, cond)
	if err == nil {
		err = s.apply(ctx, func() error { tag, err = s.put(key, text, cond); return err })
	}
	return tag, err
}

// readPut checks the arguments of a Put, and reads its body.
func readPut(key string, body *io.SectionReader, cond bucket.Condition) ([]byte, error) {
	if err := bucket.CheckPut(key, cond); err != nil {
		return nil, err
	}
	return io.ReadAll(io.NewSectionReader(body, 0, body.Size()))
}

func (s *Sim) put(key string, body []byte, cond bucket.Condition) (bucket.ETag, error) {
	old, there := s.objects[key]
	if cond.IfAbsent && there || cond.IfMatch != "" && (!there || tagOf(old) != cond.IfMatch) {
		return "", fmt.Errorf("%w: %q", bucket.ErrCondition, key)
	}
	s.objects[key] = body
	return tagOf(body), nil
}

// Get implements bucket.Bucket, without failures.
func (s *Sim) Get(ctx context.Context, key string, o bucket.GetOptions) (obj *bucket.Object, err error) {
	if err := bucket.CheckGet(key, o); err != nil {
		return nil, err
	}
	err = s.apply(ctx, func() error { obj, err = s.get(key, o); return err })
	return obj, err
}

func (s *Sim) get(key string, o bucket.GetOptions) (*bucket.Object, error) {
	body, there := s.objects[key]
	if !there {
		return nil, fmt.Errorf("%w: %q", bucket.ErrNotFound, key)
	}
	if o.IfNoneMatch == tagOf(body) {
		return nil, fmt.Errorf("%w: %q", bucket.ErrNotModified, key)
	}
	part := body[min(o.Offset, int64(len(body))):]
	if o.Length > 0 {
		part = part[:min(o.Length, int64(len(part)))]
	}
	return &bucket.Object{Body: io.NopCloser(bytes.NewReader(part)), Size: int64(len(body)), ETag: tagOf(body)}, nil
}

// List implements bucket.Bucket, without failures.
func (s *Sim) List(ctx context.Context, prefix, after string) (page []bucket.Entry, err error) {
	err = s.apply(ctx, func() error { page = s.list(prefix, after); return nil })
	return page, err
}

func (s *Sim) list(prefix, after string) (page []bucket.Entry) {
	for _, key := range slices.Sorted(maps.Keys(s.objects)) {
		if strings.HasPrefix(key, prefix) && key > after && len(page) < 1000 {
			page = append(page, bucket.Entry{Key: key, Size: int64(len(s.objects[key])), ETag: tagOf(s.objects[key])})
		}
	}
	return page
}

// Delete implements bucket.Bucket, without failures.
func (s *Sim) Delete(ctx context.Context, keys ...string) error {
	if err := checkKeys(keys); err != nil {
		return err
	}
	return s.apply(ctx, func() error { s.remove(keys); return nil })
}

func checkKeys(keys []string) error {
	for _, key := range keys {
		if err := bucket.CheckKey(key); err != nil {
			return err
		}
	}
	return nil
}

func (s *Sim) remove(keys []string) {
	for _, key := range keys {
		delete(s.objects, key)
	}
}
