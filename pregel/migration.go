package pregel

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/serde"
)

// Migration brings what one version of a graph has stored to what the next one reads. It is applied
// whenever a thread of version From is loaded, to the copy that was loaded. What it changed is stored
// with the thread's next checkpoint, under the graph's own version. So older checkpoints stay as they are,
// and going back to one migrates it again. Nothing is stored if it fails.
//
// Its functions must not keep what they get, must give the same for the same, and may run at the same time
// for several threads. They are not called for channels that are kept as their writes (channel.Delta).
type Migration struct {
	// From and To are versions: Options.Version of an older program, or its fingerprint. "" as From is
	// that of threads without a version.
	From, To string
	// Name is that of the function, for errors; "" is From and To.
	Name string
	// Values changes the values of the state: plain data by key, as they are stored. A key that it
	// deletes is gone, and one that it adds is stored. The input of a run that was cut off before the state
	// had it is laid over the state for another call. It is not called for a thread that has neither. Nil
	// changes none.
	Values func(values map[string]any) error
	// Write changes a value that a task which ended has written to a key, and that the state does not
	// have yet: plain data. It returns the key and the value now. Nil changes none.
	Write func(key string, value any) (newKey string, newValue any, err error)
	// Packet changes the argument with which a packet was sent to a node, by the name that the node has
	// now: plain data. Nil changes none.
	Packet func(node string, arg any) (any, error)
	// Nodes are former names of nodes, with the names they have now. A thread that has something of a task
	// of such a node, a question or what it wrote, is refused with ErrUnknownNode: the task is another one
	// now.
	Nodes map[string]string
}

// label names a migration in a PreflightReport.
func (m *Migration) label() string { return fmt.Sprintf("migration %s → %s", m.From, m.To) }

// MigrationError: a Migration of a thread failed, panicked, or returned what cannot be stored. Nothing
// was run or stored.
type MigrationError struct {
	ThreadID, Namespace, CheckpointID string
	From, To                          string
	Name                              string // of the function
	Err                               error
}

// Error names the thread, the versions and the function.
func (e *MigrationError) Error() string {
	name := ""
	if e.Name != "" {
		name = " (" + e.Name + ")"
	}
	return fmt.Sprintf("thread %q, checkpoint %s: migration from version %q to %q%s: %v", e.ThreadID, e.CheckpointID, e.From, e.To, name, e.Err)
}

// Unwrap returns the cause.
func (e *MigrationError) Unwrap() error { return e.Err }

// addMigrations refuses migrations that do not all lead to the graph's version.
func (g *Graph) addMigrations() error {
	g.migrations = map[string]*Migration{}
	for i := range g.opts.Migrations {
		m := g.opts.Migrations[i]
		if _, twice := g.migrations[m.From]; twice {
			return &GraphError{Reason: fmt.Sprintf("two migrations lead from version %q", m.From)}
		}
		g.migrations[m.From] = &m
	}
	for from := range g.migrations {
		at := from
		for range len(g.migrations) {
			if m := g.migrations[at]; m != nil && at != g.version {
				at = m.To
			}
		}
		if at != g.version || g.migrations[g.version] != nil {
			return &GraphError{Reason: fmt.Sprintf("the migrations from version %q do not end at the graph's version %q", from, g.version)}
		}
	}
	return nil
}

// migrated returns saved as the graph's version has it, which is saved itself if no migration is for it.
// changed are the channels that are not stored like that, and through what was applied.
func (g *Graph) migrated(s saver.Saver, saved *saver.Tuple) (now *saver.Tuple, changed, through []string, err error) {
	version := ""
	if saved.Note != nil {
		version = saved.Note.Version
	}
	if g.migrations[version] == nil {
		return saved, nil, nil, nil
	}
	st, err := beginMigration(s, saved)
	if err != nil {
		return nil, nil, nil, err
	}
	for m := g.migrations[version]; m != nil; m = g.migrations[m.To] {
		if err := guard(func() error { return st.apply(g, m) }); err != nil {
			at := saved.Config
			return nil, nil, nil, &MigrationError{ThreadID: at.ThreadID, Namespace: at.Namespace, CheckpointID: saved.Checkpoint.ID, From: m.From,
				To: m.To, Name: m.Name, Err: err}
		}
		through = append(through, m.label())
	}
	st.note(g)
	return &st.tuple, slices.Sorted(maps.Keys(st.changed)), through, nil
}

