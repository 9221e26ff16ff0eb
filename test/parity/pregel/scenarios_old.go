package traces

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/serde"
)

func init() {
	for _, v := range []string{"v1", "v2", "v3"} {
		scenarios["old_"+v] = func(tr *trace) { oldThread(tr, v) }
	}
}

// oldCheckpoint is a checkpoint as an older release stored it; see old.py.
type oldCheckpoint struct {
	V                int
	ID, TS, Parent   string
	Metadata, Values map[string]any
	Versions         map[string]string
	Seen             map[string]map[string]string
	Writes           [][3]any
}

func (tr *trace) must(err error) {
	if err != nil {
		tr.t.Fatal(err)
	}
}

// storeOld puts an old checkpoint on a thread.
func (tr *trace) storeOld(thread string, old oldCheckpoint) {
	cp := saver.Checkpoint{V: old.V, ID: old.ID, TS: old.TS, Values: map[string]saver.Value{},
		Versions: map[string]saver.Version{}, Seen: map[string]map[string]saver.Version{}}
	for name, v := range old.Values {
		cp.Values[name] = saver.ValueOf(revive(v))
	}
	for name, s := range old.Versions {
		cp.Versions[name] = saver.StringVersion(s)
	}
	for node, seen := range old.Seen {
		cp.Seen[node] = map[string]saver.Version{}
		for name, s := range seen {
			cp.Seen[node][name] = saver.StringVersion(s)
		}
	}
	at := saver.Config{ThreadID: thread, CheckpointID: old.Parent}
	_, err := tr.saver.Put(ctx, at, cp, saver.Metadata(plain(old.Metadata).(m)), cp.Versions)
	tr.must(err)
	var tasks []string
	writes := map[string][]saver.Write{}
	for _, w := range old.Writes {
		task := w[0].(string)
		if writes[task] == nil {
			tasks = append(tasks, task)
		}
		writes[task] = append(writes[task], saver.Write{Channel: w[1].(string), Value: saver.ValueOf(revive(w[2]))})
	}
	for _, task := range tasks {
		tr.must(tr.saver.PutWrites(ctx, at.At(old.ID), writes[task], task, ""))
	}
}

// revive makes a stored value of what old.py wrote for it.
func revive(v any) any {
	switch x := v.(type) {
	case []any:
		out := make([]any, len(x))
		for i := range x {
			out[i] = revive(x[i])
		}
		return out
	case m:
		if in, ok := x["$interrupt"].(m); ok {
			return pregel.Interrupt{ID: in["id"].(string), Value: in["value"]}
		}
		if list, ok := x["$set"].([]any); ok {
			return serde.Set(list)
		}
	}
	return v
}

// plain turns whole JSON numbers into integers.
func plain(v any) any {
	switch x := v.(type) {
	case m:
		for k := range x {
			x[k] = plain(x[k])
		}
	case float64:
		return int64(x)
	}
	return v
}

func oldThread(tr *trace, v string) {
	text, err := os.ReadFile(filepath.Join("old", v+".json"))
	tr.must(err)
	var thread []oldCheckpoint
	tr.must(json.Unmarshal(text, &thread))
	call(tr, "update", func(bool) any {
		for _, cp := range thread {
			tr.storeOld("t", cp)
		}
		thread[2].Writes = nil
		for _, cp := range thread[:3] {
			tr.storeOld("middle", cp)
		}
		return nil
	})
	b := builder()
	addNodes(b, "plan", "analyze", "fetch1", "fetch2")
	b.Node("qa", asker("ok?")).Edge(graph.Start, "plan").Edge("plan", "analyze").Edge("analyze", "fetch1")
	b.Conditional("plan", "more", func(context.Context, any) (any, error) { return "fetch2", nil }, "fetch2")
	g := tr.saved(b.Join([]string{"fetch1", "fetch2"}, "qa").Edge("qa", graph.End))
	tr.state(g, false)
	tr.history(g)
	tr.run(g, pregel.Command{Resume: "yes"})
	tr.history(g)
	tr.run(g, in("new"))
	middle := tr.config("middle")
	tr.state(g, false, middle)
	tr.run(g, nil, middle)
	tr.run(g, pregel.Command{Resume: "middle"}, middle)
	tr.historyOf(g, middle)
}
