package parity_test

import (
	"context"
	"iter"
	"maps"
	"slices"
	"testing"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/serde"
	"github.com/stele-go/stele/test/parity"
)

// liar answers for a right saver, but not rightly. Nil functions do not lie.
type liar struct {
	saver.Saver
	put    func(saver.Config) (saver.Config, error)
	writes func([]saver.Write) []saver.Write
	tuple  func(*saver.Tuple)
	list   func([]*saver.Tuple) []*saver.Tuple
	query  func(*saver.Query)
	get    func(*saver.Config)
	next   func(saver.Version) saver.Version
	keeps  bool // DeleteThread does nothing
}

func (l *liar) Put(ctx context.Context, cfg saver.Config, cp saver.Checkpoint, md saver.Metadata, nv map[string]saver.Version) (saver.Config, error) {
	got, err := l.Saver.Put(ctx, cfg, cp, md, nv)
	if err == nil && l.put != nil {
		return l.put(got)
	}
	return got, err
}

func (l *liar) PutWrites(ctx context.Context, cfg saver.Config, writes []saver.Write, task, path string) error {
	if l.writes != nil {
		writes = l.writes(slices.Clone(writes))
	}
	return l.Saver.PutWrites(ctx, cfg, writes, task, path)
}

// altered is a copy that can be changed without changing the saver.
func (l *liar) altered(t *saver.Tuple) *saver.Tuple {
	out := *t
	out.Metadata = maps.Clone(t.Metadata)
	out.Checkpoint.Values = maps.Clone(t.Checkpoint.Values)
	out.Checkpoint.Versions = maps.Clone(t.Checkpoint.Versions)
	out.Checkpoint.Seen = maps.Clone(t.Checkpoint.Seen)
	out.PendingWrites = slices.Clone(t.PendingWrites)
	if l.tuple != nil {
		l.tuple(&out)
	}
	return &out
}

