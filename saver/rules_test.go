package saver

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stele-go/stele/serde"
)

// ResolveWrites gives what storing the writes one by one under their keys gives.
func TestResolveWrites(t *testing.T) {
	channels := rapid.SampledFrom([]string{"a", "b", ChannelError, ChannelScheduled, ChannelInterrupt, ChannelResume})
	rapid.Check(t, func(t *rapid.T) {
		type key struct {
			task  string
			index int
		}
		stored := map[key]PendingWrite{}
		var asked []PendingWrite
		for range rapid.IntRange(0, 6).Draw(t, "calls") {
			task, path := rapid.SampledFrom([]string{"t1", "t2"}).Draw(t, "task"), rapid.SampledFrom([]string{"", "p"}).Draw(t, "path")
			for i := range rapid.IntRange(0, 3).Draw(t, "writes") {
				ch := channels.Draw(t, "channel")
				w := PendingWrite{TaskID: task, Channel: ch, TaskPath: path, Index: WriteIndex(ch, i), Value: ValueOf(len(asked))}
				asked = append(asked, w)
				k := key{task, w.Index}
				if _, ok := stored[k]; !ok || w.Index < 0 {
					stored[k] = w
				}
			}
		}
		want := []PendingWrite{}
		for _, w := range stored {
			want = append(want, w)
		}
		slices.SortFunc(want, ComparePendingWrites)
		if got := ResolveWrites(asked); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("got %v\nwant %v", got, want)
		}
	})
}

