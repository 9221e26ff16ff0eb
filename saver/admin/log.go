package admin

import (
	"context"
	"errors"
	"iter"
	"path/filepath"
	"slices"
	"time"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/engine"
	"github.com/stele-go/stele/engine/check"
	"github.com/stele-go/stele/saver/layout"
	"github.com/stele-go/stele/wal"
)

// LogQuery selects records of the log.
type LogQuery struct {
	From   uint64 // first LSN; 0: from the beginning
	To     uint64 // last LSN; 0: to the end
	Thread string // only records that touch this thread
	Marks  bool   // sync and close marks as well
	Limit  int    // 0: no limit
}

// LogEntry is one frame of the log.
type LogEntry struct {
	LSN     uint64    `json:"lsn"`
	File    string    `json:"file"`
	Offset  int64     `json:"offset"` // of the frame
	Size    int64     `json:"size"`   // header and padding included
	Type    string    `json:"type"`   // "record", "sync mark", "close mark", "damage"
	Promise int64     `json:"promise"`
	Time    time.Time `json:"time"`
	Ops     []LogOp   `json:"ops,omitempty"`
	Detail  string    `json:"detail,omitempty"` // of damage
}

// LogOp is one operation of a record.
type LogOp struct {
	Op     string `json:"op"` // "put", "delete", "drop", "copy", "flags"
	Thread string `json:"thread"`
	Kind   string `json:"kind"`            // of the thread: "thread", "run", "other"
	Entry  string `json:"entry,omitempty"` // "checkpoint ID", "writes ID", or the quoted key
	Slots  int    `json:"slots,omitempty"`
	Stored int    `json:"stored,omitempty"` // values in this record
	Bytes  int64  `json:"bytes,omitempty"`  // of them
}

// Log yields the entries of the log of the store in dir, oldest first, without its lock. Records that a
// flush has moved into segments are no longer in the log. Damage is yielded as an entry. An error of
// the device is yielded last.
func Log(ctx context.Context, dir string, a Access, q LogQuery) iter.Seq2[LogEntry, error] {
	return func(yield func(LogEntry, error) bool) {
		if err := readLog(ctx, dir, a, q, func(e LogEntry) bool { return yield(e, nil) }); err != nil && !errors.Is(err, errStop) {
			yield(LogEntry{}, err)
		}
	}
}

// errStop ends a walk when the consumer stops the iteration.
var errStop = errors.New("stop")

func readLog(ctx context.Context, dir string, a Access, q LogQuery, yield func(LogEntry) bool) error {
	m, err := check.Capture(a.fs(), dir, a.Options.Keys)
	if err != nil {
		return err
	}
	defer m.Release()
	names, err := m.FS.List(dir)
	if err != nil {
		return err
	}
	var nums []base.FileNum
	for _, n := range names {
		if num, ok := base.LogFile.Parse(n); ok {
			nums = append(nums, num)
		}
	}
	slices.Sort(nums)
	found := 0
	for _, num := range nums {
		name := base.LogFile.Name(num)
		f, err := m.FS.Open(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		_, err = wal.Inspect(f, name, func(p wal.Piece) error {
			if err := ctx.Err(); err != nil {
				return err
			}
			e, ok := q.entry(name, p)
			if !ok {
				return nil
			}
			if found++; !yield(e) || q.Limit > 0 && found == q.Limit {
				return errStop
			}
			return nil
		}, wal.WithKeys(m.Keyring()))
		if errors.Is(err, fault.ErrCorrupt) {
			c := findingOf(err)
			if !yield(LogEntry{File: name, Type: "damage", Detail: c.Kind + ": " + c.Detail}) {
				return errStop
			}
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// entry makes an entry from a piece of a log file. ok is false if q does not select it.
func (q *LogQuery) entry(name string, p wal.Piece) (e LogEntry, ok bool) {
	e = LogEntry{LSN: uint64(p.LSN), File: name, Offset: p.Offset, Size: p.Size, Type: p.Type, Promise: p.SyncedTo}
	switch {
	case !p.Valid():
		e.Type, e.Detail = "damage", "no valid frame: a torn tail, a writer at work, or damage; verify tells"
		return e, p.Used > 0 && q.Thread == ""
	case e.LSN < q.From || q.To > 0 && e.LSN > q.To:
		return e, false
	case p.Type != "record":
		return e, q.Marks && q.Thread == ""
	}
	rec, err := engine.DescribeRecord(p.LSN, p.Payload)
	if p.Err != nil {
		err = p.Err
	}
	if err != nil {
		e.Type, e.Detail = "damage", err.Error()
		return e, true
	}
	e.Time = time.UnixMicro(rec.Time).UTC()
	touches := q.Thread == ""
	for _, o := range rec.Ops {
		op := logOp(o)
		touches = touches || op.Kind == "thread" && op.Thread == q.Thread || o.Op == "copy" && o.Key == layout.ThreadKey(q.Thread)
		e.Ops = append(e.Ops, op)
	}
	return e, touches
}

func logOp(o engine.RecordOpInfo) LogOp {
	op := LogOp{Op: o.Op, Slots: len(o.Slots)}
	op.Thread, op.Kind = SplitThread(o.Partition)
	switch {
	case o.Op == "copy":
		op.Entry = "to " + threadName(o.Key)
	case o.Key != "":
		op.Entry = entryName(op.Kind, o.Key)
	}
	for _, s := range o.Slots {
		if s.Value == "here" || s.Value == "patch" {
			op.Stored++
			op.Bytes += s.Len
		}
	}
	return op
}
