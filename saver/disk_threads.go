package saver

import (
	"cmp"
	"context"
	"iter"
	"strings"
	"time"

	"github.com/stele-go/stele/index"
)

// Threads implements ThreadLister. It reads nothing from disk, however many
// threads there are; the listing is the store at the moment the iteration
// begins.
func (s *Disk) Threads(ctx context.Context, q ThreadQuery) iter.Seq2[ThreadInfo, error] {
	return func(yield func(ThreadInfo, error) bool) {
		if err := s.threads(ctx, q, yield); err != nil {
			yield(ThreadInfo{}, err)
		}
	}
}

func (s *Disk) threads(ctx context.Context, q ThreadQuery, yield func(ThreadInfo, error) bool) error {
	if err := ValidateThreadQuery(q); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	v, err := s.e.View()
	if err != nil {
		return err
	}
	defer v.Release()
	found := 0
	aerr := v.Ascend(threadKey(q.Prefix), func(t *index.Thread) bool {
		if err = ctx.Err(); err != nil || !strings.HasPrefix(t.ID, threadKey(q.Prefix)) {
			return false
		}
		info := ThreadInfo{
			ThreadID:    strings.TrimPrefix(t.ID, spaceThread),
			UpdatedAt:   time.UnixMicro(t.Updated).UTC(),
			Interrupted: t.Flags&flagInterrupted != 0,
		}
		_, info.Head, _ = parseCheckpointKey(t.Head)
		if info.UpdatedAt.Before(q.UpdatedSince) || q.Interrupted && !info.Interrupted {
			return true
		}
		found++
		return yield(info, nil) && (q.Limit == 0 || found < q.Limit)
	})
	return cmp.Or(err, aerr)
}