func (l *liar) GetTuple(ctx context.Context, cfg saver.Config) (*saver.Tuple, error) {
	if l.get != nil {
		l.get(&cfg)
	}
	t, err := l.Saver.GetTuple(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return l.altered(t), nil
}

func (l *liar) List(ctx context.Context, q saver.Query) iter.Seq2[*saver.Tuple, error] {
	return func(yield func(*saver.Tuple, error) bool) {
		if l.query != nil {
			l.query(&q)
		}
		var all []*saver.Tuple
		for t, err := range l.Saver.List(ctx, q) {
			if err != nil {
				yield(nil, err)
				return
			}
			all = append(all, l.altered(t))
		}
		if l.list != nil {
			all = l.list(all)
		}
		for _, t := range all {
			if !yield(t, nil) {
				return
			}
		}
	}
}

func (l *liar) DeleteThread(ctx context.Context, id string) error {
	if l.keeps {
		return nil
	}
	return l.Saver.DeleteThread(ctx, id)
}

func (l *liar) NextVersion(current saver.Version, channel string) (saver.Version, error) {
	v, err := l.Saver.NextVersion(current, channel)
	if err == nil && l.next != nil {
		v = l.next(v)
	}
	return v, err
}

// first is the first key, in order, of a map that is not empty.
func first[V any](m map[string]V) (string, bool) {
	for _, k := range slices.Sorted(maps.Keys(m)) {
		return k, true
	}
	return "", false
}

// inValues changes the first value of a tuple.
func inValues(change func(t *saver.Tuple, channel string, v serde.Typed)) func(*saver.Tuple) {
	return func(t *saver.Tuple) {
		if channel, ok := first(t.Checkpoint.Values); ok {
			v, err := t.Checkpoint.Values[channel].Typed()
			if err == nil {
				change(t, channel, v)
			}
		}
	}
}

// lies are wrong in one way each, as a saver with one bug would be.
var lies = map[string]*liar{
	"value loses a byte": {tuple: inValues(func(t *saver.Tuple, channel string, v serde.Typed) {
		t.Checkpoint.Values[channel] = saver.ValueTyped(serde.Typed{Kind: v.Kind, Data: v.Data[:max(0, len(v.Data)-1)]})
	})},
	"value changes its kind": {tuple: inValues(func(t *saver.Tuple, channel string, v serde.Typed) {
		t.Checkpoint.Values[channel] = saver.ValueTyped(serde.Typed{Kind: "json", Data: v.Data})
	})},
	"value is missing": {tuple: inValues(func(t *saver.Tuple, channel string, _ serde.Typed) { delete(t.Checkpoint.Values, channel) })},
	"value too many": {tuple: inValues(func(t *saver.Tuple, _ string, v serde.Typed) {
		t.Checkpoint.Values["stray"] = saver.ValueTyped(v)
	})},
	"version of another kind": {tuple: func(t *saver.Tuple) {
		if channel, ok := first(t.Checkpoint.Versions); ok {
			t.Checkpoint.Versions[channel] = saver.IntVersion(1)
		}
	}},
	"seen is forgotten":     {tuple: func(t *saver.Tuple) { t.Checkpoint.Seen = nil }},
	"updated is forgotten":  {tuple: func(t *saver.Tuple) { t.Checkpoint.Updated = nil }},
	"updated becomes empty": {tuple: func(t *saver.Tuple) { t.Checkpoint.Updated = []string{} }},
	"format is raised":      {tuple: func(t *saver.Tuple) { t.Checkpoint.V++ }},
	"time is rounded":       {tuple: func(t *saver.Tuple) { t.Checkpoint.TS = t.Checkpoint.TS[:19] }},
	"step becomes a float": {tuple: func(t *saver.Tuple) {
		if step, ok := t.Metadata.Step(); ok {
			t.Metadata["step"] = float64(step)
		}
	}},
	"metadata too many":      {tuple: func(t *saver.Tuple) { t.Metadata["thread_id"] = t.Config.ThreadID }},
	"metadata is missing":    {tuple: func(t *saver.Tuple) { delete(t.Metadata, "source") }},
	"parent is forgotten":    {tuple: func(t *saver.Tuple) { t.Parent = nil }},
	"parent is invented":     {tuple: func(t *saver.Tuple) { t.Parent = &t.Config }},
	"config keeps the rest":  {tuple: func(t *saver.Tuple) { t.Config.Configurable = map[string]any{"user_id": "u"} }},
	"pending writes are nil": {tuple: func(t *saver.Tuple) { t.PendingWrites = nil }},
	"write is lost": {tuple: func(t *saver.Tuple) {
		t.PendingWrites = t.PendingWrites[:max(0, len(t.PendingWrites)-1)]
	}},
	"writes by task alone": {tuple: func(t *saver.Tuple) {
		slices.SortStableFunc(t.PendingWrites, func(a, b saver.PendingWrite) int {
			a.TaskPath, b.TaskPath = "", ""
			return a.Compare(b)
		})
	}},
	"resume writes are dropped": {writes: func(ws []saver.Write) []saver.Write {
		return slices.DeleteFunc(ws, func(w saver.Write) bool { return w.Channel == saver.ChannelResume })
	}},
	"writes of a call are reordered": {writes: func(ws []saver.Write) []saver.Write { slices.Reverse(ws); return ws }},
	"oldest first":                   {list: func(all []*saver.Tuple) []*saver.Tuple { slices.Reverse(all); return all }},
	"list drops the last":            {list: func(all []*saver.Tuple) []*saver.Tuple { return all[:max(0, len(all)-1)] }},
	"limit is ignored": {query: func(q *saver.Query) {
		if q.Limit > 0 {
			q.Limit = 0
		}
	}},
	"limit 0 is no limit": {query: func(q *saver.Query) {
		if q.Limit == saver.NoResults {
			q.Limit = 0
		}
	}},
	"negative limit is none": {query: func(q *saver.Query) { q.Limit = max(q.Limit, saver.NoResults+1, 0) }},
	"filter is ignored":      {query: func(q *saver.Query) { q.Filter = nil }},
	"before is inclusive": {query: func(q *saver.Query) {
		if q.Before != "" {
			q.Before += "\x00"
		}
	}},
	"namespace is ignored":    {query: func(q *saver.Query) { q.Namespace = nil }},
	"root means everywhere":   {query: func(q *saver.Query) { q.Namespace = nonRoot(q.Namespace) }},
	"id is ignored in lists":  {query: func(q *saver.Query) { q.CheckpointID = "" }},
	"id is ignored":           {get: func(cfg *saver.Config) { cfg.CheckpointID = "" }},
	"namespace is the root":   {get: func(cfg *saver.Config) { cfg.Namespace = "" }},
	"put returns its parent":  {put: func(cfg saver.Config) (saver.Config, error) { return cfg.At("parent"), nil }},
	"nothing is deleted":      {keeps: true},
	"versions stand still":    {next: func(saver.Version) saver.Version { return saver.StringVersion("1") }},
	"versions lose their dot": {next: func(v saver.Version) saver.Version { return saver.StringVersion(v.String()[:32]) }},
}

func nonRoot(ns *string) *string {
	if ns != nil && *ns == "" {
		return nil
	}
	return ns
}

// TestEveryLieIsNoticed replays into savers with one bug each.
func TestEveryLieIsNoticed(t *testing.T) {
	fixtures := load(t)
	for name, l := range lies {
		noticed := false
		for _, f := range fixtures {
			l.Saver = &model{}
			tally, err := parity.Replay(context.Background(), l, f, 0, nil)
			if (err != nil) != (len(tally.Differences) > 0) {
				t.Errorf("%s: %d differences, error %v", name, len(tally.Differences), err)
			}
			if noticed = len(tally.Differences) > 0; noticed {
				break
			}
		}
		if !noticed {
			t.Errorf("a saver in which %q goes unnoticed", name)
		}
	}
}

// mixing finds values by channel and version alone, as LangGraph's saver does.
type mixing struct{ *model }

func (m mixing) GetTuple(ctx context.Context, cfg saver.Config) (*saver.Tuple, error) {
	t, err := m.model.GetTuple(ctx, cfg)
	if err != nil {
		return nil, err
	}
	t.Checkpoint.Values = map[string]saver.Value{}
	for channel, v := range t.Checkpoint.Versions {
		if value := m.newest(t.Config, channel, v); !value.IsZero() {
			t.Checkpoint.Values[channel] = value
		}
	}
	return t, nil
}

// rewriting has the rule of repeated writes wrong: it decides by last whether
// the last write at an index wins, or the first.
type rewriting struct {
	*model
	last func(index int) bool
}

func (r rewriting) PutWrites(ctx context.Context, cfg saver.Config, writes []saver.Write, task, path string) error {
	if err := r.model.PutWrites(ctx, cfg, writes, task, path); err != nil {
		return err
	}
	type key struct {
		thread, ns, id, task string
		index                int
	}
	kept := map[key]int{}
	var out []modelWrite
	for _, w := range r.model.writes {
		k := key{w.at.ThreadID, w.at.Namespace, w.at.CheckpointID, w.TaskID, w.Index}
		if i, ok := kept[k]; !ok {
			kept[k] = len(out)
			out = append(out, w)
		} else if r.last(w.Index) {
			out[i] = w
		}
	}
	r.model.writes = out
	return nil
}

// TestDeeperBugsAreNoticed replays into savers that store the wrong thing.
func TestDeeperBugsAreNoticed(t *testing.T) {
	for _, bug := range []struct {
		name, fixture string
		s             saver.Saver
	}{
		{"forks mix", "forks_counted", mixing{&model{}}},
		{"the last write always wins", "saver_edges", rewriting{&model{}, func(int) bool { return true }}},
		{"the first write always wins", "saver_edges", rewriting{&model{}, func(int) bool { return false }}},
		{"the first write always wins", "interrupts", rewriting{&model{}, func(int) bool { return false }}},
	} {
		f, err := parity.Load(bug.fixture)
		if err != nil {
			t.Fatal(err)
		}
		if tally, err := parity.Replay(context.Background(), bug.s, f, 0, nil); err == nil || len(tally.Differences) == 0 {
			t.Errorf("%s: unnoticed by %s", bug.name, bug.fixture)
		}
	}
	right := rewriting{&model{}, func(index int) bool { return index < 0 }}
	f, err := parity.Load("saver_edges")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parity.Replay(context.Background(), right, f, 0, nil); err != nil {
		t.Errorf("the right rule differs: %v", err)
	}
}
