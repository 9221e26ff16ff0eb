package pregel

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/internal/answer"
	"github.com/stele-go/stele/saver"
)

// threadState is a checkpoint and its pending writes.
type threadState struct {
	place   saver.Config // of cp as stored; the parent of the next one
	prev    *saver.Config
	md      saver.Metadata
	noted   *saver.Note // of cp as loaded; nil if it has none
	cp      *liveCheckpoint
	set     *channelSet
	pending []answer.Write
	// renamed are the channels that the checkpoint has under a former name. Under the new
	// one they are not stored yet.
	renamed map[string]string
	// migrated are the channels that migrations have changed, and that are not stored like that.
	migrated []string
	// busy are nodes that a migration leaves alone, see migrating.busy.
	busy  []string
	drops error // see wouldDrop; nil
}

// storedVersions are the versions of the channels whose values are stored under the names
// that they have now. The next checkpoint stores the others again.
func (t *threadState) storedVersions() map[string]saver.Version {
	out := maps.Clone(t.cp.versions)
	for name := range t.renamed {
		delete(out, name)
	}
	for _, changed := range t.migrated {
		delete(out, changed)
	}
	return out
}

// load is the state that a stored checkpoint holds, or that of an empty thread if saved is
// nil.
func (g *Graph) load(ctx context.Context, s saver.Saver, saved *saver.Tuple) (t threadState, err error) {
	if saved == nil {
		t.cp = emptyCheckpoint(&g.env)
		t.set, err = g.hydrate(ctx, nil, saver.Config{}, &saver.Checkpoint{}, nil)
		return t, err
	}
	if err := g.migrate(&saved.Checkpoint); err != nil {
		return t, err
	}
	now, err := g.migrated(ctx, s, saved)
	if err != nil {
		return t, err
	}
	return g.loadMigrated(ctx, s, versionOf(saved.Note), &now)
}

// loadMigrated is load of what migrations have made of a stored checkpoint. stored is the version that stored it.
func (g *Graph) loadMigrated(ctx context.Context, s saver.Saver, stored string, now *migrated) (t threadState, err error) {
	saved := now.tuple
	cp, renamed := g.withNewNames(saved.Checkpoint)
	t = threadState{place: saved.Config, prev: saved.Parent, md: saved.Metadata, noted: saved.Note, cp: liveOf(&cp), renamed: renamed,
		busy: now.busy}
	for _, name := range now.changed {
		t.migrated = append(t.migrated, g.newName(name))
	}
	if t.pending, err = g.loadPending(saved.PendingWrites); err != nil {
		return t, err
	}
	if err := g.checkStored(ctx, saved); err != nil {
		return t, err
	}
	t.drops = g.wouldDrop(saved)
	if t.set, err = g.hydrate(ctx, s, saved.Config, &cp, renamed); err != nil {
		return t, g.unreadable(saved, stored, now.through, err)
	}
	return t, nil
}

// wouldDrop returns an OtherVersionError if a program of another version has stored keys that the graph does not know, and nobody says
// that they may go. Who gives versions no names is not asked: each change is another version then.
func (g *Graph) wouldDrop(saved *saver.Tuple) error {
	stored := versionOf(saved.Note)
	if stored == "" || stored == g.version || isFingerprint(stored) || g.opts.Version == "" || g.opts.LangGraph || g.spec.CheckStored != nil {
		return nil
	}
	unknown := unknownKeys(g, saved)
	maps.DeleteFunc(unknown, func(key string, _ bool) bool { return !holdsKey(g, saved, key) })
	g.unknownInside(saved, unknown)
	if len(unknown) == 0 {
		return nil
	}
	at := saved.Config
	return &OtherVersionError{ThreadID: at.ThreadID, Namespace: at.Namespace, CheckpointID: saved.Checkpoint.ID, Version: stored, Own: g.version,
		Keys: slices.Sorted(maps.Keys(unknown))}
}

// holdsKey reports whether a checkpoint or its pending writes have a value of a key, or the history of one: an ephemeral
// value that was used up is none.
func holdsKey(g *Graph, saved *saver.Tuple, key string) bool {
	for name := range saved.Checkpoint.Values {
		if g.newName(name) == key {
			return true
		}
	}
	is := func(name string) bool { return g.newName(name) == key }
	return saved.Note != nil && slices.ContainsFunc(saved.Note.Deltas, is) ||
		slices.ContainsFunc(saved.PendingWrites, func(w saver.PendingWrite) bool { return is(w.Channel) })
}

// checkStored tells Spec.CheckStored which stored keys the graph does not know.
func (g *Graph) checkStored(ctx context.Context, saved *saver.Tuple) error {
	if g.spec.CheckStored == nil {
		return nil
	}
	unknown := unknownKeys(g, saved)
	g.unknownInside(saved, unknown)
	if len(unknown) == 0 {
		return nil
	}
	return g.spec.CheckStored(ctx, addressOf(saved.Config, saved.Metadata), slices.Sorted(maps.Keys(unknown)))
}

