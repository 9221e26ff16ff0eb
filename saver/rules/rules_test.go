package rules

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/serde"
)

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
		{"a question refused its answer", goesOn, []WriteCall{ask, answer, NewWriteCall("a", []string{saver.ChannelInterrupt, saver.ChannelError})}, saver.StatusWaiting},
		{"failed after a sleep", goesOn, []WriteCall{ask, NewWriteCall("a", []string{saver.ChannelError, saver.ChannelInterrupt})}, saver.StatusFailed},
		{"to a handler after a sleep", goesOn, []WriteCall{ask, NewWriteCall("a", []string{saver.ChannelError, saver.ChannelInterrupt, ChannelErrorSource})}, saver.StatusUnfinished},

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
		{[]string{saver.ChannelResume, saver.ChannelInterrupt}, again}, {[]string{"__stele_answers__"}, answer}, {[]string{"__stele_answers_over__"}, write}, {[]string{"x", saver.ChannelScheduled}, write}, {[]string{saver.ChannelError}, fail},
		{[]string{ChannelStopped}, WriteCall{TaskID: "a", Stopped: true}},
		{[]string{saver.ChannelError, ChannelErrorSource}, WriteCall{TaskID: "a"}}, // its handler goes on
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

// TestPlanKeepsItsCondition: a plan may be committed after the call that made it has given up, when the
// caller uses its variables for something else.
func TestPlanKeepsItsCondition(t *testing.T) {
	head := "head"
	req := saver.PutRequest{Config: saver.Config{ThreadID: "t", CheckpointID: head, ExpectHead: &head}, Checkpoint: saver.Checkpoint{V: 4, ID: "next"}}
	var p PutPlan
	if err := p.Make(&req, Encoding{Borrow: true}); err != nil {
		t.Fatal(err)
	}
	head = "other"
	exists := func(string) bool { return true }
	if err := p.Check(nil, exists, func() string { return "head" }); err != nil {
		t.Error(err)
	}
}