func TestStatusOf(t *testing.T) {
	ask, write := WriteCall{TaskID: "a", Interrupt: true}, WriteCall{TaskID: "a", Output: true}
	askB, fail := WriteCall{TaskID: "b", Interrupt: true}, WriteCall{TaskID: "a", Error: true}
	answer, update := WriteCall{TaskID: NullTaskID, Resume: true}, WriteCall{TaskID: NullTaskID, Output: true}
	again := WriteCall{TaskID: "a", Interrupt: true, Resume: true}
	stop := WriteCall{TaskID: "s", Stopped: true}
	goesOn := &Note{Next: []string{"n"}}
	for _, c := range []struct {
		name  string
		note  *Note
		calls []WriteCall
		want  Status
	}{
		{"nothing is known", nil, nil, StatusUnknown}, {"still unknown", nil, []WriteCall{write}, StatusUnknown},
		{"asked", nil, []WriteCall{ask}, StatusWaiting}, {"failed", nil, []WriteCall{fail}, StatusFailed},
		{"answered", nil, []WriteCall{ask, answer}, StatusUnknown}, {"answered before", nil, []WriteCall{answer, ask}, StatusWaiting},
		{"asked again", nil, []WriteCall{ask, answer, again}, StatusWaiting}, {"finished", nil, []WriteCall{ask, answer, again, write}, StatusUnknown},
		{"an update is no answer", nil, []WriteCall{ask, update}, StatusWaiting}, {"another task", nil, []WriteCall{ask, askB, write}, StatusWaiting},
		{"both done", nil, []WriteCall{ask, askB, write, {TaskID: "b", Resume: true}}, StatusUnknown},

		{"at the end", &Note{}, nil, StatusDone}, {"input for the next checkpoint", &Note{}, []WriteCall{write}, StatusDone},
		{"steered past the end", &Note{}, []WriteCall{update}, StatusUnfinished}, {"answered past the end", &Note{}, []WriteCall{answer}, StatusDone},
		{"asked past the end", &Note{}, []WriteCall{update, ask}, StatusWaiting}, {"failed past the end", &Note{}, []WriteCall{update, fail}, StatusFailed},

		{"under way", goesOn, nil, StatusUnfinished}, {"its tasks ended", goesOn, []WriteCall{write}, StatusUnfinished},
		{"waits", goesOn, []WriteCall{ask, write, askB}, StatusWaiting}, {"goes on after an answer", goesOn, []WriteCall{ask, answer}, StatusUnfinished},
		{"failed", goesOn, []WriteCall{fail}, StatusFailed}, {"then succeeded", goesOn, []WriteCall{fail, write}, StatusUnfinished},
		{"an answered task failed", goesOn, []WriteCall{ask, answer, {TaskID: "a", Resume: true, Error: true}}, StatusFailed},
		{"failed while another waits", goesOn, []WriteCall{fail, askB}, StatusWaiting},

		{"at a breakpoint", &Note{Next: []string{"n"}, Stop: StopBreakpoint}, nil, StatusWaiting},
		{"past it", &Note{Next: []string{"n"}, Stop: StopBreakpoint}, []WriteCall{write}, StatusUnfinished},
		{"out of steps", &Note{Next: []string{"n"}, Stop: StopSteps}, nil, StatusFailed},
		{"stopped inside", goesOn, []WriteCall{write, stop}, StatusWaiting}, {"went on from inside", goesOn, []WriteCall{stop, write}, StatusUnfinished},
		{"stopped with an answer", goesOn, []WriteCall{ask, answer, stop}, StatusWaiting}, {"and failed then", goesOn, []WriteCall{stop, fail}, StatusFailed},
		{"went on", &Note{Next: []string{"n"}, Stop: StopSteps}, []WriteCall{write}, StatusUnfinished},
	} {
		if got := StatusOf(c.note, c.calls); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	for _, c := range []struct {
		channels []string
		want     WriteCall
	}{
		{[]string{ChannelResume, ChannelInterrupt}, again}, {[]string{"x", ChannelScheduled}, write}, {[]string{ChannelError}, fail},
		{[]string{channelStopped}, WriteCall{TaskID: "a", Stopped: true}},
		{[]string{ChannelError, channelErrorSource}, WriteCall{TaskID: "a"}}, // its handler goes on
	} {
		if got := NewWriteCall("a", c.channels); got != c.want {
			t.Errorf("%v is summed up as %+v", c.channels, got)
		}
	}
}

func TestDeletedMemory(t *testing.T) {
	at := time.Unix(1000, 0)
	d := Deleted{GreatestID: "c5", At: at}
	if d.Expired(at.Add(time.Hour), time.Hour) || !d.Expired(at.Add(time.Hour+1), time.Hour) || !d.Expired(at, -1) {
		t.Error("the memory ends at the wrong time")
	}
	if got := d.Merge(Deleted{GreatestID: "c3", At: at.Add(1)}); got.GreatestID != "c5" || got.At != at.Add(1) {
		t.Errorf("merged to %+v", got)
	}
	for _, c := range []struct {
		id                  string
		has, exists, refuse bool
	}{
		{"c9", false, false, true}, {"c4", true, false, true}, {"c5", true, false, true}, {"c6", true, false, false}, {"c4", true, true, false},
	} {
		if err := d.CheckWrites("t", c.id, c.has, c.exists); errors.Is(err, ErrThreadDeleted) != c.refuse {
			t.Errorf("writes %+v: %v", c, err)
		}
	}
	if err := d.CheckPut("t", "", false); err != nil {
		t.Errorf("a new life: %v", err)
	}
	if err := d.CheckPut("t", "c6", true); err != nil {
		t.Errorf("a parent that is there: %v", err)
	}
	if err := d.CheckPut("t", "c9", false); !errors.Is(err, ErrThreadDeleted) {
		t.Errorf("a parent that is not: %v", err)
	}
}

func TestMergeMetadata(t *testing.T) {
	md := Metadata{"source": "loop", "text": "a\x00b", "nested": map[string]any{"k": "\x00"}}
	cfg := Config{
		Metadata:     map[string]any{"run_id": "r", "source": "config", "both": 1, "list": []any{1}, "langgraph_node": "n"},
		Configurable: map[string]any{"thread_id": "t", "both": 2, "__private": 1, "flag": true, "user": "\x00u", "nil": nil, "ratio": float32(0.5)},
	}
	want := Metadata{"source": "loop", "text": "ab", "nested": map[string]any{"k": "\x00"}, "run_id": "r", "both": 1, "flag": true, "user": "u", "ratio": float32(0.5)}
	if got := MergeMetadata(cfg, md); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
	if md["text"] != "a\x00b" || len(md) != 3 {
		t.Errorf("the argument was changed: %v", md)
	}
}

func TestMetadataFields(t *testing.T) {
	md := Metadata{"source": "loop", "step": int64(-1), "run_id": "r"}
	step, ok := md.Step()
	if md.Source() != "loop" || step != -1 || !ok || md.RunID() != "r" {
		t.Errorf("read %q %d %t %q", md.Source(), step, ok, md.RunID())
	}
	if step, ok := (Metadata{"step": 1.5}).Step(); ok || step != 0 || (Metadata{}).RunID() != "" {
		t.Error("what is not there was found")
	}
}

func TestMetadataCodec(t *testing.T) {
	want := Metadata{"a": int64(1), "m": map[string]any{"k": []any{nil, true}}}
	typed, err := EncodeMetadata(want, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := DecodeMetadata(typed, nil); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := DecodeMetadata(serde.Typed{Kind: serde.KindNull}, nil); !errors.Is(err, ErrCorrupt) {
		t.Errorf("nil as metadata: %v, %v", got, err)
	}
	if _, err := DecodeMetadata(serde.Typed{Kind: serde.KindMsgpack, Data: []byte{0x81}}, nil); err == nil {
		t.Error("cut metadata was read")
	}
}

func TestConfigFromMap(t *testing.T) {
	cfg, err := ConfigFromMap(map[string]any{"thread_id": uint64(7), "checkpoint_ns": "n", "checkpoint_id": nil, "user": "u"})
	if err != nil || cfg.ThreadID != "7" || cfg.Namespace != "n" || cfg.CheckpointID != "" || cfg.Configurable["user"] != "u" {
		t.Errorf("got %+v, %v", cfg, err)
	}
	if got, want := cfg.At("c1").ToMap(), (map[string]any{"thread_id": "7", "checkpoint_ns": "n", "checkpoint_id": "c1"}); !reflect.DeepEqual(got, want) {
		t.Errorf("to map: %v", got)
	}
	type userID string
	for _, id := range []any{int8(7), uint(7), int64(7), "7", userID("7")} {
		if cfg, err := ConfigFromMap(map[string]any{"thread_id": id}); err != nil || cfg.ThreadID != "7" {
			t.Errorf("thread id %T: %+v, %v", id, cfg, err)
		}
	}
	for _, bad := range []map[string]any{{}, {"thread_id": ""}, {"thread_id": nil}, {"thread_id": 1.5}, {"thread_id": "t", "checkpoint_ns": 1}, {"thread_id": "t", "checkpoint_id": []any{}}} {
		if _, err := ConfigFromMap(bad); !errors.Is(err, ErrInvalid) {
			t.Errorf("%v: %v", bad, err)
		}
	}
}

func TestMigratePendingSends(t *testing.T) {
	next := func() (Version, error) { return IntVersion(1), nil }
	sends := []PendingWrite{{Channel: ChannelTasks, Value: ValueOf("s1")}, {Channel: "other", Value: ValueOf(1)}, {Channel: ChannelTasks, Value: ValueOf("s2")}}
	for _, c := range []struct {
		name   string
		cp     Checkpoint
		writes []PendingWrite
		want   Version // null: nothing to do
	}{
		{"current format", Checkpoint{V: 4}, sends, Version{}},
		{"no packets", Checkpoint{V: 3}, sends[1:2], Version{}},
		{"highest version", Checkpoint{V: 3, Versions: map[string]Version{"a": IntVersion(3), "b": IntVersion(7)}}, sends, IntVersion(7)},
		{"no version", Checkpoint{V: 1}, sends, IntVersion(1)},
	} {
		did, err := MigratePendingSends(&c.cp, c.writes, next)
		if err != nil || did == c.want.IsNull() || c.cp.Versions[ChannelTasks] != c.want {
			t.Errorf("%s: %t, %v, version %v", c.name, did, err, c.cp.Versions[ChannelTasks])
		}
		if did {
			if got, err := c.cp.Values[ChannelTasks].Any(); err != nil || !reflect.DeepEqual(got, []any{"s1", "s2"}) {
				t.Errorf("%s: packets %v, %v", c.name, got, err)
			}
		}
	}
	bad := []PendingWrite{{TaskID: "task", Channel: ChannelTasks, Value: ValueTyped(serde.Typed{Kind: "msgpack", Data: []byte{0x81}})}}
	if _, err := MigratePendingSends(&Checkpoint{V: 3}, bad, next); err == nil {
		t.Error("a damaged packet was read")
	}
}

func TestCompareListing(t *testing.T) {
	want := []Config{
		{ThreadID: "b", CheckpointID: "c3"}, {ThreadID: "a", CheckpointID: "c2"}, {ThreadID: "a", Namespace: "n", CheckpointID: "c2"},
		{ThreadID: "b", CheckpointID: "c2"}, {ThreadID: "a", CheckpointID: "c1"},
	}
	got := []Config{want[3], want[1], want[4], want[0], want[2]}
	slices.SortFunc(got, CompareListing)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v", got)
	}
}