// unknownInside adds to unknown the keys that the graph would lose in the values of keys that it knows. A value
// that cannot be read is told by who restores it.
func (g *Graph) unknownInside(saved *saver.Tuple, unknown map[string]bool) {
	if g.spec.UnknownInside == nil {
		return
	}
	look := func(name string, stored saver.Value) {
		key := g.newName(name)
		if !isStateKey(key) || !g.specs.has(key) {
			return
		}
		if v, err := stored.Any(); err == nil {
			for _, inside := range g.spec.UnknownInside(key, v) {
				unknown[inside] = true
			}
		}
	}
	for name, v := range saved.Checkpoint.Values {
		look(name, v)
	}
	for _, w := range saved.PendingWrites {
		look(w.Channel, w.Value)
	}
}

// unknownKeys are the keys that a checkpoint and its pending writes have and the graph does not know: those of
// its state, by the names that they have now.
func unknownKeys(g *Graph, saved *saver.Tuple) map[string]bool {
	unknown := map[string]bool{}
	see := func(name string) {
		if name = g.newName(name); isStateKey(name) && !g.specs.has(name) {
			unknown[name] = true
		}
	}
	for name := range saved.Checkpoint.Values {
		see(name)
	}
	for name := range saved.Checkpoint.Versions { // a delta channel may have no value in a checkpoint
		see(name)
	}
	for _, w := range saved.PendingWrites {
		see(w.Channel)
	}
	return unknown
}

// isStateKey reports whether a channel is one of a state, and none of the engine's own.
func isStateKey(name string) bool {
	ours := strings.HasPrefix(name, "__") || strings.HasPrefix(name, "branch:") || strings.HasPrefix(name, joinPrefix) || strings.HasPrefix(name, "start:")
	return !ours && !answer.IsControl(name)
}

// stepOf is the step that metadata names.
func stepOf(md saver.Metadata) int {
	if step, ok := md.Step(); ok {
		return step
	}
	return -1
}

// getTuple is GetTuple with nil for a checkpoint that does not exist.
func getTuple(ctx context.Context, s saver.Saver, at saver.Config) (*saver.Tuple, error) {
	saved, err := s.GetTuple(ctx, at)
	if errors.Is(err, saver.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, &PersistError{Op: fmt.Sprintf("load checkpoint %q of thread %q", at.CheckpointID, at.ThreadID), Err: err}
	}
	return saved, nil
}

// noCheckpoint says that an Address names a checkpoint that does not exist.
func noCheckpoint(at saver.Config) error {
	return fmt.Errorf("checkpoint %q of thread %q is not there: %w", at.CheckpointID, at.ThreadID, saver.ErrNotFound)
}

// newest returns the newest checkpoint of the thread and namespace; nil if there is none. It makes sure
// that the next id is greater, even if the clock was set back, so that the next checkpoint is the
// newest.
func (g *Graph) newest(ctx context.Context, s saver.Saver, at saver.Config) (*saver.Tuple, error) {
	latest, err := getTuple(ctx, s, at.At(""))
	if latest != nil {
		g.env.IDs.Observe(latest.Checkpoint.ID)
	}
	return latest, err
}

// supersededBy reports whether the thread has moved past saved, so that it may
// have children.
func (g *Graph) supersededBy(ctx context.Context, s saver.Saver, at saver.Config, saved *saver.Tuple) (bool, error) {
	if at.CheckpointID == "" {
		return false, nil
	}
	latest, err := g.newest(ctx, s, at)
	return latest != nil && latest.Checkpoint.ID != saved.Checkpoint.ID, err
}

// missing returns the nodes of the next superstep that the graph lacks, because it was changed since, and those that
// keep a thread from being migrated. Without a node its task cannot be made, and the task's stored writes cannot be
// applied.
func (t *threadState) missing(g *Graph) []string {
	var next []string
	if t.noted != nil {
		next = t.noted.Next
	}
	return withMissing(slices.DeleteFunc(slices.Clone(next), func(name string) bool { return g.nodes[name] != nil }), t.busy...)
}

// left are the nodes that are missing, and those to which pending writes lead and that the graph lacks; see
// lostIn for a join. A program of another version has stored such writes since.
func (t *threadState) left(g *Graph) []string {
	gone := t.missing(g)
	for _, w := range t.pending {
		if node, ok := strings.CutPrefix(w.Channel, branchPrefix); ok && node != End && g.nodes[node] == nil { // a Command may go to End
			gone = withMissing(gone, node)
		}
		if strings.HasPrefix(w.Channel, joinPrefix) && !g.specs.has(w.Channel) {
			gone = withMissing(gone, g.lostIn(w.Channel)...)
		}
	}
	return gone
}

