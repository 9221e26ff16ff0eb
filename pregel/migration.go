package pregel

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stele-go/stele/pregel/internal/answer"
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
	// Question changes a question that waits for an answer: what it shows, plain data, and the schema of its answer. Its ID
	// stays, and so do answers that were given. When the node runs again, it asks as its body now does. It gets the
	// questions of graphs inside, too: the graph around shows them. Nil changes none.
	Question func(q Interrupt) (Interrupt, error)
	// Nodes are former names of nodes, with the names they have now. A thread that has something of a task of
	// such a node, a question, a failure, what it wrote or the state of a graph inside, is refused with
	// ErrUnknownNode: the task is another one now. So is one where a node is left to run whose name another one
	// gets. Over a whole chain of migrations no new name is a former one, or that of two nodes, and the graph
	// has no node with a former name: else New returns a GraphError. A node that was renamed twice has two
	// migrations, from each of its former versions straight to the present one.
	Nodes map[string]string
}

// label names a migration in a PreflightReport.
func (m *Migration) label() string { return fmt.Sprintf("migration %s → %s", m.From, m.To) }

// functionOf is the name of a migration's function in an error; "" if it has none.
func functionOf(name string) string {
	if name == "" {
		return ""
	}
	return " (" + name + ")"
}

// MigrationError: a Migration of a thread failed, panicked, returned what cannot be stored, or did not end within a minute. Nothing
// was run or stored.
type MigrationError struct {
	ThreadID, Namespace, CheckpointID string
	From, To                          string
	Name                              string // of the function
	Err                               error
}

// Error names the thread, the versions and the function.
func (e *MigrationError) Error() string {
	return fmt.Sprintf("thread %q, checkpoint %s: migration from version %q to %q%s: %v", e.ThreadID, e.CheckpointID, e.From, e.To, functionOf(e.Name), e.Err)
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
		if err := g.checkRenames(from); err != nil {
			return err
		}
	}
	return nil
}

// checkRenames refuses renames of a chain of migrations after which a name could mean two nodes: what the graph has
// stored since on a thread that is not migrated for good would be taken for what the former program stored.
func (g *Graph) checkRenames(version string) error {
	was := map[string]string{}
	for m := g.migrations[version]; m != nil; m = g.migrations[m.To] {
		for from, to := range m.Nodes {
			if was[to] != "" {
				return &GraphError{Node: to, Reason: fmt.Sprintf("the migrations from version %q give two nodes this name", version)}
			}
			was[to] = from
		}
	}
	for to, from := range was {
		if _, twice := was[from]; twice {
			return &GraphError{Node: from, Reason: fmt.Sprintf("the migrations from version %q rename it to %q, and another node to it; "+
				"where a node was renamed again, let each migration lead straight to version %q, and give the node its last name", version, to, g.version)}
		}
		if g.nodes[from] != nil {
			return &GraphError{Node: from, Reason: fmt.Sprintf("the migrations from version %q rename it to %q, and the graph has a node of this name; "+
				"give that another name until no thread of the version is left", version, to)}
		}
	}
	return nil
}

// renames are the renames of the chain of migrations that begins at a version.
func (g *Graph) renames(version string) map[string]string {
	nodes := map[string]string{}
	for m := g.migrations[version]; m != nil; m = g.migrations[m.To] {
		maps.Copy(nodes, m.Nodes)
	}
	return nodes
}

// migrated is a stored checkpoint as the graph's version has it: as it is stored if no migration is for it.
type migrated struct {
	tuple   *saver.Tuple
	changed []string     // channels that are not stored like that
	through []*Migration // what was applied
	busy    []string     // see migrating.busy
}

// migrated applies the migrations that are for a checkpoint.
func (g *Graph) migrated(ctx context.Context, s saver.Saver, saved *saver.Tuple) (now migrated, err error) {
	now.tuple = saved
	version := versionOf(saved.Note)
	if g.migrations[version] == nil {
		return now, nil
	}
	st, err := beginMigration(s, saved)
	if err == nil {
		st.busy, err = busyNodes(ctx, s, saved, g.renames(version))
	}
	if err != nil {
		return now, err
	}
	for m := g.migrations[version]; m != nil; m = g.migrations[m.To] {
		if err := g.bounded(ctx, saved.Config.ThreadID, func() error { return st.apply(g, m) }); err != nil {
			if ctx.Err() != nil {
				return now, context.Cause(ctx)
			}
			at := saved.Config
			return now, &MigrationError{ThreadID: at.ThreadID, Namespace: at.Namespace, CheckpointID: saved.Checkpoint.ID, From: m.From,
				To: m.To, Name: m.Name, Err: err}
		}
		now.through = append(now.through, m)
	}
	st.note(g)
	now.tuple, now.changed, now.busy = &st.tuple, slices.Sorted(maps.Keys(st.changed)), st.busy
	return now, nil
}

