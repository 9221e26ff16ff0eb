package memory

import (
	"context"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/stele-go/stele/saver"
)

// Threads implements saver.ThreadLister. The listing is taken when the iteration
// begins.
func (s *Saver) Threads(ctx context.Context, q saver.ThreadQuery) iter.Seq2[saver.ThreadInfo, error] {
	return func(yield func(saver.ThreadInfo, error) bool) {
		infos, err := s.threadInfos(ctx, q)
		if err != nil {
			yield(saver.ThreadInfo{}, err)
			return
		}
		for i, info := range infos {
			if q.Limit > 0 && i == q.Limit {
				return
			}
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
	if err := saver.ValidateThreadQuery(q); err != nil {
		return nil, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	var infos []saver.ThreadInfo
	for _, id := range slices.Sorted(maps.Keys(s.threads)) {
		t := s.threads[id]
		if !strings.HasPrefix(id, q.Prefix) || t.updated.Before(q.UpdatedSince) {
			continue
		}
		root := s.namespace(id, "")
		info := saver.ThreadInfo{ThreadID: id, Head: root.head(), UpdatedAt: t.updated}
		info.Interrupted = info.Head != "" && interrupted(root.calls[info.Head])
		if info.Interrupted || !q.Interrupted {
			infos = append(infos, info)
		}
	}
	return infos, nil
}

func interrupted(calls []call) bool {
	sums := make([]saver.WriteCall, len(calls))
	for i, c := range calls {
		sums[i] = saver.NewWriteCall(c.TaskID, c.Channels)
	}
	return saver.Interrupted(sums)
}
