package memory

import (
	"context"
	"iter"
	"slices"
	"strings"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/rules"
)

// Threads implements saver.Saver. The listing is taken when the iteration
// begins.
func (s *Saver) Threads(ctx context.Context, q saver.ThreadQuery) iter.Seq2[saver.ThreadInfo, error] {
	return func(yield func(saver.ThreadInfo, error) bool) {
		infos, err := s.threadInfos(ctx, q)
		if err != nil {
			yield(saver.ThreadInfo{}, err)
			return
		}
		for _, info := range infos {
			if err := ctx.Err(); err != nil {
				yield(saver.ThreadInfo{}, err)
				return
			}
			if !yield(info, nil) {
				return
			}
		}
	}
}

func (s *Saver) threadInfos(ctx context.Context, q saver.ThreadQuery) ([]saver.ThreadInfo, error) {
	if err := q.Validate(); err != nil {
		return nil, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	ids := []string{q.ThreadID}
	if q.ThreadID == "" {
		ids = nil
		for id := range s.threads {
			if strings.HasPrefix(id, q.Prefix) {
				ids = append(ids, id)
			}
		}
		slices.Sort(ids)
	}
	var infos []saver.ThreadInfo
	for _, id := range ids {
		if q.Limit > 0 && len(infos) == q.Limit {
			break
		}
		t := s.threads[id]
		if t == nil || !strings.HasPrefix(id, q.Prefix) || t.updated.Before(q.UpdatedSince) {
			continue
		}
		root := s.namespace(id, "")
		info := saver.ThreadInfo{ThreadID: id, Head: root.newest, UpdatedAt: t.updated}
		root.describe(&info)
		if q.Status != "" && q.Status != info.Status {
			continue
		}
		switch ok, err := s.matches(ctx, t, q.Metadata); {
		case err != nil:
			return nil, err
		case ok:
			infos = append(infos, info)
		}
	}
	return infos, nil
}

// matches reports whether a checkpoint of a thread has metadata that matches filter. The
// caller holds mu.
func (s *Saver) matches(ctx context.Context, t *thread, filter map[string]any) (bool, error) {
	if len(filter) == 0 {
		return true, nil
	}
	for _, n := range t.namespaces {
		for _, cp := range n.checkpoints {
			if err := ctx.Err(); err != nil {
				return false, err
			}
			md, err := saver.DecodeMetadata(cp.metadata, s.opts.Serializer)
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

// describe fills in info from the head of a root namespace.
func (n *namespace) describe(info *saver.ThreadInfo) {
	cp := n.checkpoints[info.Head]
	if cp == nil {
		return
	}
	calls := make([]rules.WriteCall, len(n.calls[info.Head]))
	for i, c := range n.calls[info.Head] {
		calls[i] = rules.NewWriteCall(c.TaskID, c.Channels)
	}
	info.Status = rules.StatusOf(cp.note, calls)
	info.Describe(cp.note)
}
