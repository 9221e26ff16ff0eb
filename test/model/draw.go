package model

import (
	"maps"
	"slices"

	"pgregory.net/rapid"

	"github.com/stele-go/stele/saver"
)

// The spaces are small, so that calls meet.
var (
	thread       = rapid.SampledFrom([]string{"t1", "t1", "t2", "t3"})
	namespace    = rapid.SampledFrom([]string{"", "", "n:1"})
	checkpointID = rapid.SampledFrom([]string{"c1", "c2", "c3", "c4", "c5", "c6", "c7"})
	channel      = rapid.SampledFrom([]string{"a", "b", "d"})
	task         = rapid.SampledFrom([]string{"task-1", "task-2", saver.NullTaskID})
	taskPath     = rapid.SampledFrom([]string{"", "~p, a", "~p, b"})
	version      = rapid.SampledFrom([]saver.Version{
		saver.IntVersion(1), saver.IntVersion(2), saver.IntVersion(3), saver.StringVersion("00000000000000000000000000000002.0.25"),
		saver.FloatVersion(1.5), saver.StringVersion("x"),
	})
	value = rapid.SampledFrom([]any{nil, int64(1), "text", "other text", []byte("raw"), []any{int64(1), "x"}, map[string]any{"k": 1.5, "a": true}, 2.5,
		text, text + "A little more.", "Before it. " + text, text[:90] + "in between" + text[90:], text + text,
		text + "1", text + "2", text + "3", text + "4"})
)

// text is long enough for the other long values to be stored as patches against it, and
// it against them.
const text = "The engine keeps what an agent knows, the saver keeps what the engine did, and the store keeps both; " +
	"whoever comes later reads the one by the other, step by step, and begins where the last one ended."

func sometimes(ids *rapid.Generator[string]) *rapid.Generator[string] {
	return rapid.OneOf(rapid.Just(""), rapid.Just(""), ids)
}

// drawTarget is a checkpoint, or the head of a namespace.
func (m *machine) drawTarget(t *rapid.T) saver.Config {
	return saver.Config{ThreadID: thread.Draw(t, "thread"), Namespace: namespace.Draw(t, "namespace"), CheckpointID: sometimes(checkpointID).Draw(t, "checkpoint")}
}

// drawParent is usually a checkpoint that is there.
func (m *machine) drawParent(t *rapid.T, cfg saver.Config) (*saver.Tuple, string) {
	var there []*saver.Tuple
	for tup, err := range m.model.List(m.ctx, saver.Query{ThreadID: cfg.ThreadID, Namespace: &cfg.Namespace}) {
		if err == nil {
			there = append(there, tup)
		}
	}
	switch how := rapid.IntRange(0, 9).Draw(t, "parent"); {
	case how < 7 && len(there) > 0:
		tup := rapid.SampledFrom(there).Draw(t, "there")
		return tup, tup.Config.CheckpointID
	case how == 9:
		return nil, checkpointID.Draw(t, "any parent")
	}
	return nil, ""
}

func (m *machine) drawPut(t *rapid.T) saver.PutRequest {
	cfg := saver.Config{ThreadID: thread.Draw(t, "thread"), Namespace: namespace.Draw(t, "namespace")}
	parent, parentID := m.drawParent(t, cfg)
	cfg.CheckpointID = parentID
	if rapid.IntRange(0, 3).Draw(t, "conditional") == 0 {
		cfg.ExpectHead = saver.Head(sometimes(checkpointID).Draw(t, "expected"))
		if parent != nil && rapid.Bool().Draw(t, "expect the parent") {
			cfg.ExpectHead = saver.Head(parentID)
		}
	}
	if rapid.Bool().Draw(t, "with user") {
		cfg.Configurable = map[string]any{"user": "u", "__private": 1}
	}
	cp := saver.Checkpoint{
		V: rapid.SampledFrom([]int{4, 4, 3}).Draw(t, "v"), ID: checkpointID.Draw(t, "id"), TS: "now",
		Values: map[string]saver.Value{}, Versions: map[string]saver.Version{},
	}
	fresh := map[string]saver.Version{}
	if parent != nil {
		maps.Copy(cp.Versions, parent.Checkpoint.Versions)
	}
	for _, ch := range []string{"a", "b", "d", saver.ChannelTasks} {
		drawChannel(t, ch, &cp, fresh)
	}
	if rapid.Bool().Draw(t, "seen") {
		cp.Seen = map[string]map[string]saver.Version{"node": {"a": version.Draw(t, "seen version")}, "__input__": {}}
		cp.Updated = slices.Sorted(maps.Keys(fresh))
	}
	md := saver.Metadata{"step": rapid.IntRange(0, 2).Draw(t, "step"), "nested": map[string]any{"k": 7}}
	if run := rapid.SampledFrom([]string{"", "r1", "r2"}).Draw(t, "run"); run != "" {
		md["run_id"] = run
	}
	req := saver.PutRequest{Config: cfg, Checkpoint: cp, Metadata: md, NewVersions: fresh}
	m.drawAtomic(t, &req)
	return req
}

