package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/stele-go/stele/postgres/internal/pgdb"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/rules"
)

// PutWrites implements saver.Saver: one transaction and one round trip. Under
// saver.DeferSync the server does not wait for its disk.
func (s *Saver) PutWrites(ctx context.Context, cfg saver.Config, writes []saver.Write, taskID, taskPath string) error {
	plan, err := rules.NewWritesPlan(cfg, writes, taskID, taskPath, s.opts.Serializer)
	if err != nil {
		return err
	}
	if err := checkConfig(cfg); err != nil {
		return err
	}
	rows, err := newWriteRows(plan)
	if err != nil {
		return err
	}
	// Written twice, the rows are the same: on a channel that keeps the first the first
	// stay, and others have what was last.
	deferred := saver.SyncDeferred(ctx)
	if deferred {
		s.deferred.Store(true)
	}
	return s.db.Write(ctx, pgdb.Write{
		Thread: cfg.ThreadID,
		Locks:  true,
		Queue: func(b *pgx.Batch, c pgdb.Call) {
			if deferred { // a later commit flushes this one as well: the log has one order
				b.Queue("SELECT set_config('synchronous_commit', 'off', true)")
			}
			b.Queue(s.sql.putWrites, rows.appendTo(s.callArgs(cfg, c, cfg.Epoch))...)
		},
		Refused: func(code, detail string) error { return writeRefused(cfg, code, detail) },
	})
}

// Codes of stele_refuse, besides those of package pgdb.
const (
	refusedParent   = "parent"   // of a deleted thread
	refusedWrites   = "writes"   // to a deleted thread
	refusedSource   = "source"   // of values is not there
	refusedConflict = "conflict" // the head is another
	refusedTaken    = "taken"    // a version has another value
)

// writeRefused returns the error for a refusal by stele_refuse; nil if the code is not known.
func writeRefused(at saver.Config, code, detail string) error {
	threadID := at.ThreadID
	switch code {
	case pgdb.RefusedFenced:
		return &saver.FencedError{ThreadID: threadID, Epoch: at.Epoch}
	case refusedParent:
		return fmt.Errorf("thread %q: parent checkpoint %q: %w", threadID, detail, saver.ErrThreadDeleted)
	case refusedWrites:
		return fmt.Errorf("thread %q: writes to checkpoint %q: %w", threadID, detail, saver.ErrThreadDeleted)
	}
	return nil
}

// writeRows are the rows of checkpoint_writes and stele_calls that calls make, column by
// column.
type writeRows struct {
	named []string // the checkpoints that the calls name, with or without writes

	checkpoints, tasks, paths, channels, kinds []string
	indexes                                    []int32
	blobs                                      [][]byte

	callCheckpoints, callTasks, callChannels []string // see stele_calls
	callSpecial                              []bool
}

// newWriteRows applies the rule of repeated writes to those of one request: a statement
// cannot meet the same row twice.
func newWriteRows(plans ...rules.WritesPlan) (writeRows, error) {
	r := writeRows{named: []string{}}
	type key struct {
		checkpoint, task string
		index            int
	}
	at := map[key]int{}
	for i := range plans {
		p := &plans[i]
		if err := checkWrites(p); err != nil {
			return r, err
		}
		r.named = append(r.named, p.CheckpointID)
		if len(p.Channels) > 0 {
			r.addCall(p)
		}
		for j, channel := range p.Channels {
			k := key{p.CheckpointID, p.TaskID, p.Index(j)}
			n, again := at[k]
			if again && k.index >= 0 {
				continue
			}
			if !again {
				n = len(r.tasks)
				at[k] = n
				r.grow()
			}
			r.checkpoints[n], r.tasks[n], r.paths[n], r.indexes[n] = p.CheckpointID, p.TaskID, p.TaskPath, int32(k.index)
			r.channels[n], r.kinds[n], r.blobs[n] = channel, p.Values[j].Kind, pgdb.NotNull(p.Values[j].Data)
		}
	}
	return r, nil
}

func (r *writeRows) grow() {
	r.checkpoints, r.tasks, r.paths = append(r.checkpoints, ""), append(r.tasks, ""), append(r.paths, "")
	r.channels, r.kinds = append(r.channels, ""), append(r.kinds, "")
	r.indexes, r.blobs = append(r.indexes, 0), append(r.blobs, nil)
}

// addCall adds the row of stele_calls: the channels, each once, by which rules.StatusOf
// judges. Ordinary ones are alike to it.
func (r *writeRows) addCall(p *rules.WritesPlan) {
	channels, special := []string{}, false
	for _, channel := range p.Channels {
		if signal(channel) {
			special = true
		} else {
			channel = ordinary
		}
		if !slices.Contains(channels, channel) {
			channels = append(channels, channel)
		}
	}
	for i, checkpoint := range r.callCheckpoints { // what follows a special one counts as well
		special = special || r.callSpecial[i] && checkpoint == p.CheckpointID
	}
	r.callCheckpoints, r.callTasks = append(r.callCheckpoints, p.CheckpointID), append(r.callTasks, p.TaskID)
	r.callChannels, r.callSpecial = append(r.callChannels, strings.Join(channels, callSeparator)), append(r.callSpecial, special)
}

const (
	ordinary      = "-" // replaces the name of every channel that is not a signal
	callSeparator = "\n"
)

// signal reports whether a write on channel tells how far a run has come. The names are
// LangGraph's reserved ones.
func signal(channel string) bool {
	return len(channel) > 4 && channel[:2] == "__" && channel[len(channel)-2:] == "__"
}

// appendTo appends the arguments for writesParameters.
func (r *writeRows) appendTo(args []any) []any {
	return append(args, r.checkpoints, r.tasks, r.paths, r.indexes, r.channels, r.kinds, r.blobs,
		r.callCheckpoints, r.callTasks, r.callChannels, r.callSpecial)
}
