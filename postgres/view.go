package postgres

import (
	"context"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/stele-go/stele/postgres/internal/pgdb"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/rules"
)

// threadView is a thread without the bytes of its values, for removals. It implements rules.RetainView.
type threadView struct {
	id     string
	spaces map[string]*spaceView
}

// spaceView is a namespace. It implements rules.PruneView.
type spaceView struct {
	checkpoints map[string]*checkpointView
	blobs       map[blobRef]int64 // sizes
	writes      map[string][]writeView
}

type checkpointView struct {
	parent   string
	cp       saver.Checkpoint // its Values are those that stand in it
	versions map[string]string
	note     *saver.Note
	metadata int64 // bytes
	inline   map[string]int64
}

type blobRef struct{ channel, version string }

type writeView struct {
	channel string
	bytes   int64
}

var (
	_ rules.RetainView = (*threadView)(nil)
	_ rules.PruneView  = (*spaceView)(nil)
)

// viewThread reads a thread. The caller holds its lock.
func (s *Saver) viewThread(ctx context.Context, tx pgx.Tx, threadID string) (*threadView, error) {
	v := &threadView{id: threadID, spaces: map[string]*spaceView{}}
	b := &pgx.Batch{}
	var ns, id, parent string
	var text, note []byte
	var bytes int64
	var ref blobRef
	var w writeView
	b.Queue(s.db.Qualify(`
SELECT c.checkpoint_ns, c.checkpoint_id, coalesce(c.parent_checkpoint_id, ''), c.checkpoint, length(c.metadata::text), s.note
FROM @.checkpoints c LEFT JOIN @.stele_checkpoints s USING (thread_id, checkpoint_ns, checkpoint_id)
WHERE c.thread_id = $1`), threadID).Query(pgdb.Each(func() (err error) {
		c := &checkpointView{parent: parent, metadata: bytes, inline: map[string]int64{}}
		if c.cp, c.versions, err = decodeCheckpoint(text); err != nil {
			return err
		}
		if c.note, err = decodeNote(note); err != nil {
			return err
		}
		for channel, value := range c.cp.Values {
			typed, err := value.View()
			if err != nil {
				return err
			}
			c.inline[channel] = int64(len(typed.Data))
		}
		v.space(ns).checkpoints[id] = c
		return nil
	}, &ns, &id, &parent, &text, &bytes, &note))
	b.Queue(s.db.Qualify(`
SELECT checkpoint_ns, channel, version, coalesce(octet_length(blob), 0) FROM @.checkpoint_blobs
WHERE thread_id = $1 AND type <> 'empty'`), threadID).Query(pgdb.Each(func() error {
		v.space(ns).blobs[ref] = bytes
		return nil
	}, &ns, &ref.channel, &ref.version, &bytes))
	b.Queue(s.db.Qualify(`
SELECT checkpoint_ns, checkpoint_id, channel, octet_length(blob) FROM @.checkpoint_writes
WHERE thread_id = $1`), threadID).Query(pgdb.Each(func() error {
		v.space(ns).writes[id] = append(v.space(ns).writes[id], w)
		return nil
	}, &ns, &id, &w.channel, &w.bytes))
	return v, tx.SendBatch(ctx, b).Close()
}

func (v *threadView) space(ns string) *spaceView {
	if v.spaces[ns] == nil {
		v.spaces[ns] = &spaceView{checkpoints: map[string]*checkpointView{}, blobs: map[blobRef]int64{}, writes: map[string][]writeView{}}
	}
	return v.spaces[ns]
}

func (v *threadView) empty() bool {
	for _, n := range v.spaces {
		if len(n.checkpoints) > 0 || len(n.writes) > 0 {
			return false
		}
	}
	return true
}

// size returns how many checkpoints the thread has.
func (v *threadView) size() int {
	n := 0
	for _, s := range v.spaces {
		n += len(s.checkpoints)
	}
	return n
}

// ThreadID implements rules.RetainView.
func (v *threadView) ThreadID() string { return v.id }

// Checkpoints implements rules.RetainView.
func (v *threadView) Checkpoints() map[string][]string {
	out := map[string][]string{}
	for ns, n := range v.spaces {
		out[ns] = slices.Sorted(maps.Keys(n.checkpoints))
	}
	return out
}

// Namespace implements rules.RetainView.
func (v *threadView) Namespace(ns string) rules.PruneView { return v.spaces[ns] }

// Created implements rules.RetainView.
func (v *threadView) Created(ns, id string) (string, error) {
	return v.spaces[ns].checkpoints[id].cp.TS, nil
}

