package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/stele-go/stele/postgres/internal/jsonb"
	"github.com/stele-go/stele/postgres/internal/pgdb"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/rules"
	"github.com/stele-go/stele/saver/serde"
)

// Put implements saver.Saver.
func (s *Saver) Put(ctx context.Context, cfg saver.Config, cp saver.Checkpoint, md saver.Metadata, newVersions map[string]saver.Version) (saver.Config, error) {
	return s.PutRequest(ctx, saver.PutRequest{Config: cfg, Checkpoint: cp, Metadata: md, NewVersions: newVersions})
}

// PutRequest implements saver.Saver: the checkpoint and the writes of the request
// are one transaction and one round trip. Besides the errors of the contract there is
// VersionTakenError. Changes of other stores are refused.
func (s *Saver) PutRequest(ctx context.Context, req saver.PutRequest) (saver.Config, error) {
	var plan rules.PutPlan
	if err := plan.Make(&req, rules.Encoding{Codec: s.opts.Serializer, Borrow: true}); err != nil {
		return saver.Config{}, err
	}
	if len(req.Changes) > 0 {
		return saver.Config{}, saver.Invalidf("changes[0]", "is of another store; a saver on PostgreSQL takes none")
	}
	rows, err := s.newPutRows(&plan)
	if err != nil {
		return saver.Config{}, err
	}
	err = s.db.Write(ctx, pgdb.Write{
		Thread: plan.Target.ThreadID,
		Locks:  true,
		Queue:  func(b *pgx.Batch, c pgdb.Call) { s.queuePut(b, c, &plan, rows) },
		Trace: func(b *pgx.Batch, c pgdb.Call, applied *bool) {
			b.Queue(s.sql.putTrace, plan.Target.ThreadID, plan.Target.Namespace, plan.Target.CheckpointID, [16]byte(c)).
				QueryRow(pgdb.Row(applied))
		},
		Refused: func(code, detail string) error { return putRefused(&plan, rows, code, detail) },
	})
	if err != nil {
		return saver.Config{}, err
	}
	return plan.Target, nil
}

// putRows are the rows of a plan, column by column, as the statements take them.
type putRows struct {
	checkpoint, metadata []byte // JSON
	note                 []byte

	// The channels that got a version. What has no kind gets no blob: it stands in the
	// checkpoint, or is empty.
	channels, versions []string
	kinds              []*string
	blobs              [][]byte
	minted             []bool
	stored             int // how many have a blob

	writes writeRows
}

// newPutRows makes the rows of a plan.
func (s *Saver) newPutRows(plan *rules.PutPlan) (*putRows, error) {
	cp := &plan.Record.Checkpoint
	if err := checkConfig(plan.Target); err != nil {
		return nil, err
	}
	texts := []string{"checkpoint_id", plan.Record.Parent, "values_from", plan.Record.ValuesFrom}
	if plan.ExpectHead != nil {
		texts = append(texts, "expect_head", *plan.ExpectHead)
	}
	if err := pgdb.CheckText(texts...); err != nil {
		return nil, err
	}
	for channel := range cp.Versions {
		if err := checkCast("channel", channel); err != nil {
			return nil, err
		}
	}
	r := &putRows{}
	inline := map[string]string{}
	for i, channel := range plan.Record.Stored {
		typed := plan.Values[i]
		if err := checkCast("kind", typed.Kind); err != nil {
			return nil, err
		}
		if text, ok := inlineText(typed); ok {
			inline[channel] = text
			r.fresh(channel, cp.Versions[channel], nil)
			continue
		}
		if snapshot(typed) {
			inline[channel] = "true"
		}
		r.fresh(channel, cp.Versions[channel], &typed)
	}
	for _, channel := range plan.Record.Emptied {
		r.fresh(channel, cp.Versions[channel], nil)
	}
	var err error
	if r.checkpoint, err = appendCheckpoint(nil, cp, inline); err != nil {
		return nil, err
	}
	md, err := saver.DecodeMetadata(plan.Record.Metadata, s.opts.Serializer)
	if err != nil {
		return nil, err
	}
	if r.metadata, err = jsonb.Append(nil, "metadata", map[string]any(md)); err != nil {
		return nil, err
	}
	if r.note, err = encodeNote(plan.Record.Note); err != nil {
		return nil, err
	}
	r.writes, err = newWriteRows(plan.Writes...)
	return r, err
}