// drawChannel leaves a channel as the parent had it, drops it, or gives it a
// version: with a value, empty, or one that is not new.
func drawChannel(t *rapid.T, ch string, cp *saver.Checkpoint, fresh map[string]saver.Version) {
	how := rapid.IntRange(0, 9).Draw(t, "channel "+ch)
	if ch == saver.ChannelTasks && how < 8 {
		delete(cp.Versions, ch)
		return
	}
	switch {
	case how < 4:
		return
	case how == 4:
		delete(cp.Versions, ch)
		return
	}
	cp.Versions[ch] = version.Draw(t, "version")
	if how > 5 {
		fresh[ch] = cp.Versions[ch]
	}
	if how > 6 {
		cp.Values[ch] = saver.ValueOf(value.Draw(t, "value"))
	}
}

func (m *machine) drawAtomic(t *rapid.T, req *saver.PutRequest) {
	if rapid.IntRange(0, 2).Draw(t, "noted") > 0 {
		req.Note = drawNote(t)
	}
	if rapid.IntRange(0, 4).Draw(t, "values from") == 0 {
		from := req.Config.At(checkpointID.Draw(t, "source"))
		req.ValuesFrom = &from
	}
	for range rapid.SampledFrom([]int{0, 0, 0, 1, 2}).Draw(t, "tasks") {
		req.Writes = append(req.Writes, saver.TaskWrites{
			CheckpointID: sometimes(checkpointID).Draw(t, "writes on"), TaskID: task.Draw(t, "task"), TaskPath: taskPath.Draw(t, "path"), Writes: drawWrites(t),
		})
	}
}

// drawNote is a note whose delta channels are those the checkpoint has, or others.
func drawNote(t *rapid.T) *saver.Note {
	names := rapid.SampledFrom([]string{"a", "node", "d", "another node", ""})
	n := &saver.Note{Version: rapid.SampledFrom([]string{"", "version 1"}).Draw(t, "version"), Graph: rapid.SampledFrom([]string{"", "LangGraph", "a graph"}).Draw(t, "graph")}
	if next := rapid.SliceOfN(names, 0, 2).Draw(t, "next"); len(next) > 0 {
		n.Next = next
		n.Stop = rapid.SampledFrom([]saver.Stop{"", saver.StopBreakpoint, saver.StopSteps}).Draw(t, "stop")
	}
	if deltas := rapid.SliceOfNDistinct(names, 0, 2, rapid.ID).Draw(t, "deltas"); len(deltas) > 0 {
		n.Deltas = slices.Sorted(slices.Values(deltas))
	}
	return n
}

func drawWrites(t *rapid.T) []saver.Write {
	ws := make([]saver.Write, rapid.IntRange(0, 3).Draw(t, "writes"))
	for i := range ws {
		ch := rapid.SampledFrom([]string{"a", "b", "d", "d", saver.ChannelTasks, saver.ChannelError, saver.ChannelInterrupt, saver.ChannelResume}).Draw(t, "channel")
		ws[i] = saver.Write{Channel: ch, Value: saver.ValueOf(value.Draw(t, "value"))}
	}
	return ws
}
