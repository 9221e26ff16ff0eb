package admin

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/stele-go/stele/saver"
)

// Difference says how one checkpoint differs from another.
type Difference struct {
	Thread    string        `json:"thread"`
	Namespace string        `json:"namespace"`
	From      string        `json:"from"`
	To        string        `json:"to"`
	Metadata  []Change      `json:"metadata"`
	Channels  []ChannelDiff `json:"channels"` // those that differ, by name
	Same      int           `json:"unchanged_channels"`
}

// ChannelDiff is one channel that differs.
type ChannelDiff struct {
	Channel     string   `json:"channel"`
	FromVersion string   `json:"from_version,omitempty"` // "": not in the first checkpoint
	ToVersion   string   `json:"to_version,omitempty"`   // "": not in the second
	Changes     []Change `json:"changes"`                // of the value; none if only the version differs
	Error       string   `json:"error,omitempty"`        // the value of either cannot be read
}

// Change is one change of a value.
type Change struct {
	// Path leads to the place as a JSON pointer does; "" is the value itself.
	Path string `json:"path"`
	Op   string `json:"op"` // "add", "remove", "replace"
	From any    `json:"from,omitempty"`
	To   any    `json:"to,omitempty"`
}

// Diff compares two checkpoints of a thread and namespace: metadata, channels,
// versions, and values as plain data, place by place.
func Diff(ctx context.Context, s saver.Saver, cfg saver.Config, from, to string) (*Difference, error) {
	a, err := Show(ctx, s, cfg.At(from))
	if err != nil {
		return nil, err
	}
	b, err := Show(ctx, s, cfg.At(to))
	if err != nil {
		return nil, err
	}
	out := &Difference{Thread: cfg.ThreadID, Namespace: cfg.Namespace, From: from, To: to,
		Metadata: Changes(a.Metadata, b.Metadata), Channels: []ChannelDiff{}}
	names := maps.Clone(a.Channels)
	maps.Copy(names, b.Channels)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		x, inA := a.Channels[name]
		y, inB := b.Channels[name]
		cd := ChannelDiff{Channel: name, FromVersion: x.Version, ToVersion: y.Version, Changes: []Change{}}
		if cd.Error = cmp.Or(x.Error, y.Error); cd.Error == "" {
			cd.Changes = channelChanges(x, y)
		}
		if inA && inB && x.Version == y.Version && len(cd.Changes) == 0 && cd.Error == "" {
			out.Same++
			continue
		}
		out.Channels = append(out.Channels, cd)
	}
	return out, nil
}

// channelChanges compares two channels. A channel without a value differs from one whose value is null.
func channelChanges(x, y ChannelView) []Change {
	switch {
	case x.Kind == "" && y.Kind == "":
		return []Change{}
	case x.Kind == "":
		return []Change{{Op: "add", To: y.Value}}
	case y.Kind == "":
		return []Change{{Op: "remove", From: x.Value}}
	}
	return Changes(x.Value, y.Value)
}

// Changes lists the changes that make b from a. In a list it skips the common beginning and end, and
// compares the rest index by index. So an appended element is one addition.
func Changes(a, b any) []Change {
	out := []Change{}
	compare("", normal(a), normal(b), &out)
	return out
}

// normal converts v to what encoding/json decodes, so that equal data compare as equal.
func normal(v any) any {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	dec := json.NewDecoder(strings.NewReader(string(b)))
	dec.UseNumber()
	var out any
	if err := dec.Decode(&out); err != nil {
		return fmt.Sprint(v)
	}
	return out
}

func compare(path string, a, b any, out *[]Change) {
	if reflect.DeepEqual(a, b) {
		return
	}
	switch x := a.(type) {
	case map[string]any:
		if y, ok := b.(map[string]any); ok {
			compareMaps(path, x, y, out)
			return
		}
	case []any:
		if y, ok := b.([]any); ok {
			compareLists(path, x, y, out)
			return
		}
	}
	*out = append(*out, Change{Path: path, Op: "replace", From: a, To: b})
}

func compareMaps(path string, x, y map[string]any, out *[]Change) {
	keys := maps.Clone(x)
	maps.Copy(keys, y)
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		at := path + "/" + pointer(k)
		v, inX := x[k]
		w, inY := y[k]
		switch {
		case !inX:
			*out = append(*out, Change{Path: at, Op: "add", To: w})
		case !inY:
			*out = append(*out, Change{Path: at, Op: "remove", From: v})
		default:
			compare(at, v, w, out)
		}
	}
}

func compareLists(path string, x, y []any, out *[]Change) {
	head := 0
	for head < len(x) && head < len(y) && reflect.DeepEqual(x[head], y[head]) {
		head++
	}
	tail := 0
	for tail < len(x)-head && tail < len(y)-head && reflect.DeepEqual(x[len(x)-1-tail], y[len(y)-1-tail]) {
		tail++
	}
	xs, ys := x[head:len(x)-tail], y[head:len(y)-tail]
	for i := range max(len(xs), len(ys)) {
		at := path + "/" + strconv.Itoa(head+i)
		switch {
		case i >= len(xs):
			*out = append(*out, Change{Path: at, Op: "add", To: ys[i]})
		case i >= len(ys):
			*out = append(*out, Change{Path: at, Op: "remove", From: xs[i]})
		default:
			compare(at, xs[i], ys[i], out)
		}
	}
}

// pointer escapes a key as RFC 6901 does.
func pointer(key string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(key) }

// sortPlain sorts plain data by their JSON text.
func sortPlain(list []any) {
	text := func(v any) string {
		b, err := json.Marshal(v)
		if err != nil {
			return fmt.Sprint(v)
		}
		return string(b)
	}
	slices.SortFunc(list, func(a, b any) int { return strings.Compare(text(a), text(b)) })
}
