package memory

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/rules"
)

// found is a checkpoint and the calls that belong to it. It refers to immutable data only, so
// it is read without the lock.
type found struct {
	at          saver.Config
	cp          *checkpoint
	calls       []rules.WritesPlan
	parentCalls []rules.WritesPlan
}

// find collects the parts of a checkpoint's tuple. The caller holds mu.
func (n *namespace) find(at saver.Config, cp *checkpoint) found {
	f := found{at: at, cp: cp, calls: n.calls[at.CheckpointID]}
	if parent := cp.parent; parent != "" {
		f.parentCalls = n.calls[parent]
	}
	return f
}

// GetTuple implements saver.Saver.
func (s *Saver) GetTuple(ctx context.Context, cfg saver.Config) (*saver.Tuple, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	f, err := s.lookup(ctx, cfg)
	if err != nil {
		return nil, err
	}
	md, err := saver.DecodeMetadata(f.cp.metadata, s.opts.Serializer)
	if err != nil {
		return nil, err
	}
	return s.tuple(f, md)
}

func (s *Saver) lookup(ctx context.Context, cfg saver.Config) (found, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := s.ready(ctx); err != nil {
		return found{}, err
	}
	n := s.namespace(cfg.ThreadID, cfg.Namespace)
	id := cmp.Or(cfg.CheckpointID, n.newest)
	cp := n.checkpoints[id]
	if cp == nil {
		return found{}, rules.NotFound(cfg)
	}
	return n.find(cfg.At(id), cp), nil
}

// tuple builds the tuple for a caller. It shares only the bytes of values with the store, and
// these are copied when they are read.
func (s *Saver) tuple(f found, md saver.Metadata) (*saver.Tuple, error) {
	t := &saver.Tuple{
		Config:        f.at,
		Checkpoint:    f.cp.checkpoint(f.at.CheckpointID),
		Metadata:      md,
		PendingWrites: rules.PendingWrites(f.calls, s.opts.Serializer),
		Note:          f.cp.note.Clone(),
	}
	t.Checkpoint.Values = s.values(f.cp)
	if parent := f.cp.parent; parent != "" {
		cfg := f.at.At(parent)
		t.Parent = &cfg
	}
	_, err := rules.MigratePendingSends(&t.Checkpoint, rules.PendingWrites(f.parentCalls, s.opts.Serializer), func() (saver.Version, error) {
		return saver.NextVersion(saver.Version{}, s.opts.Random)
	})
	if err != nil {
		return nil, err
	}
	return t, nil
}

func (s *Saver) values(cp *checkpoint) map[string]saver.Value {
	values := make(map[string]saver.Value, len(cp.slots))
	for _, sl := range cp.slots {
		if sl.isFilled() {
			values[sl.channel] = saver.ValueShared(sl.value, s.opts.Serializer)
		}
	}
	return values
}

// List implements saver.Saver. The listing is taken when the iteration begins.
func (s *Saver) List(ctx context.Context, q saver.Query) iter.Seq2[*saver.Tuple, error] {
	return func(yield func(*saver.Tuple, error) bool) {
		all, err := s.sel(ctx, q)
		if err != nil {
			yield(nil, err)
			return
		}
		matches := 0
		for _, f := range all {
			if q.Limit > 0 && matches == q.Limit {
				return
			}
			t, err := s.match(ctx, f, q.Filter)
			if err != nil {
				yield(nil, err)
				return
			}
			if t == nil {
				continue
			}
			matches++
			if !yield(t, nil) {
				return
			}
		}
	}
}

// sel returns the checkpoints that q selects, in the order of a listing. It ignores the filter; without one,
// it returns no more than the limit.
func (s *Saver) sel(ctx context.Context, q saver.Query) ([]found, error) {
	if err := q.Validate(); err != nil {
		return nil, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	if q.Limit == saver.NoResults {
		return nil, nil
	}
	all := first{}
	if len(q.Filter) == 0 {
		all.limit = q.Limit
	}
	threads := s.threads
	if q.ThreadID != "" {
		threads = map[string]*thread{}
		if t := s.threads[q.ThreadID]; t != nil {
			threads[q.ThreadID] = t
		}
	}
	for threadID, t := range threads {
		for ns, n := range t.namespaces {
			if q.Namespace != nil && *q.Namespace != ns {
				continue
			}
			for id, cp := range n.checkpoints {
				if q.CheckpointID != "" && q.CheckpointID != id || q.Before != "" && id >= q.Before {
					continue
				}
				if at := (saver.Config{ThreadID: threadID, Namespace: ns, CheckpointID: id}); all.wants(at) {
					all.add(n.find(at, cp))
				}
			}
		}
	}
	all.sort()
	return all.found, nil
}

// first are the first checkpoints of a listing among those that were added, and a few others.
type first struct {
	found []found
	limit int // how many of them are needed; 0: all
	// cut is the last of limit checkpoints. What comes behind it is not needed.
	cut *saver.Config
}

func (f *first) wants(at saver.Config) bool { return f.cut == nil || at.CompareListing(*f.cut) < 0 }

func (f *first) add(one found) {
	f.found = append(f.found, one)
	if f.limit > 0 && len(f.found)-f.limit >= f.limit { // twice it, or more
		f.sort()
		f.cut = &f.found[f.limit-1].at
	}
}

// sort sorts them, and drops those that are not needed.
func (f *first) sort() {
	slices.SortFunc(f.found, func(a, b found) int { return a.at.CompareListing(b.at) })
	if f.limit > 0 {
		f.found = f.found[:min(f.limit, len(f.found))]
	}
}

// match returns the tuple of f if its metadata matches filter, or nil.
func (s *Saver) match(ctx context.Context, f found, filter map[string]any) (*saver.Tuple, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	md, err := saver.DecodeMetadata(f.cp.metadata, s.opts.Serializer)
	if err != nil {
		return nil, err
	}
	if !md.Match(filter) {
		return nil, nil
	}
	return s.tuple(f, md)
}

// DeltaChannelHistory implements saver.Saver.
func (s *Saver) DeltaChannelHistory(ctx context.Context, cfg saver.Config, channels []string) (map[string]saver.DeltaHistory, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	n := s.namespace(cfg.ThreadID, cfg.Namespace)
	id := cmp.Or(cfg.CheckpointID, n.newest)
	walk, seen := rules.NewDeltaWalk(channels), map[string]bool{id: true}
	cp := n.checkpoints[id]
	for cp != nil && cp.parent != "" && !walk.Done() {
		id = cp.parent
		if seen[id] {
			return nil, fmt.Errorf("checkpoint %q: %w", id, saver.ErrAncestorCycle)
		}
		seen[id] = true
		if cp = n.checkpoints[id]; cp != nil {
			walk.Visit(s.values(cp), rules.PendingWrites(n.calls[id], s.opts.Serializer))
		}
	}
	return walk.Result(), nil
}