// migrationTime is how long one migration of one thread may take; tests set it. It is far more than one needs that ends.
var migrationTime = time.Minute

// mostEndless is of how many threads migrations may run on that have not ended in time. Where there are more the functions, and not the
// values of some threads, are at fault, and no more are begun.
const mostEndless = 64

// endless are the threads of which a migration runs on that has not ended in time.
type endless struct {
	mu      sync.Mutex
	threads map[string]bool
}

// refuse returns an error if none is to be begun for a thread.
func (e *endless) refuse(thread string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.threads[thread]:
		return errors.New("an earlier call for this thread has not ended, and runs on")
	case len(e.threads) >= mostEndless:
		return fmt.Errorf("those of %d threads have not ended, and run on; no more are begun", mostEndless)
	}
	return nil
}

// keep notes a thread until its migration ends.
func (e *endless) keep(thread string, ended <-chan error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.threads == nil {
		e.threads = map[string]bool{}
	}
	e.threads[thread] = true
	go func() {
		<-ended
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.threads, thread)
	}()
}

// bounded calls a migration, and waits for its end for migrationTime. One that loops cannot be stopped: it works on a copy.
func (g *Graph) bounded(ctx context.Context, thread string, f func() error) error {
	if err := g.endless.refuse(thread); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() {
		err := errors.New("it called runtime.Goexit")
		defer func() { ended <- err }()
		err = guard(f)
	}()
	t := time.NewTimer(migrationTime)
	select {
	case err := <-ended:
		t.Stop()
		return err
	case <-t.C:
		g.endless.keep(thread, ended)
		return fmt.Errorf("it has not ended after %v", migrationTime)
	case <-ctx.Done():
		go func() { // it is bounded also if nobody waits for it
			select {
			case <-ended:
				t.Stop()
			case <-t.C:
				g.endless.keep(thread, ended)
			}
		}()
		return context.Cause(ctx)
	}
}

// migrating is a checkpoint that is being migrated: a copy.
type migrating struct {
	codec   serde.Serializer
	tuple   saver.Tuple
	changed map[string]bool
	next    saver.Version // of what was changed
	busy    []string      // see busyNodes: if there are any no node is renamed
}

