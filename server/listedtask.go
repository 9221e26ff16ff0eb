package server

import (
	"bytes"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/stele-go/stele/message/pregeljson"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/serde"
)

// listedTask is a task in a history without values: what its stored writes say of it. A task that wrote
// nothing yet is not listed. Long values are cut, as a person reads them in a line; see glimpse.
type listedTask struct {
	ID         string         `json:"id"`
	Name       string         `json:"name"` // "" if the writes do not say it
	Error      any            `json:"error,omitempty"`
	Interrupts []any          `json:"interrupts"`
	Result     map[string]any `json:"result,omitempty"`
	// Answers are what people answered the task's questions with, in the order of the questions.
	Answers []any `json:"stele_answers,omitempty"`
	// Leads are the nodes to which the task led: by edges, Commands and Sends.
	Leads []string `json:"stele_leads"`
}

// pullPath begins the path of a task that runs because a channel of its node changed. The node's name follows.
const pullPath = "~__pregel_pull, "

// packetPath is the path of a task of a packet. Those of called functions and of updates are longer, or others.
var packetPath = regexp.MustCompile(`^~__pregel_push, [0-9]+, 0000000000$`)

// called is the path of a function that a task called.
var called = regexp.MustCompile(`^~__pregel_push, ~.*, 0000000001$`)

// listedTasks returns the tasks of a checkpoint by their writes. A value that cannot be decoded is left out: the
// history shows that the checkpoint is there.
func listedTasks(tuple *saver.Tuple) []listedTask {
	list, pulled, packets := []listedTask{}, []string{}, []int{}
	for _, w := range tuple.PendingWrites {
		if w.TaskID == saver.NullTaskID || strings.HasPrefix(w.Channel, "__stele_") { // nor are stele's own records those of a task
			continue
		}
		if called.MatchString(w.TaskPath) { // its caller has its questions as well, and may have handled its failure
			continue
		}
		if len(list) == 0 || list[len(list)-1].ID != w.TaskID { // they are ordered by task
			t := listedTask{ID: w.TaskID, Interrupts: []any{}, Leads: []string{}}
			if name, ok := strings.CutPrefix(w.TaskPath, pullPath); ok && !strings.Contains(name, ", ") { // else it is that of an error handler
				t.Name, pulled = name, append(pulled, name)
			} else if packetPath.MatchString(w.TaskPath) {
				packets = append(packets, len(list))
			}
			list = append(list, t)
		}
		list[len(list)-1].add(w)
	}
	if tuple.Note == nil {
		return list
	}
	// The path of a packet does not name its node. If only one node is left, it is that.
	if others := slices.DeleteFunc(slices.Clone(tuple.Note.Next), func(n string) bool { return slices.Contains(pulled, n) }); len(others) == 1 {
		for _, i := range packets {
			list[i].Name = others[0]
		}
	}
	return list
}

// add adds a write to its task.
func (t *listedTask) add(w saver.PendingWrite) {
	if to := leadsTo(w); to != "" && !slices.Contains(t.Leads, to) {
		t.Leads = append(t.Leads, to)
	}
	internal := strings.HasPrefix(w.Channel, "__")
	known := w.Channel == saver.ChannelError || w.Channel == saver.ChannelInterrupt || w.Channel == saver.ChannelResume
	if internal && !known || strings.HasPrefix(w.Channel, "branch:") || strings.HasPrefix(w.Channel, "join:") {
		return
	}
	var v any = tooLong
	if typed, err := w.Value.View(); err == nil && len(typed.Data) <= listedBytes {
		plain, err := plainValue(w.Value)
		if err != nil {
			return
		}
		v = glimpse(plain, 0)
	}
	several, _ := v.([]any)
	switch w.Channel {
	case saver.ChannelError:
		t.Error = v
	case saver.ChannelInterrupt:
		t.Interrupts = append(t.Interrupts, several...)
	case saver.ChannelResume:
		t.Answers = several
	default:
		if t.Result == nil {
			t.Result = map[string]any{}
		}
		t.Result[w.Channel] = v
	}
}

// leadsTo returns the node to which a write leads, "" if it leads to none. A Send that is too long, or that cannot
// be decoded, is left out.
func leadsTo(w saver.PendingWrite) string {
	if w.Channel != saver.ChannelTasks {
		if to, ok := strings.CutPrefix(w.Channel, "branch:to:"); ok {
			return to
		}
		return ""
	}
	if typed, err := w.Value.View(); err != nil || len(typed.Data) > listedBytes {
		return ""
	}
	v, err := w.Value.Any()
	send, ok := v.(serde.Send)
	if err != nil || !ok {
		return ""
	}
	return send.Node
}

// plainValue is a stored value as the types of JSON alone.
func plainValue(v saver.Value) (out any, err error) {
	decoded, err := v.Any()
	if err != nil {
		return nil, err
	}
	shown, err := pregeljson.Value(marked(decoded, 0))
	if err != nil {
		return nil, err
	}
	text, err := encode(shown)
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber() // integers above 2^53 stay as they are
	err = d.Decode(&out)
	return out, err
}

// tooLong stands for a value that is too long to be decoded for a line.
const tooLong = "…"

// How much of a value is shown in a line.
const (
	listedBytes   = 64 << 10 // longer values are not decoded
	glimpsedText  = 160      // characters of a text
	glimpsedItems = 24       // elements of a list, the last ones, and fields of an object
	glimpsedDepth = 6
)

// glimpse cuts what is long in a value of JSON's types, and leaves out what is deep in it.
func glimpse(v any, depth int) any {
	switch x := v.(type) {
	case string:
		return cutTo(x, glimpsedText)
	case []any:
		if depth == glimpsedDepth {
			return nil
		}
		x = x[max(0, len(x)-glimpsedItems):]
		for i := range x {
			x[i] = glimpse(x[i], depth+1)
		}
		return x
	case map[string]any:
		if depth == glimpsedDepth {
			return nil
		}
		out := make(map[string]any, min(len(x), glimpsedItems))
		for _, k := range slices.Sorted(maps.Keys(x)) {
			if len(out) == glimpsedItems {
				break
			}
			if e := x[k]; e != nil {
				out[cutTo(k, glimpsedText)] = glimpse(e, depth+1)
			}
		}
		return out
	}
	return v
}
