package rules

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/serde"
)

// ResolveWrites gives what storing the writes one by one under their keys gives.
func TestResolveWrites(t *testing.T) {
	channels := rapid.SampledFrom([]string{"a", "b", saver.ChannelError, saver.ChannelScheduled, saver.ChannelInterrupt, saver.ChannelResume})
	rapid.Check(t, func(t *rapid.T) {
		type key struct {
			task  string
			index int
		}
		stored := map[key]saver.PendingWrite{}
		var asked []saver.PendingWrite
		for range rapid.IntRange(0, 6).Draw(t, "calls") {
			task, path := rapid.SampledFrom([]string{"t1", "t2"}).Draw(t, "task"), rapid.SampledFrom([]string{"", "p"}).Draw(t, "path")
			for i := range rapid.IntRange(0, 3).Draw(t, "writes") {
				ch := channels.Draw(t, "channel")
				w := saver.PendingWrite{TaskID: task, Channel: ch, TaskPath: path, Index: WriteIndex(ch, i), Value: saver.ValueOf(len(asked))}
				asked = append(asked, w)
				k := key{task, w.Index}
				if _, ok := stored[k]; !ok || w.Index < 0 {
					stored[k] = w
				}
			}
		}
		want := []saver.PendingWrite{}
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
	answer, update := WriteCall{TaskID: saver.NullTaskID, Resume: true}, WriteCall{TaskID: saver.NullTaskID, Output: true}
	again := WriteCall{TaskID: "a", Interrupt: true, Resume: true}
	stop := WriteCall{TaskID: "s", Stopped: true}
	goesOn := &saver.Note{Next: []string{"n"}}
	for _, c := range []struct {
		name  string
		note  *saver.Note
		calls []WriteCall
		want  saver.Status
	}{
		{"nothing is known", nil, nil, saver.StatusUnknown}, {"still unknown", nil, []WriteCall{write}, saver.StatusUnknown},
		{"asked", nil, []WriteCall{ask}, saver.StatusWaiting}, {"failed", nil, []WriteCall{fail}, saver.StatusFailed},
		{"answered", nil, []WriteCall{ask, answer}, saver.StatusUnknown}, {"answered before", nil, []WriteCall{answer, ask}, saver.StatusWaiting},
		{"asked again", nil, []WriteCall{ask, answer, again}, saver.StatusWaiting}, {"finished", nil, []WriteCall{ask, answer, again, write}, saver.StatusUnknown},
		{"an update is no answer", nil, []WriteCall{ask, update}, saver.StatusWaiting}, {"another task", nil, []WriteCall{ask, askB, write}, saver.StatusWaiting},
		{"both done", nil, []WriteCall{ask, askB, write, {TaskID: "b", Resume: true}}, saver.StatusUnknown},

		{"at the end", &saver.Note{}, nil, saver.StatusDone}, {"input for the next checkpoint", &saver.Note{}, []WriteCall{write}, saver.StatusDone},
		{"steered past the end", &saver.Note{}, []WriteCall{update}, saver.StatusUnfinished}, {"answered past the end", &saver.Note{}, []WriteCall{answer}, saver.StatusDone},
		{"asked past the end", &saver.Note{}, []WriteCall{update, ask}, saver.StatusWaiting}, {"failed past the end", &saver.Note{}, []WriteCall{update, fail}, saver.StatusFailed},

		{"under way", goesOn, nil, saver.StatusUnfinished}, {"its tasks ended", goesOn, []WriteCall{write}, saver.StatusUnfinished},
		{"waits", goesOn, []WriteCall{ask, write, askB}, saver.StatusWaiting}, {"goes on after an answer", goesOn, []WriteCall{ask, answer}, saver.StatusUnfinished},
		{"failed", goesOn, []WriteCall{fail}, saver.StatusFailed}, {"then succeeded", goesOn, []WriteCall{fail, write}, saver.StatusUnfinished},
		{"an answered task failed", goesOn, []WriteCall{ask, answer, {TaskID: "a", Resume: true, Error: true}}, saver.StatusFailed},
		{"failed while another waits", goesOn, []WriteCall{fail, askB}, saver.StatusWaiting},

		{"at a breakpoint", &saver.Note{Next: []string{"n"}, Stop: saver.StopBreakpoint}, nil, saver.StatusWaiting},
		{"past it", &saver.Note{Next: []string{"n"}, Stop: saver.StopBreakpoint}, []WriteCall{write}, saver.StatusUnfinished},
		{"out of steps", &saver.Note{Next: []string{"n"}, Stop: saver.StopSteps}, nil, saver.StatusFailed},
		{"stopped inside", goesOn, []WriteCall{write, stop}, saver.StatusWaiting}, {"went on from inside", goesOn, []WriteCall{stop, write}, saver.StatusUnfinished},
		{"stopped with an answer", goesOn, []WriteCall{ask, answer, stop}, saver.StatusWaiting}, {"and failed then", goesOn, []WriteCall{stop, fail}, saver.StatusFailed},
		{"went on", &saver.Note{Next: []string{"n"}, Stop: saver.StopSteps}, []WriteCall{write}, saver.StatusUnfinished},
	} {
		if got := StatusOf(c.note, c.calls); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	for _, c := range []struct {
		channels []string
		want     WriteCall
	}{
		{[]string{saver.ChannelResume, saver.ChannelInterrupt}, again}, {[]string{"x", saver.ChannelScheduled}, write}, {[]string{saver.ChannelError}, fail},
		{[]string{channelStopped}, WriteCall{TaskID: "a", Stopped: true}},
		{[]string{saver.ChannelError, channelErrorSource}, WriteCall{TaskID: "a"}}, // its handler goes on
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
		if err := d.CheckWrites("t", c.id, c.has, c.exists); errors.Is(err, saver.ErrThreadDeleted) != c.refuse {
			t.Errorf("writes %+v: %v", c, err)
		}
	}
	if err := d.CheckPut("t", "", false); err != nil {
		t.Errorf("a new life: %v", err)
	}
	if err := d.CheckPut("t", "c6", true); err != nil {
		t.Errorf("a parent that is there: %v", err)
	}
	if err := d.CheckPut("t", "c9", false); !errors.Is(err, saver.ErrThreadDeleted) {
		t.Errorf("a parent that is not: %v", err)
	}
}

func TestMergeMetadata(t *testing.T) {
	md := saver.Metadata{"source": "loop", "text": "a\x00b", "nested": map[string]any{"k": "\x00"}}
	cfg := saver.Config{
		Metadata:     map[string]any{"run_id": "r", "source": "config", "both": 1, "list": []any{1}, "langgraph_node": "n"},
		Configurable: map[string]any{"thread_id": "t", "both": 2, "__private": 1, "flag": true, "user": "\x00u", "nil": nil, "ratio": float32(0.5)},
	}
	want := saver.Metadata{"source": "loop", "text": "ab", "nested": map[string]any{"k": "\x00"}, "run_id": "r", "both": 1, "flag": true, "user": "u", "ratio": float32(0.5)}
	if got := MergeMetadata(cfg, md); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
	if md["text"] != "a\x00b" || len(md) != 3 {
		t.Errorf("the argument was changed: %v", md)
	}
}

// refusing is a serializer that refuses strings, which a Codec stores.
type refusing struct{ *serde.Codec }

func (r refusing) Encode(v any) (serde.Typed, error) {
	for _, x := range v.(map[string]any) {
		if _, ok := x.(string); ok {
			return serde.Typed{}, errors.New("a string")
		}
	}
	return r.Codec.Encode(v)
}

// CheckMetadata says what EncodeMetadata says, also where it serializes nothing.
func TestCheckMetadata(t *testing.T) {
	plain, err := serde.New(serde.Options{})
	if err != nil {
		t.Fatal(err)
	}
	scalars := saver.Metadata{"s": "a\xff", "b": true, "i": -1, "i8": int8(-1), "i16": int16(-1), "i32": int32(-1), "i64": int64(math.MinInt64),
		"u": uint(1), "u8": uint8(1), "u16": uint16(1), "u32": uint32(1), "u64": uint64(math.MaxUint64), "f32": float32(0.5), "f64": math.NaN()}
	for name, md := range map[string]saver.Metadata{
		"none": nil, "scalars": scalars, "long": {"s": strings.Repeat("x", 2*smallMetadata)},
		"nested": {"m": map[string]any{"k": []any{nil}}}, "a channel": {"c": make(chan int)}, "a key": {"\xff": 1},
	} {
		for which, codec := range map[string]serde.Serializer{"default": nil, "codec": plain, "another": refusing{plain}} {
			_, encode := EncodeMetadata(md, codec)
			if err := CheckMetadata(md, codec); (err == nil) != (encode == nil) {
				t.Errorf("%s, %s: checked %v, serialized %v", name, which, err, encode)
			}
		}
	}
	if CheckMetadata(scalars, refusing{plain}) == nil || CheckMetadata(scalars, nil) != nil {
		t.Error("strings: a serializer that refuses them does not, or a Codec does")
	}
}

func TestMetadataFields(t *testing.T) {
	md := saver.Metadata{"source": "loop", "step": int64(-1), "run_id": "r"}
	step, ok := md.Step()
	if md.Source() != "loop" || step != -1 || !ok || md.RunID() != "r" {
		t.Errorf("read %q %d %t %q", md.Source(), step, ok, md.RunID())
	}
	if step, ok := (saver.Metadata{"step": 1.5}).Step(); ok || step != 0 || (saver.Metadata{}).RunID() != "" {
		t.Error("what is not there was found")
	}
}

func TestMetadataCodec(t *testing.T) {
	want := saver.Metadata{"a": int64(1), "m": map[string]any{"k": []any{nil, true}}}
	typed, err := EncodeMetadata(want, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := DecodeMetadata(typed, nil); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := DecodeMetadata(serde.Typed{Kind: serde.KindNull}, nil); !errors.Is(err, saver.ErrCorrupt) {
		t.Errorf("nil as metadata: %v, %v", got, err)
	}
	if _, err := DecodeMetadata(serde.Typed{Kind: serde.KindMsgpack, Data: []byte{0x81}}, nil); err == nil {
		t.Error("cut metadata was read")
	}
}

func TestConfigFromMap(t *testing.T) {
	cfg, err := saver.ConfigFromMap(map[string]any{"thread_id": uint64(7), "checkpoint_ns": "n", "checkpoint_id": nil, "user": "u"})
	if err != nil || cfg.ThreadID != "7" || cfg.Namespace != "n" || cfg.CheckpointID != "" || cfg.Configurable["user"] != "u" {
		t.Errorf("got %+v, %v", cfg, err)
	}
	if got, want := cfg.At("c1").ToMap(), (map[string]any{"thread_id": "7", "checkpoint_ns": "n", "checkpoint_id": "c1"}); !reflect.DeepEqual(got, want) {
		t.Errorf("to map: %v", got)
	}
	type userID string
	for _, id := range []any{int8(7), uint(7), int64(7), "7", userID("7")} {
		if cfg, err := saver.ConfigFromMap(map[string]any{"thread_id": id}); err != nil || cfg.ThreadID != "7" {
			t.Errorf("thread id %T: %+v, %v", id, cfg, err)
		}
	}
	for _, bad := range []map[string]any{{}, {"thread_id": ""}, {"thread_id": nil}, {"thread_id": 1.5}, {"thread_id": "t", "checkpoint_ns": 1}, {"thread_id": "t", "checkpoint_id": []any{}}} {
		if _, err := saver.ConfigFromMap(bad); !errors.Is(err, saver.ErrInvalid) {
			t.Errorf("%v: %v", bad, err)
		}
	}
}

func TestMigratePendingSends(t *testing.T) {
	next := func() (saver.Version, error) { return saver.IntVersion(1), nil }
	sends := []saver.PendingWrite{{Channel: saver.ChannelTasks, Value: saver.ValueOf("s1")}, {Channel: "other", Value: saver.ValueOf(1)}, {Channel: saver.ChannelTasks, Value: saver.ValueOf("s2")}}
	for _, c := range []struct {
		name   string
		cp     saver.Checkpoint
		writes []saver.PendingWrite
		want   saver.Version // null: nothing to do
	}{
		{"current format", saver.Checkpoint{V: 4}, sends, saver.Version{}},
		{"no packets", saver.Checkpoint{V: 3}, sends[1:2], saver.Version{}},
		{"highest version", saver.Checkpoint{V: 3, Versions: map[string]saver.Version{"a": saver.IntVersion(3), "b": saver.IntVersion(7)}}, sends, saver.IntVersion(7)},
		{"no version", saver.Checkpoint{V: 1}, sends, saver.IntVersion(1)},
	} {
		did, err := MigratePendingSends(&c.cp, c.writes, next)
		if err != nil || did == c.want.IsNull() || c.cp.Versions[saver.ChannelTasks] != c.want {
			t.Errorf("%s: %t, %v, version %v", c.name, did, err, c.cp.Versions[saver.ChannelTasks])
		}
		if did {
			if got, err := c.cp.Values[saver.ChannelTasks].Any(); err != nil || !reflect.DeepEqual(got, []any{"s1", "s2"}) {
				t.Errorf("%s: packets %v, %v", c.name, got, err)
			}
		}
	}
	bad := []saver.PendingWrite{{TaskID: "task", Channel: saver.ChannelTasks, Value: saver.ValueTyped(serde.Typed{Kind: "msgpack", Data: []byte{0x81}})}}
	if _, err := MigratePendingSends(&saver.Checkpoint{V: 3}, bad, next); err == nil {
		t.Error("a damaged packet was read")
	}
}

func TestCompareListing(t *testing.T) {
	want := []saver.Config{
		{ThreadID: "b", CheckpointID: "c3"}, {ThreadID: "a", CheckpointID: "c2"}, {ThreadID: "a", Namespace: "n", CheckpointID: "c2"},
		{ThreadID: "b", CheckpointID: "c2"}, {ThreadID: "a", CheckpointID: "c1"},
	}
	got := []saver.Config{want[3], want[1], want[4], want[0], want[2]}
	slices.SortFunc(got, CompareListing)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v", got)
	}
}