// renames are the nodes that a migration renames.
func (st *migrating) renames(m *Migration) map[string]string {
	if len(st.busy) > 0 {
		return nil
	}
	return m.Nodes
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
	for from, to := range st.renames(m) {
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
			if list[i], err = st.packet(m, p); err != nil {
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
func (st *migrating) packet(m *Migration, v any) (any, error) {
	p, ok := sendOf(v)
	if !ok {
		return v, nil
	}
	var err error
	if m.Packet != nil {
		p.Arg, err = m.Packet(cmp.Or(m.Nodes[p.Node], p.Node), p.Arg)
	}
	p.Node = cmp.Or(st.renames(m)[p.Node], p.Node)
	return p, err
}

// pending lets the migration change what ended tasks have written.
func (st *migrating) pending(g *Graph, m *Migration) error {
	for i := range st.tuple.PendingWrites {
		w := &st.tuple.PendingWrites[i]
		if node, ok := strings.CutPrefix(w.Channel, branchPrefix); ok {
			w.Channel = branchPrefix + cmp.Or(st.renames(m)[node], node)
		}
		isWrite := isStateKey(w.Channel) && !isSpecial(w.Channel) && m.Write != nil && !g.isDelta(g.newName(w.Channel))
		isQuestion := w.Channel == chInterrupt && m.Question != nil
		if !isWrite && !isQuestion && w.Channel != chTasks {
			continue
		}
		x, err := w.Value.Any()
		if err != nil {
			return fmt.Errorf("read a pending write of task %s to channel %q: %w", w.TaskID, w.Channel, err)
		}
		switch {
		case isQuestion:
			x, err = questions(m, x)
		case w.Channel == chTasks:
			x, err = st.packet(m, x)
		default:
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

// questions changes the questions with which a task waits. Waits for an instant or a signal are none.
func questions(m *Migration, stored any) ([]Interrupt, error) {
	list := slices.Clone(answer.Interrupts(stored))
	for i, q := range list {
		if q.IsWait() {
			continue
		}
		now, err := m.Question(q)
		if err != nil {
			return nil, fmt.Errorf("question %s: %w", q.ID, err)
		}
		now.ID = q.ID
		list[i] = now
	}
	return list, nil
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

// renameNode renames a node where it is to run next. No name is both a former and a present one, so the order does not matter.
func (st *migrating) renameNode(from, to string) {
	cp := &st.tuple.Checkpoint
	rename(cp.Seen, from, to)
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
	st.tuple.Note = st.tuple.Note.Clone()
	for i, name := range st.tuple.Note.Next {
		if name == from {
			st.tuple.Note.Next[i] = to
		}
	}
}

// busyNodes are the nodes that keep a thread from having its nodes renamed, ascending: the former names of those of whose tasks something
// is stored, because they would be other tasks under their new names; and new names of nodes that the former program
// had, too, and left to run. nodes are the renames of the whole chain of migrations, which begins at saved.
func busyNodes(ctx context.Context, s saver.Saver, saved *saver.Tuple, nodes map[string]string) ([]string, error) {
	if len(nodes) == 0 {
		return nil, nil
	}
	busy, cp := map[string]bool{}, &saved.Checkpoint
	due := saved.Note == nil // whether a node that is renamed is left to run: else no graph inside is under way
	taken := func(name string) bool {
		return slices.Contains(slices.Collect(maps.Values(nodes)), name)
	}
	if saved.Note != nil {
		for _, name := range saved.Note.Next {
			busy[name], due = taken(name), due || nodes[name] != ""
		}
	} else {
		for name := range cp.Values {
			node, isBranch := strings.CutPrefix(name, branchPrefix)
			busy[node] = busy[node] || isBranch && taken(node)
		}
	}
	work := map[string]bool{} // paths of tasks of nodes of which something is stored
	ids := map[string]bool{}
	for _, w := range saved.PendingWrites {
		if w.TaskID == nullTaskID {
			continue
		}
		root, _ := rootOf(w.TaskPath)
		work[root], ids[w.TaskID] = true, true
	}
	for from := range nodes {
		busy[from] = work[pullPath(from).String()]
	}
	var list []any
	if v, ok := cp.Values[chTasks]; ok {
		x, err := v.Any()
		if err != nil {
			return nil, fmt.Errorf("read the packets: %w", err)
		}
		list, _ = x.([]any)
	}
	for i, x := range list {
		p, ok := sendOf(x)
		to := nodes[p.Node]
		due = due || to != ""
		if ok && taken(p.Node) {
			busy[p.Node] = true
		}
		if !ok || to == "" || !work[sendPathString(i)] {
			continue
		}
		// The path of a packet does not say its node. But if the task has its new name, this program has begun it.
		made, err := newTaskIDs(cp.ID, cp.V, stepOf(saved.Metadata)+1)
		if err != nil {
			return nil, err
		}
		if !ids[made.sent(childNS(saved.Config.Namespace, to), to, i)] {
			busy[p.Node] = true
		}
	}
	at := saved.Config
	at.CheckpointID = cp.ID
	if due {
		for tup, err := range answer.Below(ctx, s, at) {
			if err != nil {
				return nil, &PersistError{Op: fmt.Sprintf("list checkpoints of thread %q", at.ThreadID), Err: err}
			}
			inside := strings.TrimPrefix(tup.Config.Namespace, childNS(at.Namespace, ""))
			if node, _, _ := strings.Cut(inside, nsEnd); nodes[node] != "" {
				busy[node] = true
			}
		}
	}
	maps.DeleteFunc(busy, func(_ string, is bool) bool { return !is })
	return slices.Sorted(maps.Keys(busy)), nil
}

// listedOnce is a saver that lists the checkpoints of one thread once, as far as they are asked for: for each
// checkpoint of a history busyNodes looks at those behind it. It keeps no values and no writes.
type listedOnce struct {
	saver.Saver
	found []*saver.Tuple // newest first
	all   bool
}

// listedAtATime is how many checkpoints listedOnce reads more.
const listedAtATime = 100

// List implements saver.Saver.
func (s *listedOnce) List(ctx context.Context, q saver.Query) iter.Seq2[*saver.Tuple, error] {
	if q.Namespace != nil || q.CheckpointID != "" || q.Before != "" || q.Filter != nil || q.Limit != 0 {
		return s.Saver.List(ctx, q)
	}
	q.Limit = listedAtATime
	return func(yield func(*saver.Tuple, error) bool) {
		for i := 0; ; i++ {
			if i == len(s.found) && !s.all {
				if err := s.more(ctx, q); err != nil {
					yield(nil, err)
					return
				}
			}
			if i == len(s.found) || !yield(s.found[i], nil) {
				return
			}
		}
	}
}

// more reads those behind what was found.
func (s *listedOnce) more(ctx context.Context, q saver.Query) error {
	before := len(s.found)
	if before > 0 {
		q.Before = s.found[before-1].Checkpoint.ID
	}
	for tup, err := range s.Saver.List(ctx, q) {
		if err != nil {
			return err
		}
		s.found = append(s.found, &saver.Tuple{Config: tup.Config, Checkpoint: saver.Checkpoint{ID: tup.Checkpoint.ID}, Metadata: tup.Metadata})
	}
	s.all = len(s.found)-before < q.Limit
	return nil
}

// note gives the copy the graph's version, so that it is not migrated again.
func (st *migrating) note(g *Graph) {
	if st.tuple.Note != nil {
		st.tuple.Note = st.tuple.Note.Clone()
		st.tuple.Note.Version = g.version
	}
}
