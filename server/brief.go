package server

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/stele-go/stele/message"
	"github.com/stele-go/stele/message/pregeljson"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/saver/serde"
)

// A person who looks at a state opens few of its values. So that a page need not load all of them, and
// can describe values that JSON has no form for, state requests may have stele_values: "brief" leaves
// out large values of channels, "channel:NAME" returns only the value of one channel, and "task:ID"
// only the input of one task. A value that is left out is replaced by an object with markField.
const (
	markField     = "$stele"
	briefValues   = "brief"
	channelValues = "channel:"
	taskValues    = "task:"
)

// largeValue is the size, as JSON, above which a channel's value is left out.
const largeValue = 256 << 10

// someBytes is how many bytes of a value of type bytes are shown.
const someBytes = 256

// marked returns v with marks in place of bytes and of objects of unknown types. A value that nests too
// deep is returned as it is; it is refused when it is encoded.
func marked(v any, depth int) any {
	if depth > 512 {
		return v
	}
	switch x := v.(type) {
	case []byte:
		return map[string]any{markField: "bytes", "bytes": len(x), "start": base64.StdEncoding.EncodeToString(x[:min(len(x), someBytes)])}
	case map[string]any:
		out := make(map[string]any, len(x))
		for k, e := range x {
			out[k] = marked(e, depth+1)
		}
		return out
	case []any:
		out := make([]any, len(x))
		for i, e := range x {
			out[i] = marked(e, depth+1)
		}
		return out
	case *serde.Ext:
		if _, err := message.From(x); err == nil {
			return x
		}
		of := any(x.Value)
		if f := x.Fields(); f != nil {
			of = f
		}
		if x.Data != nil {
			of = x.Data
		}
		name := x.Name
		if x.Module != "" {
			name = x.Module + "." + name
		}
		return map[string]any{markField: "type", "type": name, "code": x.Code, "value": marked(of, depth+1)}
	}
	return v
}

// shownBriefly returns a state in the form that stele_values selects.
func shownBriefly(snapshot *pregel.StateSnapshot, how string) (any, error) {
	if id, one := strings.CutPrefix(how, taskValues); one {
		return shownTask(snapshot, id)
	}
	channel, one := strings.CutPrefix(how, channelValues)
	if !one && how != briefValues {
		return nil, fail(422, "Invalid stele_values %s", how)
	}
	of := *snapshot
	of.Values = marked(of.Values, 0)
	st, err := shownState(&of)
	if err != nil {
		return nil, err
	}
	if !one {
		return st, shorten(st)
	}
	if values, ok := marked(st.Values, 0).(map[string]any); ok {
		maps.DeleteFunc(values, func(name string, _ any) bool { return name != channel })
		st.Values = values
	}
	return st, nil
}

// shorten leaves out the large values of a state, and of those of the graphs inside.
func shorten(st *pregeljson.ThreadState) error {
	for _, t := range st.Tasks {
		if t.State != nil {
			if err := shorten(t.State); err != nil {
				return err
			}
		}
	}
	values, ok := marked(st.Values, 0).(map[string]any) // bytes in the types of Go programs
	if !ok {
		return nil
	}
	st.Values = values
	return withoutLarge(values)
}

// withoutLarge puts marks in place of the large ones of values.
func withoutLarge(values map[string]any) error {
	for name, v := range values {
		text, err := encode(v)
		if err != nil {
			return err
		}
		if len(text) > largeValue {
			values[name] = map[string]any{markField: "large", "bytes": len(text)}
		} else {
			values[name] = json.RawMessage(text)
		}
	}
	return nil
}

// taskInput is the input of a task.
type taskInput struct {
	ID    string `json:"id"`
	Name  string `json:"name"`
	Input any    `json:"stele_input"`
}

// taskState is a state with one task only.
type taskState struct {
	*pregeljson.ThreadState
	Tasks []taskInput `json:"tasks"`
}

// shownTask is a state with the input of one of its tasks, and without anything else that is large.
func shownTask(snapshot *pregel.StateSnapshot, id string) (any, error) {
	of := *snapshot
	of.Values, of.Tasks = map[string]any{}, nil
	st, err := shownState(&of)
	if err != nil {
		return nil, err
	}
	out := taskState{st, []taskInput{}}
	for _, t := range snapshot.Tasks {
		if t.ID != id {
			continue
		}
		input, err := pregeljson.Value(marked(t.Input, 0))
		if err != nil {
			return nil, err
		}
		input = marked(input, 0)
		if values, ok := input.(map[string]any); ok {
			if err := withoutLarge(values); err != nil {
				return nil, err
			}
		}
		out.Tasks = append(out.Tasks, taskInput{t.ID, t.Name, input})
	}
	return out, nil
}

// aboutValues is the stele_values of a request that wants a line about each thread in place of its
// values.
const aboutValues = "about"

// aboutLength is how long such a line is at most, in characters.
const aboutLength = 160

// aboutThread returns what a person would call a thread, the first words that a person said in it, and a
// line about how it stands: the last words of a person or a model, or else which tools the model called.
// Without a conversation there is no title, and the texts in the state are the line. What a tool answered
// is for the model.
func aboutThread(values any) (title, line string) {
	all, _ := values.(map[string]any)
	var texts []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		list, _ := all[name].([]any)
		for _, v := range list {
			if said, ok := v.(message.Message); ok && said.Type == message.TypeHuman && said.Text() != "" {
				title = cutText(said.Text())
				break
			}
		}
		for _, v := range slices.Backward(list) {
			if said, ok := v.(message.Message); ok {
				if line = lastWords(said); line != "" {
					return title, line
				}
			}
		}
		if text, ok := all[name].(string); ok && text != "" {
			texts = append(texts, name+": "+text)
		}
	}
	return title, cutText(strings.Join(texts, " · "))
}

// lastWords are the words of a message for a person; "" if it has none.
func lastWords(m message.Message) string {
	switch {
	case m.Type == message.TypeTool || m.Type == message.TypeSystem:
		return ""
	case m.Text() != "":
		return cutText(m.Text())
	case len(m.ToolCalls) == 0:
		return ""
	}
	var names []string
	for _, c := range m.ToolCalls {
		names = append(names, c.Name)
	}
	return cutText("calls " + strings.Join(names, ", "))
}

func cutText(text string) string { return cutTo(text, aboutLength) }

// cutTo returns the first characters of a text.
func cutTo(text string, most int) string {
	n := 0
	for i := range text {
		if n++; n > most {
			return text[:i]
		}
	}
	return text
}

// withAbout puts a title of a thread and a line about it in place of its values.
func withAbout(m map[string]any) {
	m["stele_title"], m["stele_about"] = aboutThread(m["values"])
	m["values"] = nil
}

// shownState is a state as clients see it. Its metadata names the thread as well, which a
// saver does not store with it.
func shownState(snapshot *pregel.StateSnapshot) (*pregeljson.ThreadState, error) {
	st, err := pregeljson.State(snapshot)
	if err != nil {
		return nil, err
	}
	for at := []*pregeljson.ThreadState{st}; len(at) > 0; {
		s := at[0]
		at = at[1:]
		if s.Metadata != nil && s.Checkpoint != nil {
			s.Metadata["thread_id"] = s.Checkpoint.ThreadID
		}
		for _, t := range s.Tasks {
			if t.State != nil {
				at = append(at, t.State)
			}
		}
	}
	return st, nil
}
