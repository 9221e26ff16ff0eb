package modeltest

import (
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/stele-go/stele/agent/model"
	"github.com/stele-go/stele/agent/tool"
	"github.com/stele-go/stele/message"
)

// recorded is a case of requests.json, which model/testdata/record.py makes.
type recorded struct {
	Name     string
	Messages []message.Message
	Bound    struct {
		Tools []struct {
			Function struct {
				Name, Description string
				Parameters        json.RawMessage
			}
		}
		ToolChoice string `json:"tool_choice"`
		Format     json.RawMessage
	}
	Requests map[string]map[string]any
}

// Recorded compares what a model sends with what LangChain was recorded to send: the fields of the
// requests with these paths. name is that of the provider in the recording. differ are the cases
// that differ, each with its reason.
func Recorded(t *testing.T, file, name string, fields []string, differ map[string]string, make func(t *testing.T, url string) model.Model) {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var cases []recorded
	if err := json.Unmarshal(text, &cases); err != nil {
		t.Fatal(err)
	}
	n, seen := 0, map[string]bool{}
	for _, c := range cases {
		want, ok := c.Requests[name]
		if !ok {
			continue
		}
		n++
		r := model.Request{Messages: c.Messages, ToolChoice: c.Bound.ToolChoice}
		for _, f := range c.Bound.Tools {
			r.Tools = append(r.Tools, tool.Definition{Name: f.Function.Name, Description: f.Function.Description, Parameters: f.Function.Parameters})
		}
		if c.Bound.Format != nil {
			r.Format = &model.Format{Name: "Answer", Schema: c.Bound.Format, Strict: true}
		}
		s := Serve()
		_, err := model.Call(t.Context(), make(t, s.URL), r)
		s.Close()
		if len(s.Asked()) == 0 {
			t.Errorf("%s: nothing was sent: %v", c.Name, err)
			continue
		}
		got := s.Asked()[0].Body
		for _, f := range fields {
			was, is := at(want, f), at(got, f)
			equal := reflect.DeepEqual(plain(is), plain(was))
			if _, known := differ[c.Name]; known {
				seen[c.Name] = seen[c.Name] || !equal
				continue
			}
			if !equal {
				t.Errorf("%s: %s differs\ngot  %s\nwant %s", c.Name, f, dump(is), dump(was))
			}
		}
	}
	for c := range differ {
		if !seen[c] {
			t.Errorf("%s does not differ", c)
		}
	}
	t.Logf("requests: %d of %d, %d differ as they are meant to", n-len(differ), n, len(differ))
}

// recordedAnswer is a case of answers.json.
type recordedAnswer struct {
	Provider, Name string
	Bound          map[string]any
	Events         []string
	Message        message.Message
}

// Answers compares what a model makes of the streams of answers.json with what LangChain was recorded
// to make of them. Left out are ids, and an older form of tool calls in additional_kwargs. differ are
// the cases that differ, each with its reason.
func Answers(t *testing.T, file, provider string, differ map[string]string, make func(t *testing.T, url string) model.Model) {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var cases []recordedAnswer
	if err := json.Unmarshal(text, &cases); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, c := range cases {
		if c.Provider != provider {
			continue
		}
		n++
		r := Ask()
		if c.Bound["tools"] == nil {
			r.Tools, r.Settings = nil, c.Bound
		}
		s := Serve(Reply{Events: c.Events})
		got, err := model.Call(t.Context(), make(t, s.URL), r)
		s.Close()
		if err != nil {
			t.Errorf("%s: %v", c.Name, err)
			continue
		}
		want := c.Message
		got.ID, want.ID = "", ""
		delete(got.ResponseMetadata, "id")
		delete(want.AdditionalKwargs, "function_call")
		for _, e := range want.Blocks {
			dropNil(e)
		}
		_, known := differ[c.Name]
		if equal := message.Equal(got, want); equal == known {
			t.Errorf("%s: equal is %v\ngot  %s\nwant %s", c.Name, equal, dump(got), dump(want))
		}
	}
	t.Logf("answers: %d of %d, %d differ as they are meant to", n-len(differ), n, len(differ))
	if n == 0 {
		t.Error("no answers")
	}
}

// dropNil removes fields that are None in the blocks of Python's libraries and missing on the wire.
func dropNil(v any) {
	switch x := v.(type) {
	case []any:
		for _, e := range x {
			dropNil(e)
		}
	case map[string]any:
		for k, e := range x {
			if e == nil {
				delete(x, k)
			}
			dropNil(e)
		}
	}
}

// at returns the value in v under a path of names, such as "a.b".
func at(v any, path string) any {
	for name := range strings.SplitSeq(path, ".") {
		m, _ := v.(map[string]any)
		v = m[name]
	}
	return v
}

// plain is v with the texts of arguments read, since their spaces and the order of keys are free.
func plain(v any) any {
	switch x := v.(type) {
	case []any:
		out := make([]any, len(x))
		for i, e := range x {
			out[i] = plain(e)
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(x))
		for k, e := range x {
			var args any
			if text, ok := e.(string); ok && k == "arguments" && json.Unmarshal([]byte(text), &args) == nil {
				e = args
			}
			if k == "mime_type" { // Google takes both, and two alphabets of base64; its libraries differ
				k = "mimeType"
			}
			if text, ok := e.(string); ok && k == "data" {
				e = strings.NewReplacer("-", "+", "_", "/").Replace(text)
			}
			out[k] = plain(e)
		}
		return out
	}
	return v
}

func dump(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return text
}
