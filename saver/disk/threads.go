package disk

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"strings"
	"time"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/engine"
	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/layout"
)

// Threads implements saver.Saver. The listing is the store at the moment the
// iteration begins. Which threads it has, and how far they have come, is in memory,
// however many there are. Graph and Next are read from one small record for each
// thread yielded that waits, failed or is unfinished; they are empty if that record
// is damaged, so that one thread does not hide the others. With ThreadQuery.WithoutNotes
// they are not read. With ThreadQuery.Metadata the records of checkpoints are read as well.
func (s *Saver) Threads(ctx context.Context, q saver.ThreadQuery) iter.Seq2[saver.ThreadInfo, error] {
	return func(yield func(saver.ThreadInfo, error) bool) {
		if err := s.threads(ctx, q, yield); err != nil {
			yield(saver.ThreadInfo{}, err)
		}
	}
}

func (s *Saver) threads(ctx context.Context, q saver.ThreadQuery, yield func(saver.ThreadInfo, error) bool) error {
	if err := q.Validate(); err != nil {
		return err
	}
	if err := s.e.Current(ctx); err != nil {
		return err
	}
	if q.ThreadID != "" && len(q.Metadata) == 0 {
		if told, err := s.tellThread(q, yield); told || err != nil {
			return err
		}
	}
	v, err := s.e.View()
	if err != nil {
		return err
	}
	defer v.Release()
	matches, end := s.metadataMatcher(v, q.Metadata)
	defer end()
	found, from := 0, layout.ThreadKey(cmp.Or(q.ThreadID, q.Prefix))
	aerr := v.Ascend(from, func(t *index.Partition) bool {
		if err = ctx.Err(); err != nil || !strings.HasPrefix(t.ID, layout.ThreadKey(q.Prefix)) || q.ThreadID != "" && t.ID != from {
			return false
		}
		info := threadInfo(t)
		if !isAsked(q, info) {
			return true
		}
		var ok bool
		if ok, err = matches(ctx, t); err != nil || !ok {
			return err == nil
		}
		if !q.WithoutNotes {
			if err = s.describeThread(ctx, v, t, &info); err != nil {
				return false
			}
		}
		found++
		return yield(info, nil) && (q.Limit == 0 || found < q.Limit)
	})
	return cmp.Or(err, aerr)
}

// tellThread is threads for one thread whose record need not be read; told is false if it must be read.
// It takes no view, because commits after a view copy the parts of the index that they change.
func (s *Saver) tellThread(q saver.ThreadQuery, yield func(saver.ThreadInfo, error) bool) (told bool, err error) {
	if !strings.HasPrefix(q.ThreadID, q.Prefix) {
		return true, nil
	}
	if err := s.e.EnterToRead(); err != nil {
		return false, err
	}
	t, err := s.e.Index.Partition(layout.ThreadKey(q.ThreadID))
	s.e.Leave()
	if err != nil || t == nil {
		return err == nil, err
	}
	info := threadInfo(t)
	if isAsked(q, info) {
		if !q.WithoutNotes && isNoted(info) {
			return false, nil
		}
		yield(info, nil)
	}
	return true, nil
}

// isAsked reports whether a query selects a thread, apart from its Metadata.
func isAsked(q saver.ThreadQuery, info saver.ThreadInfo) bool {
	return !info.UpdatedAt.Before(q.UpdatedSince) && (q.Status == "" || q.Status == info.Status)
}

// isNoted reports whether the record of a thread may have more to add to info.
func isNoted(info saver.ThreadInfo) bool {
	return info.Status != saver.StatusDone && info.Status != saver.StatusUnknown && info.Head != ""
}

// metadataMatcher returns a function that reports whether any checkpoint of a thread in v
// matches filter; an empty filter matches every thread. The function is not safe for
// concurrent use. Call end when done with it.
func (s *Saver) metadataMatcher(v *engine.View, filter map[string]any) (matches func(context.Context, *index.Partition) (bool, error), end func()) {
	if len(filter) == 0 {
		return func(context.Context, *index.Partition) (bool, error) { return true, nil }, func() {}
	}
	readers := listReaders{s: s, from: s.e.Reader(), alike: s.alike()}
	return func(ctx context.Context, t *index.Partition) (found bool, err error) {
		if t, err = v.Load(t); err != nil {
			return false, err
		}
		r := readers.of(t)
		// The newest first: a user's threads mostly are so to the end.
		t.Descend(string(layout.KeyCheckpoint), "", func(it *index.Entry) bool {
			if err = ctx.Err(); err != nil {
				return false
			}
			var h header
			if h, err = r.header(ctx, it); err == nil {
				found = h.md.Match(filter)
			}
			return err == nil && !found
		})
		return found, err
	}, readers.from.End
}

// threadInfo returns the information about a thread that is in the index.
func threadInfo(t *index.Partition) saver.ThreadInfo {
	info := saver.ThreadInfo{
		ThreadID:  strings.TrimPrefix(t.ID, layout.SpaceThread),
		UpdatedAt: time.UnixMicro(t.Updated).UTC(),
		Status:    layout.StatusOfFlags(t.Flags),
	}
	_, info.Head, _ = layout.ParseCheckpointKey(t.Head)
	return info
}

// describeThread sets Held of info, and Graph and Next from the record of thread t in v, if the record has them.
func (s *Saver) describeThread(ctx context.Context, v *engine.View, t *index.Partition, info *saver.ThreadInfo) error {
	if !isNoted(*info) {
		return nil
	}
	note, head, err := s.noteOf(ctx, v, t)
	held := s.heldUpTo()
	if info.Held = held > 0 && (head == nil || head.LSN <= held); info.Held && head != nil {
		// What tasks have written since says that somebody went on with it.
		if t, err := v.Load(t); err == nil {
			t.Ascend(layout.WritesPrefix("", info.Head), func(it *index.Entry) bool {
				info.Held = it.LSN <= held
				return info.Held
			})
		}
	}
	if errors.Is(err, saver.ErrCorrupt) || errors.Is(err, fault.ErrVersion) {
		return nil
	}
	info.Describe(note)
	return err
}

// noteOf is the root head of a thread, and its note.
func (s *Saver) noteOf(ctx context.Context, v *engine.View, t *index.Partition) (*saver.Note, *index.Entry, error) {
	t, err := v.Load(t)
	if err != nil {
		return nil, nil, err
	}
	it := t.Get(t.Head)
	if layout.OutlineOf(it) == nil {
		return nil, it, nil
	}
	b, err := s.e.ReadShared(ctx, t.Family, it.Slots.At(0).Ref)
	if err != nil {
		return nil, it, err
	}
	rec, err := layout.DecodeCheckpointRecord(b)
	if err != nil {
		return nil, it, layout.AsCorrupt(err)
	}
	return rec.Note, it, nil
}
