package bolt

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"

	"go.etcd.io/bbolt"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/rules"
	"github.com/stele-go/stele/saver/serde"
)

// named is the id of the checkpoint that cfg names, or of the newest.
func named(n *space, cfg saver.Config) string { return cmp.Or(cfg.CheckpointID, n.head()) }

// GetTuple implements saver.Saver.
func (s *Saver) GetTuple(ctx context.Context, cfg saver.Config) (tup *saver.Tuple, err error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	err = s.view(ctx, func(tx *bbolt.Tx) error {
		tup, err = s.get(tx, cfg)
		return err
	})
	return tup, err
}

// get is GetTuple in a transaction.
func (s *Saver) get(tx *bbolt.Tx, cfg saver.Config) (*saver.Tuple, error) {
	n := spaceOf(tx, cfg.ThreadID, cfg.Namespace)
	id := named(n, cfg)
	cp, err := n.checkpoint(id)
	if err != nil {
		return nil, err
	}
	if cp == nil {
		return nil, rules.NotFound(cfg)
	}
	md, err := saver.DecodeMetadata(cp.Metadata, s.opts.Serializer)
	if err != nil {
		return nil, err
	}
	return s.tuple(n, id, cp, md)
}

// tuple makes the tuple of a checkpoint. The values of channels are read when they are used.
func (s *Saver) tuple(n *space, id string, cp *checkpoint, md saver.Metadata) (*saver.Tuple, error) {
	at := saver.Config{ThreadID: n.thread, Namespace: n.ns, CheckpointID: id}
	t := &saver.Tuple{Config: at, Checkpoint: cp.checkpoint(id), Metadata: md, Note: cp.Note}
	for channel, sl := range cp.Slots {
		if sl.isFilled() {
			t.Checkpoint.Values[channel] = saver.ValueLazy(stored{s, n.thread, n.ns, sl.Number}, s.opts.Serializer)
		}
	}
	if cp.Parent != "" {
		parent := at.At(cp.Parent)
		t.Parent = &parent
	}
	calls, err := n.calls(id)
	if err != nil {
		return nil, err
	}
	t.PendingWrites = rules.PendingWrites(calls, s.opts.Serializer)
	if cp.Parent == "" || cp.V >= rules.FirstVersionWithTasks {
		return t, nil
	}
	if calls, err = n.calls(cp.Parent); err != nil {
		return nil, err
	}
	_, err = rules.MigratePendingSends(&t.Checkpoint, rules.PendingWrites(calls, s.opts.Serializer), func() (saver.Version, error) {
		return s.NextVersion(saver.Version{}, saver.ChannelTasks)
	})
	return t, err
}

// stored is a value in the file. It implements saver.Loader.
type stored struct {
	s          *Saver
	thread, ns string
	number     uint64
}

// LoadValue implements saver.Loader.
func (v stored) LoadValue(ctx context.Context) (t serde.Typed, err error) {
	err = v.s.view(ctx, func(tx *bbolt.Tx) error {
		var found bool
		if t, found, err = spaceOf(tx, v.thread, v.ns).value(v.number); err == nil && !found {
			err = fmt.Errorf("value of thread %q namespace %q: %w", v.thread, v.ns, saver.ErrNotFound)
		}
		return err
	})
	return t, err
}

// List implements saver.Saver. All that it yields is read when the iteration begins, because
// who iterates may write meanwhile, and bbolt cannot do that beside a reader of the same
// goroutine.
func (s *Saver) List(ctx context.Context, q saver.Query) iter.Seq2[*saver.Tuple, error] {
	return func(yield func(*saver.Tuple, error) bool) {
		all, err := s.list(ctx, q)
		each(ctx, all, err, yield)
	}
}

// each yields all, and an error once and last.
func each[T any](ctx context.Context, all []T, err error, yield func(T, error) bool) {
	var none T
	for _, v := range all {
		if err = ctx.Err(); err != nil {
			break
		}
		if !yield(v, nil) {
			return
		}
	}
	if err != nil {
		yield(none, err)
	}
}

func (s *Saver) list(ctx context.Context, q saver.Query) (all []*saver.Tuple, err error) {
	if err := q.Validate(); err != nil {
		return nil, err
	}
	err = s.view(ctx, func(tx *bbolt.Tx) error {
		if q.Limit == saver.NoResults {
			return nil
		}
		for _, at := range selected(tx, q) {
			if q.Limit > 0 && len(all) == q.Limit {
				return nil
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			tup, err := s.get(tx, at)
			if err != nil {
				return err
			}
			if tup.Metadata.Match(q.Filter) {
				all = append(all, tup)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// selected are the checkpoints that q selects but for its filter and limit, in the order of a
// listing.
func selected(tx *bbolt.Tx, q saver.Query) []saver.Config {
	threads := []string{q.ThreadID}
	if q.ThreadID == "" {
		threads = threadIDs(tx)
	}
	var all []saver.Config
	for _, thread := range threads {
		for _, n := range spacesOf(tx, thread) {
			if q.Namespace != nil && *q.Namespace != n.ns {
				continue
			}
			for _, id := range n.ids() {
				if (q.CheckpointID == "" || q.CheckpointID == id) && (q.Before == "" || id < q.Before) {
					all = append(all, saver.Config{ThreadID: thread, Namespace: n.ns, CheckpointID: id})
				}
			}
		}
	}
	slices.SortFunc(all, saver.Config.CompareListing)
	return all
}

// DeltaChannelHistory implements saver.Saver.
func (s *Saver) DeltaChannelHistory(ctx context.Context, cfg saver.Config, channels []string) (histories map[string]saver.DeltaHistory, err error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	err = s.view(ctx, func(tx *bbolt.Tx) error {
		histories, err = rules.DeltaHistories(cfg, channels, func(cfg saver.Config) (*saver.Tuple, error) { return s.get(tx, cfg) })
		return err
	})
	return histories, err
}