// Values implements rules.RetainView. A value inside a checkpoint belongs to that checkpoint only.
func (v *threadView) Values(ns, id string, fn func(value any, bytes int64)) {
	type blob struct {
		ns string
		blobRef
	}
	type own struct {
		ns, id, channel string
		write           int
	}
	n := v.spaces[ns]
	c := n.checkpoints[id]
	fn(own{ns, id, "", -1}, c.metadata)
	for channel, bytes := range c.inline {
		fn(own{ns, id, channel, -2}, bytes)
	}
	for channel, version := range c.versions {
		ref := blobRef{channel, version}
		if bytes, ok := n.blobs[ref]; ok {
			fn(blob{ns, ref}, bytes)
		}
	}
	for i, w := range n.writes[id] {
		fn(own{ns, id, "", i}, w.bytes)
	}
}

// Writes implements rules.RetainView.
func (v *threadView) Writes(ns, id string) int { return len(v.spaces[ns].writes[id]) }

// Parent implements rules.PruneView.
func (n *spaceView) Parent(id string) (string, bool) {
	c := n.checkpoints[id]
	if c == nil {
		return "", false
	}
	return c.parent, true
}

// Valueless implements rules.PruneView.
func (n *spaceView) Valueless(id string) (channels []string, noted bool) {
	c := n.checkpoints[id]
	for channel := range c.cp.Versions {
		if !n.HasValue(id, channel) && (c.note == nil || slices.Contains(c.note.Deltas, channel)) {
			channels = append(channels, channel)
		}
	}
	slices.Sort(channels)
	return channels, c.note != nil
}

// HasValue implements rules.PruneView.
func (n *spaceView) HasValue(id, channel string) bool {
	c := n.checkpoints[id]
	if _, ok := c.inline[channel]; ok {
		return true
	}
	_, ok := n.blobs[blobRef{channel, c.versions[channel]}]
	return ok
}

// HasWrite implements rules.PruneView.
func (n *spaceView) HasWrite(id, channel string) bool {
	return slices.ContainsFunc(n.writes[id], func(w writeView) bool { return w.channel == channel })
}

// Format implements rules.PruneView.
func (n *spaceView) Format(id string) int { return n.checkpoints[id].cp.V }

// head returns the greatest checkpoint id, "" if there is none.
func (n *spaceView) head() string {
	var head string
	for id := range n.checkpoints {
		head = max(head, id)
	}
	return head
}

// remove removes checkpoints, and their writes, from the view, and returns the blobs that no checkpoint
// reads any more.
func (n *spaceView) remove(ids []string) []blobRef {
	freed := map[blobRef]bool{}
	for _, id := range ids {
		if c := n.checkpoints[id]; c != nil {
			for channel, version := range c.versions {
				freed[blobRef{channel, version}] = true
			}
		}
		delete(n.checkpoints, id)
		delete(n.writes, id)
	}
	for _, c := range n.checkpoints {
		for channel, version := range c.versions {
			delete(freed, blobRef{channel, version})
		}
	}
	var blobs []blobRef
	for ref := range freed {
		if _, ok := n.blobs[ref]; ok {
			blobs = append(blobs, ref)
			delete(n.blobs, ref)
		}
	}
	return blobs
}

// removeCheckpoints removes checkpoints, the writes that hang on them, and the blobs that
// none of the others reads.
func (s *Saver) removeCheckpoints(ctx context.Context, tx pgx.Tx, v *threadView, ns string, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	b := &pgx.Batch{}
	for _, table := range []string{"checkpoints", "checkpoint_writes", "stele_checkpoints", "stele_calls"} {
		b.Queue(s.db.Qualify(`DELETE FROM @.`+table+` WHERE thread_id = $1 AND checkpoint_ns = $2 AND checkpoint_id = ANY($3)`), v.id, ns, ids)
	}
	var channels, versions []string
	for _, ref := range v.spaces[ns].remove(ids) {
		channels, versions = append(channels, ref.channel), append(versions, ref.version)
	}
	if len(channels) > 0 {
		b.Queue(s.db.Qualify(`
DELETE FROM @.checkpoint_blobs b USING unnest($3::text[], $4::text[]) f(channel, version)
WHERE b.thread_id = $1 AND b.checkpoint_ns = $2 AND b.channel = f.channel AND b.version = f.version`), v.id, ns, channels, versions)
	}
	if v.empty() {
		b.Queue(s.db.Qualify(`DELETE FROM @.stele_threads WHERE thread_id = $1`), v.id)
	}
	return tx.SendBatch(ctx, b).Close()
}
