package disk

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/stele-go/stele/engine"
	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/saver/layout"
)

// ErasePlan says what an EraseRequest would erase.
type ErasePlan struct {
	Threads []ErasedThread `json:"threads"` // in the order of their ids
	Items   []ErasedItems  `json:"items"`   // as the request has the prefixes, those of Before first
}

// ErasedThread is a thread of an ErasePlan. All but its id and its signals is zero if it is not there; its
// id is erased all the same.
type ErasedThread struct {
	ThreadID    string    `json:"id"`
	Checkpoints int       `json:"checkpoints"`         // of all namespaces
	Bytes       int64     `json:"bytes"`               // see ErasedItems
	UpdatedAt   time.Time `json:"updated_at,omitzero"` // last write, UTC
	// Signals are the items of its inbox: signals that nobody has taken or that were refused, their order, and keys that were used. A
	// thread that was deleted may have some.
	Signals int `json:"signals,omitempty"`
}

// There reports whether the store has anything of the thread.
func (t *ErasedThread) There() bool { return !t.UpdatedAt.IsZero() || t.Signals > 0 }

// ErasedItems are the items below one prefix of an ErasePlan, expired ones that were not
// swept included.
type ErasedItems struct {
	Prefix     []string `json:"prefix"`
	Namespaces int      `json:"namespaces"`
	Items      int      `json:"items"`
	// Bytes is about what they take in the log: of values stored as patches the patches,
	// nothing compressed, what copies of a thread share counted for each of them.
	Bytes int64 `json:"bytes"`
}

// PlanErase says what EraseRequest would erase, and erases nothing; a read-only Disk does
// it too. It reads the index of the threads and namespaces, but no value.
func (s *Saver) PlanErase(ctx context.Context, req EraseRequest) (ErasePlan, error) {
	plan := ErasePlan{Threads: []ErasedThread{}, Items: []ErasedItems{}}
	if err := req.validate(); err != nil {
		return plan, err
	}
	if err := ctx.Err(); err != nil {
		return plan, err
	}
	v, err := s.e.View()
	if err != nil {
		return plan, err
	}
	defer v.Release()
	var threads []string
	var prefixes [][]string
	for _, part := range req.parts() {
		threads, prefixes = append(threads, part.Threads...), append(prefixes, part.Items...)
	}
	slices.Sort(threads)
	for _, id := range slices.Compact(threads) {
		th, err := planThread(ctx, v, id)
		if err != nil {
			return plan, err
		}
		plan.Threads = append(plan.Threads, th)
	}
	for _, prefix := range prefixes {
		items, err := planItems(ctx, v, prefix)
		if err != nil {
			return plan, err
		}
		plan.Items = append(plan.Items, items)
	}
	return plan, nil
}

func planThread(ctx context.Context, v *engine.View, id string) (ErasedThread, error) {
	out := ErasedThread{ThreadID: id}
	if err := ctx.Err(); err != nil {
		return out, err
	}
	inbox, former := layout.Inbox(id)
	for _, labels := range [][]string{inbox, former} {
		signals, err := planItems(ctx, v, labels)
		if err != nil {
			return out, err
		}
		out.Signals += signals.Items
		out.Bytes += signals.Bytes
	}
	t, err := v.Partition(layout.ThreadKey(id))
	if err != nil || t == nil {
		return out, err
	}
	out.UpdatedAt = time.UnixMicro(t.Updated).UTC()
	t.Ascend(string(layout.KeyCheckpoint), func(*index.Entry) bool { out.Checkpoints++; return true })
	out.Bytes += storedBytes(t)
	return out, nil
}

func planItems(ctx context.Context, v *engine.View, prefix []string) (ErasedItems, error) {
	out := ErasedItems{Prefix: prefix}
	var failed error
	from := layout.ItemsKey(prefix)
	err := v.Ascend(from, func(t *index.Partition) bool {
		if !strings.HasPrefix(t.ID, from) {
			return false
		}
		if failed = ctx.Err(); failed != nil {
			return false
		}
		if t, failed = v.Load(t); failed != nil {
			return false
		}
		out.Namespaces++
		t.Ascend("", func(*index.Entry) bool { out.Items++; return true })
		out.Bytes += storedBytes(t)
		return true
	})
	if failed != nil {
		err = failed
	}
	return out, err
}

// storedBytes is the size of the values of a thread, each counted once.
func storedBytes(t *index.Partition) (n int64) {
	seen := map[index.Ref]bool{}
	t.Ascend("", func(it *index.Entry) bool {
		for _, ref := range it.Slots.Refs() {
			if loc, ok := t.Family.Loc(ref); ok && !ref.Empty() && !seen[ref] {
				seen[ref] = true
				n += int64(loc.Len)
			}
		}
		return true
	})
	return n
}
