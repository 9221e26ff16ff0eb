package transfer

import (
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/stele-go/stele/saver"
)

// FromSaver is a saver as a source. The TTLs of its threads are copied if it has a method TTL, as the savers in
// this process and on PostgreSQL have; a client of a server has none.
//
// The threads are those that it has when the iteration begins; the checkpoints of a thread
// those that it has when its turn comes. A checkpoint that is removed meanwhile is left out.
// The threads should not be written to: of a thread that is, an older part may be copied.
func FromSaver(s saver.Saver) Source { return &saverSource{s} }

type saverSource struct{ s saver.Saver }

// Tuples implements Source.
func (s *saverSource) Tuples(ctx context.Context, sel Selection) iter.Seq2[*Tuple, error] {
	return func(yield func(*Tuple, error) bool) {
		ids, err := s.threads(ctx, sel)
		if err != nil {
			yield(nil, err)
			return
		}
		for _, id := range ids {
			if !s.thread(ctx, id, yield) {
				return
			}
		}
	}
}

// threads are the ids of the threads that sel selects, ascending.
func (s *saverSource) threads(ctx context.Context, sel Selection) ([]string, error) {
	q := saver.ThreadQuery{Prefix: sel.Prefix, Metadata: sel.Metadata}
	if sel.Threads == nil {
		return threadIDs(s.s.Threads(ctx, q))
	}
	var ids []string
	for _, id := range slices.Compact(slices.Sorted(slices.Values(sel.Threads))) {
		if saver.ValidateThreadID(id) != nil { // no thread has this id; "" would select all
			continue
		}
		q.ThreadID = id
		one, err := threadIDs(s.s.Threads(ctx, q))
		var invalid *saver.InvalidError
		if err != nil && !(errors.As(err, &invalid) && invalid.Field == "thread_id") { // no thread of this saver can
			return nil, err
		}
		ids = append(ids, one...)
	}
	return ids, nil
}

// threadIDs are the ids of threads, up to the first error.
func threadIDs(threads iter.Seq2[saver.ThreadInfo, error]) (ids []string, err error) {
	for t, err := range threads {
		if err != nil {
			return nil, err
		}
		ids = append(ids, t.ThreadID)
	}
	return ids, nil
}

// listed is how many checkpoints are listed at a time.
const listed = 64

// thread yields the checkpoints of a thread. It reports whether the iteration goes on.
func (s *saverSource) thread(ctx context.Context, id string, yield func(*Tuple, error) bool) bool {
	spaces, err := s.list(ctx, id)
	if err != nil {
		return yield(nil, err) && false
	}
	if len(spaces) == 0 {
		return s.without(ctx, id, yield)
	}
	ttl, _, err := ttlOf(ctx, s.s, id)
	if err != nil {
		return yield(nil, err) && false
	}
	for _, ns := range slices.Sorted(maps.Keys(spaces)) {
		for _, n := range ParentsFirst(spaces[ns]) {
			cfg := saver.Config{ThreadID: id, Namespace: ns, CheckpointID: n.ID}
			tup, err := readTuple(ctx, s.s, cfg)
			switch {
			case errors.Is(err, saver.ErrNotFound):
				continue
			case err != nil && (ctx.Err() != nil || !errors.Is(err, saver.ErrCorrupt)):
				return yield(nil, err) && false
			case err != nil:
				err = &Rejected{Config: cfg, What: "checkpoint", Name: n.ID, Reason: err}
				tup = nil
			default:
				tup.TTL = ttl
			}
			if !yield(tup, err) {
				return false
			}
		}
	}
	return true
}

var errNoCheckpoint = errors.New("a thread without a checkpoint cannot be copied; stele show shows its writes")

// without rejects a thread that has no checkpoint, if it is still there.
func (s *saverSource) without(ctx context.Context, id string, yield func(*Tuple, error) bool) bool {
	switch _, there, err := saver.ThreadOf(ctx, s.s, id); {
	case err != nil:
		return yield(nil, err) && false
	case there:
		return yield(nil, &Rejected{Config: saver.Config{ThreadID: id}, What: "writes", Reason: errNoCheckpoint})
	}
	return true
}

// ttlOf returns the TTL of a thread in whole microseconds, which every saver stores. told is false if s
// has no method TTL.
func ttlOf(ctx context.Context, s saver.Saver, id string) (ttl time.Duration, told bool, err error) {
	t, told := s.(interface {
		TTL(ctx context.Context, threadID string) (time.Duration, error)
	})
	if told {
		ttl, err = t.TTL(ctx, id)
	}
	if ttl > 0 {
		ttl = ttl.Truncate(time.Microsecond)
	}
	return ttl, told, err
}

// readTuple is the checkpoint that cfg names.
func readTuple(ctx context.Context, s saver.Saver, cfg saver.Config) (*Tuple, error) {
	tup, err := s.GetTuple(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return TupleOf(tup)
}

// list returns the ids and parents of the checkpoints of a thread, by namespace. It lists the thread in
// parts, from the greatest id down, as a saver may read a whole listing into memory. An id may be in
// several namespaces, so a part begins with the last id of the one before, and skips checkpoints that
// were seen.
func (s *saverSource) list(ctx context.Context, id string) (map[string][]Node, error) {
	spaces := map[string][]Node{}
	seen := map[place]bool{}
	q := saver.Query{ThreadID: id, Limit: listed}
	for {
		n, fresh, last := 0, 0, ""
		for tup, err := range s.s.List(ctx, q) {
			if err != nil {
				return nil, err
			}
			n++
			cfg := tup.Config
			last = cfg.CheckpointID
			at := place{cfg.Namespace, cfg.CheckpointID}
			if seen[at] {
				continue
			}
			seen[at] = true
			fresh++
			node := Node{ID: cfg.CheckpointID}
			if tup.Parent != nil {
				node.Parent = tup.Parent.CheckpointID
			}
			spaces[cfg.Namespace] = append(spaces[cfg.Namespace], node)
		}
		switch {
		case n < q.Limit:
			return spaces, nil
		case fresh == 0:
			q.Limit *= 2
		default:
			q.Before = strings.Clone(last) + "\x01"
		}
	}
}