// migrating is a checkpoint that is being migrated: a copy.
type migrating struct {
	codec   serde.Serializer
	tuple   saver.Tuple
	changed map[string]bool
	next    saver.Version // of what was changed
}

func beginMigration(s saver.Saver, saved *saver.Tuple) (*migrating, error) {
	st := &migrating{codec: s.Serializer(), tuple: *saved, changed: map[string]bool{}}
	cp := &st.tuple.Checkpoint
	cp.Values, cp.Versions, cp.Updated = maps.Clone(cp.Values), maps.Clone(cp.Versions), slices.Clone(cp.Updated)
	seen := make(map[string]map[string]saver.Version, len(cp.Seen))
	var top saver.Version
	for n, versions := range cp.Seen {
		seen[n] = maps.Clone(versions)
	}
	for _, v := range cp.Versions {
		if v.Compare(top) > 0 {
			top = v
		}
	}
	cp.Seen = seen
	st.tuple.PendingWrites = slices.Clone(saved.PendingWrites)
	var err error
	st.next, err = s.NextVersion(top, "")
	return st, err
}

// apply applies one migration.
func (st *migrating) apply(g *Graph, m *Migration) error {
	for from, to := range m.Nodes {
		st.renameNode(from, to)
	}
	if err := st.values(m); err != nil {
		return err
	}
	return st.pending(g, m)
}