// fresh adds a channel that got a version; nil is no blob.
func (r *putRows) fresh(channel string, version saver.Version, value *serde.Typed) {
	r.channels, r.versions = append(r.channels, channel), append(r.versions, versionText(version))
	r.minted = append(r.minted, minted(version))
	if value == nil {
		r.kinds, r.blobs = append(r.kinds, nil), append(r.blobs, nil)
		return
	}
	r.stored++
	r.kinds, r.blobs = append(r.kinds, &value.Kind), append(r.blobs, pgdb.NotNull(value.Data))
}

// queuePut adds the call of putFunction, which takes the lock of the thread.
func (s *Saver) queuePut(b *pgx.Batch, c pgdb.Call, plan *rules.PutPlan, r *putRows) {
	args := append(s.callArgs(plan.Target, c, plan.Epoch),
		plan.Record.Parent, plan.Record.ValuesFrom, plan.Record.Source(), plan.ExpectHead, r.writes.named,
		r.channels, r.versions, r.kinds, r.blobs, r.minted, r.stored, !slices.Contains(r.minted, false), r.checkpoint, r.metadata, r.note)
	b.Queue(s.sql.put, r.writes.appendTo(args)...)
}

// callArgs are the arguments for callParameters.
func (s *Saver) callArgs(at saver.Config, c pgdb.Call, epoch int64) []any {
	return append(make([]any, 0, 34), pgdb.LockKey(s.db.Schema, at.ThreadID), [16]byte(c), s.rememberedSince(), epoch, s.db.Now(), at.ThreadID,
		at.Namespace, at.CheckpointID)
}

// putRefused is the error of a put that stele_refuse ended.
func putRefused(plan *rules.PutPlan, r *putRows, code, detail string) error {
	at := plan.Target
	switch code {
	case refusedConflict:
		return &saver.ConflictError{ThreadID: at.ThreadID, Namespace: at.Namespace, Expected: *plan.ExpectHead, Head: detail}
	case refusedSource:
		return rules.NotFound(at.At(plan.Record.ValuesFrom))
	case refusedTaken:
		i := slices.Index(r.channels, detail)
		return &VersionTakenError{ThreadID: at.ThreadID, Namespace: at.Namespace, Channel: detail, Version: r.versions[i]}
	}
	at.Epoch = plan.Epoch
	return writeRefused(at, code, detail)
}

// storedNote is a note as stele_checkpoints has it, in JSON. Names are bytes, as JSON and
// text would not hold all of them.
type storedNote struct {
	Graph  []byte   `json:"graph,omitempty"`
	Next   [][]byte `json:"next,omitempty"`
	Stop   string   `json:"stop,omitempty"`
	Deltas [][]byte `json:"deltas,omitempty"`
	// Version is the graph's; records of before there were versions have none.
	Version []byte `json:"version,omitempty"`
}

func encodeNote(n *saver.Note) ([]byte, error) {
	if n == nil {
		return nil, nil
	}
	stored := storedNote{Graph: []byte(n.Graph), Stop: string(n.Stop), Version: []byte(n.Version)}
	for _, name := range n.Next {
		stored.Next = append(stored.Next, []byte(name))
	}
	for _, name := range n.Deltas {
		stored.Deltas = append(stored.Deltas, []byte(name))
	}
	return json.Marshal(stored)
}

func decodeNote(text []byte) (*saver.Note, error) {
	if text == nil {
		return nil, nil
	}
	var stored storedNote
	if err := json.Unmarshal(text, &stored); err != nil {
		return nil, fmt.Errorf("note: %w: %w", saver.ErrCorrupt, err)
	}
	n := &saver.Note{Graph: string(stored.Graph), Stop: saver.Stop(stored.Stop), Version: string(stored.Version)}
	for _, name := range stored.Next {
		n.Next = append(n.Next, string(name))
	}
	for _, name := range stored.Deltas {
		n.Deltas = append(n.Deltas, string(name))
	}
	return n, nil
}
