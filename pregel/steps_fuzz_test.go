package pregel

import (
	"testing"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/memory"
	"github.com/stele-go/stele/saver/serde"
)

// FuzzSteps lists the steps of a checkpoint whose pending writes hold any data at all, at any path: none is invented
// without end, and the list ends.
func FuzzSteps(f *testing.F) {
	call := callPath(pullPath("n"), 0)
	for _, v := range []struct {
		path, channel string
		value         any
	}{
		{call.String(), chCalls, []any{[]any{int64(0), "pay", "h"}, []any{int64(0), int64(2), int64(1), int64(5)}}},
		{callPath(call, 3).String(), chReturn, "x"},
		{pullPath("n").String(), chWaits, map[string]any{"id": "wait-1", "until": int64(7), "n": int64(1), "when": int64(3), "signal": "s"}},
		{pullPath("n").String(), chWaits, map[string]any{"started": "t", "graph": "g", "n": int64(-1)}},
		{pullPath("n").String(), chWaits, map[string]any{"exposed": "x", "n": int64(1), "at": "a", "value": []any{1}}},
		{pullPath("n").String(), chWaits, map[string]any{"bound": "wait-1", "signal": map[string]any{"name": "s", "kind": "msgpack", "data": "wQ=="}}},
		{"", chInterrupt, "x"},
	} {
		typed, err := serde.Default().Encode(v.value)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(v.path, v.channel, typed.Data, call.String(), chCalls, typed.Data)
	}
	s := memory.New(memory.Options{})
	f.Fuzz(func(t *testing.T, path, channel string, data []byte, path2, channel2 string, data2 []byte) {
		tup := &saver.Tuple{}
		for _, w := range []struct {
			path, channel string
			data          []byte
		}{{path, channel, data}, {path2, channel2, data2}} {
			v := saver.ValueShared(serde.Typed{Kind: "msgpack", Data: w.data}, serde.Default())
			tup.PendingWrites = append(tup.PendingWrites, saver.PendingWrite{TaskID: w.path + w.channel, TaskPath: w.path, Channel: w.channel, Value: v})
		}
		steps, err := stepsAt(s, tup)
		if most := len(data) + len(data2) + 2; err == nil && len(steps) > most {
			t.Fatalf("%d steps, of at most %d", len(steps), most)
		}
	})
}
