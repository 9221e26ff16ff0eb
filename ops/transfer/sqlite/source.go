package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	_ "modernc.org/sqlite" // the driver

	"github.com/stele-go/stele/ops/transfer"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/serde"
)

// Source is an open file. It is a transfer.Source.
type Source struct {
	db          *sql.DB
	tx          *sql.Tx
	taskPath    string // the column, or what stands for it
	checkpoints bool   // there are their tables
	items       string // selects the items; "" if there is no table of them
}

// ErrForeign: the file has no tables of LangGraph's SQLite savers, or is no SQLite file.
var ErrForeign = errors.New("not a file of LangGraph's SQLite saver")

// Open opens a file for reading. All that is read is of one moment, that of Open; a program
// that writes to the file may go on. SQLite may make the files path-wal and path-shm if the
// file is in WAL mode, but the file itself is not changed. ctx bounds the life of the Source.
func Open(ctx context.Context, path string) (*Source, error) {
	if info, err := os.Stat(path); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: %w: it is no regular file", path, ErrForeign)
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	s, err := open(ctx, abs, "")
	if err != nil && noWAL(abs) {
		// A file in WAL mode cannot be opened where nothing can be made beside it. If no
		// other program has it open, and it has no log, it can be read as it is.
		if alone, aerr := open(ctx, abs, "&immutable=1"); aerr == nil {
			return alone, nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

// noWAL reports whether a database has no log beside it.
func noWAL(path string) bool {
	_, err := os.Stat(path + "-wal")
	return errors.Is(err, fs.ErrNotExist)
}

func open(ctx context.Context, path, more string) (*Source, error) {
	path = filepath.ToSlash(path)
	if !strings.HasPrefix(path, "/") { // C:\
		path = "/" + path
	}
	u := url.URL{Scheme: "file", Path: path, RawQuery: "mode=ro&_pragma=query_only(1)&_pragma=busy_timeout(10000)" + more}
	db, err := sql.Open("sqlite", u.String())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	s := &Source{db: db}
	if err := s.begin(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// begin takes the moment that is read, and looks at the tables.
func (s *Source) begin(ctx context.Context) error {
	var err error
	if s.tx, err = s.db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true}); err != nil {
		return err
	}
	columns := map[string]bool{}
	tables := map[string]bool{}
	for _, table := range []string{"checkpoints", "writes", "store"} {
		err := s.rows(ctx, func(scan func(...any) error) error {
			var name string
			if err := scan(&name); err != nil {
				return err
			}
			columns[table+"."+name], tables[table] = true, true
			return nil
		}, "SELECT name FROM pragma_table_info(?)", table)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrForeign, err)
		}
	}
	if tables["store"] {
		if err := s.beginItems(columns); err != nil {
			return err
		}
		if !tables["checkpoints"] && !tables["writes"] {
			return nil // a long-term store in a file of its own
		}
	}
	s.checkpoints = true
	for _, need := range []string{"checkpoints.thread_id", "checkpoints.checkpoint_ns", "checkpoints.checkpoint_id", "checkpoints.parent_checkpoint_id",
		"checkpoints.type", "checkpoints.checkpoint", "checkpoints.metadata", "writes.thread_id", "writes.checkpoint_ns", "writes.checkpoint_id",
		"writes.task_id", "writes.idx", "writes.channel", "writes.type", "writes.value"} {
		if !columns[need] {
			return fmt.Errorf("%w: it has no column %s", ErrForeign, need)
		}
	}
	if s.taskPath = "''"; columns["writes.task_path"] {
		s.taskPath = "task_path"
	}
	return nil
}

// Close closes the file.
func (s *Source) Close() error {
	var err error
	if s.tx != nil {
		if err = s.tx.Rollback(); errors.Is(err, sql.ErrTxDone) {
			err = nil
		}
	}
	return errors.Join(err, s.db.Close())
}

// rows calls each for every row of a query.
func (s *Source) rows(ctx context.Context, each func(scan func(...any) error) error, query string, args ...any) error {
	rows, err := s.tx.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	for rows.Next() {
		if err := each(rows.Scan); err != nil {
			return errors.Join(err, rows.Close())
		}
	}
	return errors.Join(rows.Err(), rows.Close())
}

// Count is the number of checkpoints in the file.
func (s *Source) Count(ctx context.Context) (n int, err error) {
	if !s.checkpoints {
		return 0, nil
	}
	err = s.tx.QueryRowContext(ctx, "SELECT count(*) FROM checkpoints").Scan(&n)
	return n, err
}

// Tuples implements transfer.Source.
func (s *Source) Tuples(ctx context.Context, sel transfer.Selection) iter.Seq2[*transfer.Tuple, error] {
	return func(yield func(*transfer.Tuple, error) bool) {
		if !s.checkpoints {
			return
		}
		ids, err := s.threads(ctx, sel)
		for _, id := range ids {
			if err != nil {
				break
			}
			err = s.thread(ctx, id, yield)
		}
		if err != nil && !errors.Is(err, errStopped) {
			yield(nil, err)
		}
	}
}

// errStopped: who takes the tuples wants no more.
var errStopped = errors.New("stopped")

// threads are the ids that sel selects, ascending.
func (s *Source) threads(ctx context.Context, sel transfer.Selection) (ids []string, err error) {
	if err := (saver.Query{Filter: sel.Metadata}).Validate(); err != nil {
		return nil, err
	}
	err = s.rows(ctx, func(scan func(...any) error) error {
		var id string
		if err := scan(&id); err != nil {
			return err
		}
		if strings.HasPrefix(id, sel.Prefix) && (sel.Threads == nil || slices.Contains(sel.Threads, id)) {
			ids = append(ids, id)
		}
		return nil
	}, "SELECT thread_id FROM checkpoints UNION SELECT thread_id FROM writes ORDER BY 1")
	if err != nil || len(sel.Metadata) == 0 {
		return ids, err
	}
	var matching []string
	for _, id := range ids {
		matches := false
		err := s.rows(ctx, func(scan func(...any) error) error {
			var kind sql.NullString
			var text []byte
			if err := scan(&kind, &text); err != nil {
				return err
			}
			md, err := metadata(serde.Typed{Kind: kindOf(kind)}, text)
			matches = matches || err == nil && md.Match(sel.Metadata)
			return nil
		}, "SELECT type, metadata FROM checkpoints WHERE thread_id = ?", id)
		if err != nil {
			return nil, err
		}
		if matches {
			matching = append(matching, id)
		}
	}
	return matching, nil
}

// kindOf is the kind of a column type. Files of the first releases have NULL there, and JSON.
func kindOf(kind sql.NullString) string {
	if kind.String == "" {
		return serde.KindJSON
	}
	return kind.String
}

// thread yields the checkpoints of a thread.
func (s *Source) thread(ctx context.Context, id string, yield func(*transfer.Tuple, error) bool) error {
	spaces := map[string][]transfer.Node{}
	err := s.rows(ctx, func(scan func(...any) error) error {
		var ns, cp string
		var parent sql.NullString
		if err := scan(&ns, &cp, &parent); err != nil {
			return err
		}
		spaces[ns] = append(spaces[ns], transfer.Node{ID: cp, Parent: parent.String})
		return nil
	}, "SELECT checkpoint_ns, checkpoint_id, parent_checkpoint_id FROM checkpoints WHERE thread_id = ?", id)
	if err != nil {
		return err
	}
	for _, ns := range slices.Sorted(maps.Keys(spaces)) {
		have := snapshots{}
		for _, n := range transfer.ParentsFirst(spaces[ns]) {
			cfg := saver.Config{ThreadID: id, Namespace: ns, CheckpointID: n.ID}
			tup, lost, err := s.tuple(ctx, cfg, n.Parent)
			if err != nil {
				return err
			}
			for _, r := range lost {
				if !yield(nil, r) {
					return errStopped
				}
			}
			if tup == nil {
				continue
			}
			if have.complete(tup); !yield(tup, nil) {
				return errStopped
			}
		}
	}
	return s.strays(ctx, id, yield)
}

// strays yields the writes of a thread whose checkpoints are not there.
func (s *Source) strays(ctx context.Context, id string, yield func(*transfer.Tuple, error) bool) error {
	var places []saver.Config
	err := s.rows(ctx, func(scan func(...any) error) error {
		cfg := saver.Config{ThreadID: id}
		err := scan(&cfg.Namespace, &cfg.CheckpointID)
		places = append(places, cfg)
		return err
	}, `SELECT DISTINCT checkpoint_ns, checkpoint_id FROM writes w WHERE thread_id = ? AND NOT EXISTS (
		SELECT 1 FROM checkpoints c WHERE c.thread_id = w.thread_id AND c.checkpoint_ns = w.checkpoint_ns AND c.checkpoint_id = w.checkpoint_id) ORDER BY 1, 2`, id)
	if err != nil {
		return err
	}
	for _, cfg := range places {
		writes, lost, err := s.writes(ctx, cfg)
		if err != nil {
			return err
		}
		for _, w := range writes {
			lost = append(lost, transfer.RejectedWrite(cfg, w, errors.New("its checkpoint is not there")))
		}
		for _, r := range lost {
			if !yield(nil, r) {
				return errStopped
			}
		}
	}
	return nil
}

// tuple reads a checkpoint. It is nil if the row does not decode.
func (s *Source) tuple(ctx context.Context, cfg saver.Config, parent string) (tup *transfer.Tuple, lost []*transfer.Rejected, err error) {
	var kind sql.NullString
	var object, text []byte
	err = s.tx.QueryRowContext(ctx, "SELECT type, checkpoint, metadata FROM checkpoints WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ?",
		cfg.ThreadID, cfg.Namespace, cfg.CheckpointID).Scan(&kind, &object, &text)
	if err != nil {
		return nil, nil, err
	}
	writes, lost, err := s.writes(ctx, cfg)
	if err != nil {
		return nil, nil, err
	}
	t := serde.Typed{Kind: kindOf(kind), Data: object}
	tup = &transfer.Tuple{Config: cfg, Parent: parent, Writes: writes, Seen: map[string]map[string]saver.Version{}}
	fields, derr := checkpoint(tup, t, func() (bool, error) { return s.hasPackets(ctx, cfg.At(parent)) })
	if ctx.Err() != nil {
		return nil, nil, ctx.Err()
	}
	if derr != nil {
		lost = append(lost, rejectedRow(cfg, t, derr))
		if len(text) > 0 {
			lost = append(lost, &transfer.Rejected{Config: cfg, What: "field", Name: "metadata", Kind: "text", Raw: text,
				Reason: errors.New("its checkpoint does not decode")})
		}
		for _, w := range writes {
			lost = append(lost, transfer.RejectedWrite(cfg, w, errors.New("its checkpoint does not decode")))
		}
		return nil, lost, nil
	}
	lost = append(lost, fields...)
	if tup.Metadata, err = metadata(t, text); err != nil {
		// Without its metadata a checkpoint can still be resumed.
		lost = append(lost, &transfer.Rejected{Config: cfg, What: "field", Name: "metadata", Kind: t.Kind, Raw: text, Reason: err})
		tup.Metadata = saver.Metadata{}
	}
	slices.SortFunc(tup.Channels, func(a, b transfer.Channel) int { return strings.Compare(a.Name, b.Name) })
	return tup, lost, nil
}

func rejectedRow(cfg saver.Config, t serde.Typed, err error) *transfer.Rejected {
	return &transfer.Rejected{Config: cfg, What: "checkpoint", Name: cfg.CheckpointID, Kind: t.Kind, Raw: t.Data, Reason: err}
}

// hasPackets reports whether a checkpoint has writes on the channel of packets.
func (s *Source) hasPackets(ctx context.Context, cfg saver.Config) (has bool, err error) {
	err = s.tx.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM writes WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ? AND channel = ?)",
		cfg.ThreadID, cfg.Namespace, cfg.CheckpointID, saver.ChannelTasks).Scan(&has)
	return has, err
}

