package wire

import (
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/stele-go/stele/message"
	"github.com/stele-go/stele/model"
	"github.com/stele-go/stele/tool"
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

// at is what is in v under a path of names, such as "a.b".
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
