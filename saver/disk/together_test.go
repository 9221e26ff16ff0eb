package disk

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/engine"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/group"
)

// lineage makes requests for one checkpoint after the other, as a run does: each has the maps of the
// one before where nothing changed.
type lineage struct {
	random   *rand.Rand
	thread   string
	run      int
	head     map[string]string // by namespace
	versions map[string]saver.Version
	seen     map[string]map[string]saver.Version
	made     int
}

func newLineage(thread string, seed uint64) *lineage {
	return &lineage{random: rand.New(rand.NewPCG(seed, 1)), thread: thread, head: map[string]string{},
		versions: map[string]saver.Version{}, seen: map[string]map[string]saver.Version{}}
}

func (l *lineage) next() saver.PutRequest {
	l.made++
	ns := ""
	if l.random.IntN(4) == 0 {
		ns = "inside"
	}
	after := 0 // so that namespaces have some ids in common
	_, _ = fmt.Sscan(l.head[ns], &after)
	id := fmt.Sprintf("%04d", after+1)
	if l.random.IntN(8) == 0 {
		l.run++
	}
	name := func() string { return fmt.Sprint("c", l.random.IntN(6)) }
	v, err := saver.NextVersion(saver.IntVersion(int64(l.made)), l.random.Float64)
	if err != nil {
		panic(err)
	}
	l.versions = maps.Clone(l.versions)
	if l.random.IntN(4) == 0 {
		delete(l.versions, name()) // so that as many names are not always the same
	}
	changed, values := map[string]saver.Version{}, map[string]saver.Value{}
	for range l.random.IntN(3) {
		c := name()
		l.versions[c], changed[c] = v, v
		if l.random.IntN(4) > 0 {
			values[c] = saver.ValueOf(fmt.Sprint(c, id))
		}
	}
	l.seen = maps.Clone(l.seen)
	node := fmt.Sprint("node", l.random.IntN(5))
	switch saw := maps.Clone(l.seen[node]); {
	case l.random.IntN(6) == 0:
		delete(l.seen, node)
	case saw == nil:
		l.seen[node] = map[string]saver.Version{}
	default:
		saw[name()] = v
		l.seen[node] = saw
	}
	req := saver.PutRequest{Config: saver.Config{ThreadID: l.thread, Namespace: ns, CheckpointID: l.head[ns]},
		Checkpoint: saver.Checkpoint{V: 4, ID: id, TS: "2026-01-01T00:00:00+00:00", Versions: l.versions, Seen: l.seen, Values: values},
		Metadata:   saver.Metadata{"step": l.made, "run_id": fmt.Sprint("run", l.run)}, NewVersions: changed,
		Note: &saver.Note{Graph: "g", Next: []string{fmt.Sprint("node", l.random.IntN(3))}}}
	for i := range l.random.IntN(3) {
		w := saver.TaskWrites{CheckpointID: l.head[ns], TaskID: fmt.Sprint("task", i)}
		for range l.random.IntN(3) {
			w.Writes = append(w.Writes, saver.Write{Channel: name(), Value: saver.ValueOf(id)})
		}
		if w.CheckpointID != "" && len(w.Writes) > 0 {
			req.Writes = append(req.Writes, w)
		}
	}
	l.head[ns] = id
	return req
}

func openMem(t *testing.T) *Saver {
	t.Helper()
	s, err := Open("store", Options{ManualWork: true, Simulation: Simulation{FS: vfs.NewMem(vfs.MemOptions{}), Inline: true}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// described is all that a store tells of a thread.
func described(t *testing.T, s *Saver, thread string) (out []map[string]any) {
	t.Helper()
	for tup, err := range s.List(t.Context(), saver.Query{ThreadID: thread}) {
		if err != nil {
			t.Fatal(err)
		}
		values, writes := map[string]any{}, []any{}
		for c, v := range tup.Checkpoint.Values {
			if values[c], err = v.Any(); err != nil {
				t.Fatal(err)
			}
		}
		for _, w := range tup.PendingWrites {
			v, err := w.Value.Any()
			if err != nil {
				t.Fatal(err)
			}
			writes = append(writes, []any{w.TaskID, w.Channel, w.Index, v})
		}
		cp := tup.Checkpoint
		out = append(out, map[string]any{"id": cp.ID, "ns": tup.Config.Namespace, "parent": tup.Parent, "versions": cp.Versions, "seen": cp.Seen,
			"metadata": tup.Metadata, "note": tup.Note, "values": values, "writes": writes})
	}
	return out
}

// Checkpoints that are stored at once are those that would be stored one by one.
func TestGroupIsAsOneByOne(t *testing.T) {
	one, many := openMem(t), openMem(t)
	for seed := range uint64(60) {
		thread := fmt.Sprint("thread", seed)
		a, b := newLineage(thread, seed), newLineage(thread, seed)
		other, alsoOther := newLineage(thread+" beside", seed), newLineage(thread+" beside", seed)
		var reqs []saver.PutRequest
		for range 16 {
			from, alone := b, a
			if b.random.IntN(6) == 0 {
				from, alone = alsoOther, other
			}
			a.random.IntN(6)
			if _, err := one.PutRequest(t.Context(), alone.next()); err != nil {
				t.Fatal(err)
			}
			reqs = append(reqs, from.next())
		}
		if n, err := group.Of(many).PutGroup(t.Context(), reqs); n != len(reqs) || err != nil {
			t.Fatal(n, err)
		}
		for _, thread := range []string{thread, thread + " beside"} {
			want, got := described(t, one, thread), described(t, many, thread)
			if !reflect.DeepEqual(want, got) {
				t.Fatalf("%s: stored one by one\n%v\nat once\n%v", thread, want, got)
			}
		}
	}
	for run := range 16 { // of all threads
		for _, s := range []*Saver{one, many} {
			if _, err := s.DeleteForRuns(t.Context(), []string{fmt.Sprint("run", run)}, nil); err != nil {
				t.Fatal(err)
			}
		}
		for seed := range uint64(60) {
			thread := fmt.Sprint("thread", seed)
			if want, got := len(described(t, one, thread)), len(described(t, many, thread)); want != got {
				t.Fatalf("%s: once run %d is deleted, there are %d checkpoints of those stored one by one, %d of the others", thread, run, want, got)
			}
		}
	}
}

// A run that is deleted between two of its checkpoints that were made together is found again.
func TestRunDeletedWithinGroup(t *testing.T) {
	s := openMem(t)
	following := new(engine.Following)
	var steps []engine.Step
	for i := range 2 {
		p := &diskPut{s: s, following: following}
		step, err := p.prepare(t.Context(), &saver.PutRequest{Config: saver.Config{ThreadID: "t"}, Checkpoint: saver.Checkpoint{V: 4, ID: fmt.Sprint(i)},
			Metadata: saver.Metadata{"run_id": "run"}}, 1)
		if err != nil {
			t.Fatal(err)
		}
		steps = append(steps, step)
	}
	for i := range steps {
		if n, err := s.e.CommitAll(t.Context(), steps[i:i+1]); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		if _, err := s.DeleteForRuns(t.Context(), []string{"run"}, nil); err != nil {
			t.Fatal(err)
		}
		if left := described(t, s, "t"); len(left) != 0 {
			t.Errorf("after checkpoint %d its run is deleted, and left is %v", i, left)
		}
	}
}