// writes are the pending writes of a checkpoint that can be stored, and those that cannot.
func (s *Source) writes(ctx context.Context, cfg saver.Config) (writes []transfer.PendingWrite, lost []*transfer.Rejected, err error) {
	type slot struct {
		task  string
		index int
	}
	at := map[slot]int{}
	damaged := map[string]bool{} // tasks
	err = s.rows(ctx, func(scan func(...any) error) error {
		var w transfer.PendingWrite
		var kind sql.NullString
		var index int64
		if err := scan(&w.TaskID, &w.TaskPath, &index, &w.Channel, &kind, &w.Value.Data); err != nil {
			return err
		}
		w.Value.Kind, w.Index = kindOf(kind), int(index)
		if w.Value.Data == nil {
			w.Value.Data = []byte{}
		}
		reject := func(err error) {
			lost = append(lost, transfer.RejectedWrite(cfg, w, err))
			damaged[w.TaskID] = true
		}
		if special := saver.WriteIndex(w.Channel, 0); special < 0 {
			w.Index = special
		} else if index < 0 || index > maxIndex {
			reject(fmt.Errorf("channel %q has no index %d", w.Channel, index))
			return nil
		}
		if w.TaskID == "" {
			reject(errors.New("it has no task id"))
			return nil
		}
		if err := wellFormed(w.Value); err != nil {
			reject(err)
			return nil
		}
		if i, twice := at[slot{w.TaskID, w.Index}]; twice { // on a special channel; the later one counts
			earlier := writes[i]
			lost = append(lost, transfer.RejectedWrite(cfg, earlier, errors.New("a later one on the special channel replaces it")))
			writes[i] = w
			return nil
		}
		at[slot{w.TaskID, w.Index}] = len(writes)
		writes = append(writes, w)
		return nil
	}, "SELECT task_id, "+s.taskPath+", idx, channel, type, value FROM writes WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ? ORDER BY 2, task_id, idx",
		cfg.ThreadID, cfg.Namespace, cfg.CheckpointID)
	writes = slices.DeleteFunc(writes, func(w transfer.PendingWrite) bool {
		if damaged[w.TaskID] {
			lost = append(lost, transfer.RejectedWrite(cfg, w, errPart))
		}
		return damaged[w.TaskID]
	})
	slices.SortStableFunc(writes, func(a, b transfer.PendingWrite) int {
		return saver.PendingWrite{TaskID: a.TaskID, TaskPath: a.TaskPath, Index: a.Index}.Compare(saver.PendingWrite{TaskID: b.TaskID,
			TaskPath: b.TaskPath, Index: b.Index})
	})
	return writes, lost, err
}

// errPart is the reason why the other writes of a task are rejected: with a part of its writes
// it would pass for done.
var errPart = errors.New("another write of the task cannot be copied")

// maxIndex is the greatest index of a write that a saver stores.
const maxIndex = 1<<16 - 3
