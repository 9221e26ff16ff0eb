package admin

import (
	"cmp"
	"context"
	"iter"
	"strings"
	"time"

	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/saver/layout"
)

// ThreadQuery selects threads. The zero ThreadQuery selects all that LangGraph knows.
type ThreadQuery struct {
	Prefix string       // thread ids that begin with it
	After  string       // thread ids greater than it: the last id of the previous page
	Status saver.Status // threads of this status; "" for all
	Limit  int          // 0: no limit
	All    bool         // also runs, and all other kinds of partitions

	// Metadata selects threads with a checkpoint that matches it. saver.ThreadQuery says
	// what that costs. Only threads match.
	Metadata map[string]any
}

// ThreadRow is one thread of a store.
type ThreadRow struct {
	ID        string       `json:"id"`
	Kind      string       `json:"kind"` // "thread", "run", or "other": written by something this package does not know
	Head      string       `json:"head,omitempty"`
	UpdatedAt time.Time    `json:"updated_at"`
	Status    saver.Status `json:"status,omitempty"`  // how far a thread has come; "" if its newest checkpoint does not say
	Graph     string       `json:"graph,omitempty"`   // and of a thread that is not at its end: the graph that it is of,
	Next      []string     `json:"next,omitempty"`    // the nodes that run next,
	Version   string       `json:"version,omitempty"` // and the version of the graph
	Flags     uint8        `json:"flags"`
	LSN       uint64       `json:"lsn"` // of the last commit that touched it
}

// Threads yields the threads that q selects, in the order of their ids, as they are when the
// iteration begins. From disk it reads the table of threads, and one small record for each
// thread it yields that is not done, unless q.Metadata needs more.
//
// Of another saver it yields what saver.Saver.Threads does, without Flags and LSN. q.After then reads what lies before
// it, too, and q.All is an InvalidError: such a saver has threads alone.
func Threads(ctx context.Context, s saver.Saver, q ThreadQuery) iter.Seq2[ThreadRow, error] {
	if d, ok := s.(*disk.Saver); ok {
		return threads(ctx, d, q, true)
	}
	return threadsElsewhere(ctx, s, q)
}

// threadsElsewhere is Threads of a saver that has no engine.
func threadsElsewhere(ctx context.Context, s saver.Saver, q ThreadQuery) iter.Seq2[ThreadRow, error] {
	return func(yield func(ThreadRow, error) bool) {
		if q.All {
			yield(ThreadRow{}, &saver.InvalidError{Field: "ThreadQuery.All", Reason: "is of stores in a directory alone"})
			return
		}
		known := saver.ThreadQuery{Prefix: q.Prefix, Status: q.Status, Metadata: q.Metadata}
		if q.Status == saver.StatusSleeping { // as savers call it
			known.Status = saver.StatusWaiting
		}
		if q.After == "" && known.Status != saver.StatusWaiting {
			known.Limit = q.Limit
		}
		found := 0
		for t, err := range s.Threads(ctx, known) {
			if err != nil {
				yield(ThreadRow{}, err)
				return
			}
			if t.ThreadID <= q.After && q.After != "" {
				continue
			}
			row := ThreadRow{ID: t.ThreadID, Kind: "thread", Head: t.Head, UpdatedAt: t.UpdatedAt, Status: t.Status, Graph: t.Graph, Next: t.Next, Version: t.Version}
			if row.Status == saver.StatusWaiting {
				if waits, err := WaitsOf(ctx, s, t.ThreadID); err == nil && waits.OnlySleeps() { // else show says what is wrong
					row.Status = saver.StatusSleeping
				}
			}
			if q.Status != "" && row.Status != q.Status {
				continue
			}
			if found++; !yield(row, nil) || found == q.Limit {
				return
			}
		}
	}
}

// threads is Threads. Without describe it reads no records and leaves Graph, Next and Version empty.
func threads(ctx context.Context, d *disk.Saver, q ThreadQuery, describe bool) iter.Seq2[ThreadRow, error] {
	return func(yield func(ThreadRow, error) bool) {
		known := q.Status
		if known == saver.StatusSleeping { // as savers call it
			known = saver.StatusWaiting
		}
		if err := (saver.ThreadQuery{Status: known, Metadata: q.Metadata, Limit: q.Limit}).Validate(); err != nil {
			yield(ThreadRow{}, err)
			return
		}
		v, err := d.Inside().Engine.View()
		if err != nil {
			yield(ThreadRow{}, err)
			return
		}
		defer v.Release()
		prefix, from := "", ""
		if !q.All {
			prefix, from = layout.ThreadKey(q.Prefix), layout.ThreadKey(max(q.Prefix, q.After))
		}
		matches, end := d.Inside().MetadataMatcher(v, q.Metadata)
		defer end()
		found := 0
		var failed error
		err = v.Ascend(from, func(t *index.Partition) bool {
			if !strings.HasPrefix(t.ID, prefix) {
				return t.ID < prefix
			}
			if failed = ctx.Err(); failed != nil {
				return false
			}
			row := threadRow(t)
			if row.Status == saver.StatusWaiting && (q.Status == "" || known == saver.StatusWaiting) {
				if row.Status, failed = statusOf(ctx, d, v, t); failed != nil {
					return false
				}
			}
			switch {
			case q.All && !strings.HasPrefix(row.ID, q.Prefix):
				return true
			case q.After != "" && row.ID <= q.After, q.Status != "" && row.Status != q.Status:
				return true
			case len(q.Metadata) > 0 && row.Kind != "thread":
				return true
			}
			var ok bool
			if ok, failed = matches(ctx, t); failed != nil || !ok {
				return failed == nil
			}
			if describe && row.Kind == "thread" {
				info := saver.ThreadInfo{Head: row.Head, Status: row.Status}
				if failed = d.Inside().DescribeThread(ctx, v, t, &info); failed != nil {
					return false
				}
				row.Graph, row.Next, row.Version = info.Graph, info.Next, info.Version
			}
			found++
			return yield(row, nil) && (q.Limit <= 0 || found < q.Limit)
		})
		if err := cmp.Or(failed, err); err != nil {
			yield(ThreadRow{}, err)
		}
	}
}

func threadRow(t *index.Partition) ThreadRow {
	row := ThreadRow{UpdatedAt: time.UnixMicro(t.Updated).UTC(), Flags: t.Flags, LSN: uint64(t.LSN)}
	row.ID, row.Kind = SplitThread(t.ID)
	if k, ok := layout.ParseEntry(t.Head); ok && row.Kind == "thread" {
		row.Head = k.CheckpointID
	}
	if row.Kind == "thread" {
		row.Status = layout.StatusOfFlags(t.Flags)
	}
	return row
}