// values lets the migration change the state, the packets and the input.
func (st *migrating) values(m *Migration) error {
	cp := &st.tuple.Checkpoint
	stored := maps.Clone(cp.Values)
	if m.Values != nil {
		plain, err := plainState(stored)
		if err != nil {
			return err
		}
		was := slices.Collect(maps.Keys(plain))
		if len(was) > 0 { // a thread begins without a state
			if err := m.Values(plain); err != nil {
				return err
			}
		}
		for _, name := range was {
			if _, kept := plain[name]; !kept {
				st.drop(name)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(plain)) {
			if err := st.set(name, plain[name]); err != nil {
				return err
			}
		}
	}
	if v, ok := cp.Values[chTasks]; ok && (m.Packet != nil || len(m.Nodes) > 0) {
		x, err := v.Any()
		if err != nil {
			return fmt.Errorf("read the packets: %w", err)
		}
		list, _ := x.([]any)
		for i, p := range list {
			if list[i], err = m.packet(p); err != nil {
				return err
			}
		}
		if err := st.set(chTasks, list); err != nil {
			return err
		}
	}
	if v, ok := cp.Values[Start]; ok && m.Values != nil {
		x, err := v.Any()
		if err != nil {
			return fmt.Errorf("read the input: %w", err)
		}
		if given, ok := x.(map[string]any); ok && len(given) > 0 {
			if given, err = st.input(m, stored, given); err != nil {
				return err
			}
			return st.set(Start, given)
		}
	}
	return nil
}

// plainState is the state that a checkpoint has stored, without what is kept as writes.
func plainState(stored map[string]saver.Value) (map[string]any, error) {
	plain := map[string]any{}
	for name, v := range stored {
		if !isStateKey(name) {
			continue
		}
		x, err := v.Any()
		if err != nil {
			return nil, fmt.Errorf("read channel %q: %w", name, err)
		}
		if _, snapshot := x.(serde.DeltaSnapshot); !snapshot {
			plain[name] = x
		}
	}
	return plain, nil
}

// input lets the migration change an input, which may give a part of the state alone. So the function gets
// it laid over the state, and what it then makes as it makes it of the state alone is not given.
func (st *migrating) input(m *Migration, stored map[string]saver.Value, given map[string]any) (map[string]any, error) {
	state, err := plainState(stored)
	if err != nil {
		return nil, err
	}
	over, err := plainState(stored)
	if err != nil {
		return nil, err
	}
	maps.Copy(over, given)
	if err := m.Values(over); err != nil || len(state) == 0 {
		return over, err
	}
	if err := m.Values(state); err != nil {
		return nil, err
	}
	maps.DeleteFunc(over, func(key string, x any) bool {
		if _, is := given[key]; is {
			return false
		}
		a, errA := st.codec.Encode(x)
		b, errB := st.codec.Encode(state[key])
		return errA == nil && errB == nil && a.Kind == b.Kind && bytes.Equal(a.Data, b.Data)
	})
	return over, nil
}

// packet changes a packet.
func (m *Migration) packet(v any) (any, error) {
	p, ok := sendOf(v)
	if !ok {
		return v, nil
	}
	p.Node = cmp.Or(m.Nodes[p.Node], p.Node)
	var err error
	if m.Packet != nil {
		p.Arg, err = m.Packet(p.Node, p.Arg)
	}
	return p, err
}

// pending lets the migration change what ended tasks have written.
func (st *migrating) pending(g *Graph, m *Migration) error {
	for i := range st.tuple.PendingWrites {
		w := &st.tuple.PendingWrites[i]
		if node, ok := strings.CutPrefix(w.Channel, branchPrefix); ok && m.Nodes[node] != "" {
			w.Channel = branchPrefix + m.Nodes[node]
		}
		isWrite := isStateKey(w.Channel) && !isSpecial(w.Channel) && m.Write != nil && !g.isDelta(g.newName(w.Channel))
		if !isWrite && w.Channel != chTasks {
			continue
		}
		x, err := w.Value.Any()
		if err != nil {
			return fmt.Errorf("read a pending write of task %s to channel %q: %w", w.TaskID, w.Channel, err)
		}
		if w.Channel == chTasks {
			x, err = m.packet(x)
		} else {
			w.Channel, x, err = m.Write(w.Channel, x)
		}
		if err == nil {
			w.Value, err = st.encoded(x)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// encoded is a value as it would be stored.
func (st *migrating) encoded(x any) (saver.Value, error) {
	typed, err := st.codec.Encode(x)
	if err != nil {
		return saver.Value{}, err
	}
	return saver.ValueTyped(typed).WithCodec(st.codec), nil
}

// set gives a channel a value. One that is stored alike is left alone.
func (st *migrating) set(name string, x any) error {
	cp := &st.tuple.Checkpoint
	v, err := st.encoded(x)
	if err != nil {
		return fmt.Errorf("the value of %q: %w", name, err)
	}
	old, has := cp.Values[name]
	if _, written := cp.Versions[name]; written && !has {
		return fmt.Errorf("%q is kept as its writes, which a migration does not change", name)
	}
	if has {
		a, errA := old.View()
		b, errB := v.View()
		if errA == nil && errB == nil && a.Kind == b.Kind && string(a.Data) == string(b.Data) {
			return nil
		}
	}
	was := cp.Versions[name]
	cp.Values[name], cp.Versions[name], st.changed[name] = v, st.next, true
	for _, seen := range cp.Seen { // nobody has written to it, so it wakes nobody
		if at, ok := seen[name]; ok && at == was {
			seen[name] = st.next
		}
	}
	return nil
}

// drop removes a channel.
func (st *migrating) drop(name string) {
	cp := &st.tuple.Checkpoint
	delete(cp.Values, name)
	delete(cp.Versions, name)
	delete(st.changed, name)
	for _, seen := range cp.Seen {
		delete(seen, name)
	}
	cp.Updated = slices.DeleteFunc(cp.Updated, func(u string) bool { return u == name })
}

// renameNode renames a node where it is to run next. If something of a task of the node is stored, it
// keeps its name in the note: the thread is refused.
func (st *migrating) renameNode(from, to string) {
	cp := &st.tuple.Checkpoint
	if seen, ok := cp.Seen[from]; ok {
		delete(cp.Seen, from)
		cp.Seen[to] = seen
	}
	old, now := branchPrefix+from, branchPrefix+to
	if _, ok := cp.Versions[old]; ok {
		rename(cp.Values, old, now)
		rename(cp.Versions, old, now)
		st.changed[now] = true
	}
	for _, seen := range cp.Seen {
		rename(seen, old, now)
	}
	for i, u := range cp.Updated {
		if u == old {
			cp.Updated[i] = now
		}
	}
	slices.Sort(cp.Updated)
	if st.tuple.Note == nil {
		return
	}
	note := st.tuple.Note.Clone()
	st.tuple.Note = note
	held := slices.ContainsFunc(st.tuple.PendingWrites, func(w saver.PendingWrite) bool {
		root, _ := rootOf(w.TaskPath)
		return root == pullPath(from).String() && w.Channel != chError
	})
	for i, name := range note.Next {
		if name == from && !held {
			note.Next[i] = to
		}
	}
}

// note gives the copy the graph's version, so that it is not migrated again.
func (st *migrating) note(g *Graph) {
	if st.tuple.Note != nil {
		st.tuple.Note = st.tuple.Note.Clone()
		st.tuple.Note.Version = g.version
	}
}