// joinPrefix begins the name of the channel of a join. The nodes follow that it waits for, with plus signs
// between them, a colon, and the node behind it.
const joinPrefix = "join:"

// lostIn are the nodes of a join, which the graph lacks, that are gone: those that it waits for, and the one
// behind it. If all are there, the graph joins other nodes now, and it is the name of the join.
func (g *Graph) lostIn(join string) (gone []string) {
	name := strings.TrimPrefix(join, joinPrefix)
	colon := max(0, strings.LastIndex(name, ":"))
	for rest := name[:colon]; rest != ""; {
		node := "" // a name may have a plus sign
		for known := range g.nodes {
			if strings.HasPrefix(rest+"+", known+"+") && len(known) > len(node) {
				node = known
			}
		}
		if node == "" {
			node, _, _ = strings.Cut(rest, "+")
			gone = withMissing(gone, node)
		}
		rest = strings.TrimPrefix(rest[len(node):], "+")
	}
	if behind := name[colon:]; g.nodes[strings.TrimPrefix(behind, ":")] == nil {
		gone = withMissing(gone, strings.TrimPrefix(behind, ":"))
	}
	if len(gone) == 0 {
		return []string{join}
	}
	return gone
}

// withMissing adds names that a list does not have.
func withMissing(list []string, names ...string) []string {
	for _, name := range names {
		if !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	return list
}

// migrate brings an older checkpoint to the graph's layout. It is as a saver returned it, so its maps
// are not the saver's.
func (g *Graph) migrate(cp *saver.Checkpoint) error {
	if cp.Values == nil {
		cp.Values = map[string]saver.Value{}
	}
	if g.spec.Migrate == nil {
		return nil
	}
	if err := g.spec.Migrate(cp); err != nil {
		return fmt.Errorf("migrate checkpoint %s: %w", cp.ID, err)
	}
	return nil
}

// unreadable names the thread in the error of a channel that could not be restored. stored is the version that stored
// it, and through what migrations it was changed since.
func (g *Graph) unreadable(saved *saver.Tuple, stored string, through []*Migration, err error) error {
	var restore *channel.RestoreError
	if !errors.As(err, &restore) {
		return err
	}
	at := saved.Config
	e := &StoredTypeError{ThreadID: at.ThreadID, Namespace: at.Namespace, CheckpointID: saved.Checkpoint.ID, Channel: restore.Key, Version: stored, Own: g.version,
		Err: err}
	for _, m := range through {
		e.Through = append(e.Through, m.label()+functionOf(m.Name))
	}
	return e
}

// deltasOf are the delta channels of the graph, and the reducing channels that were
// delta channels when they were stored last.
func (g *Graph) deltasOf(replayed []string) []string { return union(g.deltas, replayed) }

// loadPending reads pending writes, to channels as they are named now.
func (g *Graph) loadPending(stored []saver.PendingWrite) ([]answer.Write, error) {
	stored, _ = withoutStops(stored)
	out := make([]answer.Write, 0, len(stored))
	for _, w := range stored {
		v, err := w.Value.Any()
		if err != nil {
			return nil, fmt.Errorf("read a pending write of task %s to channel %q: %w", w.TaskID, w.Channel, err)
		}
		out = append(out, answer.New(w.TaskID, w.TaskPath, g.newName(w.Channel), v))
	}
	return out, nil
}

// withoutStops removes the writes of endStopped, which are for savers. Here the graphs inside
// show whether the thread still waits.
func withoutStops(stored []saver.PendingWrite) (kept []saver.PendingWrite, stopped bool) {
	isStop := func(w saver.PendingWrite) bool { return w.Channel == chStopped }
	if !slices.ContainsFunc(stored, isStop) {
		return stored, false
	}
	return slices.DeleteFunc(slices.Clone(stored), isStop), true
}

// refusedBefore reports whether pending has endRefused for a checkpoint.
func refusedBefore(cpID string, pending []answer.Write) bool {
	id, err := uuid5(cpID, chError)
	return err == nil && slices.ContainsFunc(pending, func(w answer.Write) bool { return w.TaskID == id && w.Channel == chError })
}

// outputsOf are the writes of each task among pending that it produced, by its id. A task that has none
// did not end.
func outputsOf(pending []answer.Write) map[string][]write {
	out := map[string][]write{}
	for _, w := range pending {
		if w.TaskID != nullTaskID && !answer.IsControl(w.Channel) {
			out[w.TaskID] = append(out[w.TaskID], write{w.Channel, w.Value})
		}
	}
	return out
}

// outputs reports whether writes are those of a task that ended.
func outputs(writes []write) bool {
	return slices.ContainsFunc(writes, func(w write) bool { return !answer.IsControl(w.channel) })
}

// write is a value for a channel.
type write struct {
	channel string
	value   any
}
