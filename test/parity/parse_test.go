package parity

import (
	"bytes"
	"strings"
	"testing"
)

const header = `{"op":"fixture","format":1,"name":"n","about":"a","langgraph":"1","langgraph_checkpoint":"1"}` + "\n"

const smallFixture = header +
	`{"op":"blob","n":0,"kind":"bytes","b64":"AAE="}` + "\n" +
	`{"op":"tuple","n":0,"config":{"configurable":{"thread_id":"t","checkpoint_ns":"","checkpoint_id":"1"}},` +
	`"checkpoint":{"v":4,"id":"1","ts":"","channel_versions":{"a":1,"b":0.5,"c":"x"},"versions_seen":{"n":{"a":1}},"updated_channels":[]},` +
	`"values":{"a":0},"meant_values":{"a":0},"metadata":{"step":-1,"big":18446744073709551615},"parent_config":null,"pending_writes":[["task","a",0]]}` + "\n" +
	`{"op":"get_tuple","config":{"configurable":{"thread_id":"t"}},"answer":0}` + "\n" +
	`{"op":"list","config":null,"filter":{"step":1.0},"before":{"configurable":{"checkpoint_id":"2"}},"limit":1,"answer":[0],"restated":{"rules":["newest_first"],"answer":[0]}}` + "\n" +
	`{"op":"put_writes","config":{"configurable":{"thread_id":"t","checkpoint_id":"1"}},"writes":[["a",0]],"task_id":"t","task_path":""}` + "\n" +
	`{"op":"get_delta_channel_history","config":{"configurable":{"thread_id":"t"}},"channels":["a"],"answer":{"a":{"writes":[["t","a",0]],"seed":0}}}` + "\n" +
	`{"op":"get_next_version","current":null,"answer":"1.0"}` + "\n" +
	`{"op":"delete_thread","thread_id":"t"}` + "\n"

func TestParse(t *testing.T) {
	f, err := parse(strings.NewReader(smallFixture))
	if err != nil {
		t.Fatal(err)
	}
	if f.Lines != 9 || len(f.calls) != 6 || f.Answers != 4 || f.lastWrite() != 9 {
		t.Errorf("%d lines, %d calls, %d answers, last write in line %d", f.Lines, len(f.calls), f.Answers, f.lastWrite())
	}
	if md := f.tuples[0].metadata; md["step"] != int64(-1) || md["big"] != uint64(1<<64-1) {
		t.Errorf("metadata is %#v", md)
	}
}

func TestParseRefusesWhatItDoesNotKnow(t *testing.T) {
	for name, text := range map[string]string{
		"empty file":       "",
		"no header":        `{"op":"note","text":""}`,
		"other format":     `{"op":"fixture","format":2,"name":"n"}`,
		"not JSON":         header + "{",
		"unknown op":       header + `{"op":"prune"}`,
		"unknown field":    header + `{"op":"note","colour":1}`,
		"undefined blob":   header + `{"op":"put_writes","config":{},"writes":[["a",0]]}`,
		"undefined tuple":  header + `{"op":"get_tuple","config":{},"answer":0}`,
		"negative tuple":   header + `{"op":"list","config":null,"answer":[-1]}`,
		"blob out of turn": header + `{"op":"blob","n":1,"kind":"null","b64":""}`,
		"no config":        header + `{"op":"get_tuple","answer":null}`,
		"no checkpoint":    header + `{"op":"put","config":{},"answer":{}}`,
		"odd version":      header + `{"op":"put","config":{},"checkpoint":{},"new_versions":{"a":[]},"answer":{}}`,
		"write of nothing": header + `{"op":"put_writes","config":{},"writes":[["a"]]}`,
	} {
		if _, err := parse(strings.NewReader(text)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// FuzzParse: any bytes are a fixture or an error, never a panic.
func FuzzParse(f *testing.F) {
	f.Add([]byte(smallFixture))
	for _, line := range strings.SplitAfter(smallFixture, "\n") {
		f.Add([]byte(header + line))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := parse(bytes.NewReader(data))
		if err == nil && (got.Name == "" || got.Answers > len(got.calls) || len(got.calls) > got.Lines) {
			t.Errorf("accepted %d lines with %d calls and %d answers", got.Lines, len(got.calls), got.Answers)
		}
	})
}
