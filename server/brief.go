package server

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/stele-go/stele/message"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/pregeljson"
	"github.com/stele-go/stele/serde"
)

// A person who looks at a state opens few of its values. So that a page need not load all of
// them, and can say what a value is that JSON has no form for, state requests may ask for
// stele_values: "brief" leaves out the values of channels that are large, and "channel:NAME"
// asks for the value of one channel alone. What stands for a value is an object with markField.
const (
	markField     = "$stele"
	briefValues   = "brief"
	channelValues = "channel:"
)

// largeValue is the size, as JSON, above which a channel's value is left out.
const largeValue = 256 << 10

// someBytes is how much of bytes is shown.
const someBytes = 256

// marked is v with marks for bytes and for objects of types that no program here knows. What
// nests too deep is left to be refused as everywhere.
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

// shownBriefly is a state as clients see it who ask for stele_values.
func shownBriefly(snapshot *pregel.StateSnapshot, how string) (*pregeljson.ThreadState, error) {
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
	values, ok := marked(st.Values, 0).(map[string]any) // bytes in the types of Go programs
	if !ok {
		return st, nil
	}
	st.Values = values
	for name, v := range values {
		if one {
			if name != channel {
				delete(values, name)
			}
			continue
		}
		text, err := encode(v)
		if err != nil {
			return nil, err
		}
		if len(text) > largeValue {
			values[name] = map[string]any{markField: "large", "bytes": len(text)}
		} else {
			values[name] = json.RawMessage(text)
		}
	}
	return st, nil
}

// aboutValues is how requests for threads ask for a line about each in place of its values.
const aboutValues = "about"

// aboutLength is how long such a line is at most, in characters.
const aboutLength = 160

// aboutThread tells a thread from others by a line of its state: what was said last, or else its
// texts.
func aboutThread(values any) string {
	all, _ := values.(map[string]any)
	var texts []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if list, _ := all[name].([]any); len(list) > 0 {
			if said, ok := list[len(list)-1].(message.Message); ok && said.Text() != "" {
				return cutText(said.Text())
			}
		}
		if text, ok := all[name].(string); ok && text != "" {
			texts = append(texts, name+": "+text)
		}
	}
	return cutText(strings.Join(texts, " · "))
}

func cutText(text string) string {
	n := 0
	for i := range text {
		if n++; n > aboutLength {
			return text[:i]
		}
	}
	return text
}

// withAbout puts a line about a thread in place of its values.
func withAbout(m map[string]any) {
	m["stele_about"], m["values"] = aboutThread(m["values"]), nil
}
