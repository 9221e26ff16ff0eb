package bolt

import (
	"context"
	"iter"
	"strings"

	"go.etcd.io/bbolt"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/rules"
)

// Threads implements saver.Saver. The listing is taken when the iteration begins.
func (s *Saver) Threads(ctx context.Context, q saver.ThreadQuery) iter.Seq2[saver.ThreadInfo, error] {
	return func(yield func(saver.ThreadInfo, error) bool) {
		all, err := s.threads(ctx, q)
		each(ctx, all, err, yield)
	}
}

func (s *Saver) threads(ctx context.Context, q saver.ThreadQuery) (all []saver.ThreadInfo, err error) {
	if err := q.Validate(); err != nil {
		return nil, err
	}
	err = s.view(ctx, func(tx *bbolt.Tx) error {
		ids := []string{q.ThreadID}
		if q.ThreadID == "" {
			ids = threadIDs(tx)
		}
		for _, id := range ids {
			if threadOf(tx, id) == nil || !strings.HasPrefix(id, q.Prefix) {
				continue
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			info, err := describe(tx, id)
			if err != nil {
				return err
			}
			if info.UpdatedAt.Before(q.UpdatedSince) || q.Status != "" && q.Status != info.Status {
				continue
			}
			switch ok, err := s.matches(tx, id, q.Metadata); {
			case err != nil:
				return err
			case ok:
				all = append(all, info)
			}
			if q.Limit > 0 && len(all) == q.Limit {
				return nil
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// describe says how a thread stands, by the head of its root namespace.
func describe(tx *bbolt.Tx, thread string) (saver.ThreadInfo, error) {
	stored, _, err := load[threadInfo](threadOf(tx, thread), infoName)
	info := saver.ThreadInfo{ThreadID: thread, UpdatedAt: stored.updated()}
	root := spaceOf(tx, thread, "")
	if info.Head = root.head(); err != nil || info.Head == "" {
		return info, err
	}
	cp, err := root.checkpoint(info.Head)
	if err != nil {
		return info, err
	}
	plans, err := root.calls(info.Head)
	if err != nil {
		return info, err
	}
	var calls []rules.WriteCall
	for _, p := range plans {
		calls = append(calls, rules.NewWriteCall(p.TaskID, p.Channels))
	}
	info.Status = rules.StatusOf(cp.Note, calls)
	info.Describe(cp.Note)
	return info, nil
}

// matches reports whether a checkpoint of a thread has metadata that matches filter.
func (s *Saver) matches(tx *bbolt.Tx, thread string, filter map[string]any) (bool, error) {
	if len(filter) == 0 {
		return true, nil
	}
	for _, n := range spacesOf(tx, thread) {
		all, err := n.all()
		if err != nil {
			return false, err
		}
		for _, cp := range all {
			md, err := saver.DecodeMetadata(cp.Metadata, s.opts.Serializer)
			if err != nil {
				return false, err
			}
			if md.Match(filter) {
				return true, nil
			}
		}
	}
	return false, nil
}
