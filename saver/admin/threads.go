package admin

import (
	"iter"
	"strings"
	"time"

	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/saver"
)

// ThreadQuery selects threads. The zero ThreadQuery selects all that LangGraph knows.
type ThreadQuery struct {
	Prefix      string // thread ids that begin with it
	After       string // thread ids greater than it: where a page before ended
	Interrupted bool   // only threads that wait to be resumed
	Limit       int    // 0: no limit
	All         bool   // what the store keeps besides threads as well: runs and others
}

// ThreadRow is one thread of a store.
type ThreadRow struct {
	ID          string    `json:"id"`
	Kind        string    `json:"kind"` // "thread", "run", or "other": written by something this package does not know
	Head        string    `json:"head,omitempty"`
	UpdatedAt   time.Time `json:"updated_at"`
	Interrupted bool      `json:"interrupted"`
	Flags       uint8     `json:"flags"`
	LSN         uint64    `json:"lsn"` // of the last commit that touched it
}

// Threads yields the threads q selects, in the order of their ids, as they are when the
// iteration begins. Of the disk it reads at most the table of threads.
func Threads(d *saver.Disk, q ThreadQuery) iter.Seq2[ThreadRow, error] {
	return func(yield func(ThreadRow, error) bool) {
		v, err := d.Engine().View()
		if err != nil {
			yield(ThreadRow{}, err)
			return
		}
		defer v.Release()
		prefix, from := "", ""
		if !q.All {
			prefix, from = "t"+q.Prefix, "t"+max(q.Prefix, q.After)
		}
		found := 0
		err = v.Ascend(from, func(t *index.Thread) bool {
			if !strings.HasPrefix(t.ID, prefix) {
				return t.ID < prefix
			}
			row := threadRow(t)
			switch {
			case q.All && !strings.HasPrefix(row.ID, q.Prefix):
				return true
			case q.After != "" && row.ID <= q.After, q.Interrupted && !row.Interrupted:
				return true
			}
			found++
			return yield(row, nil) && (q.Limit <= 0 || found < q.Limit)
		})
		if err != nil {
			yield(ThreadRow{}, err)
		}
	}
}

func threadRow(t *index.Thread) ThreadRow {
	row := ThreadRow{UpdatedAt: time.UnixMicro(t.Updated).UTC(), Flags: t.Flags, LSN: uint64(t.LSN)}
	row.ID, row.Kind = SplitThread(t.ID)
	if k, ok := saver.ParseItem(t.Head); ok && row.Kind == "thread" {
		row.Head = k.CheckpointID
	}
	row.Interrupted = row.Kind == "thread" && t.Flags&1 != 0
	return row
}
