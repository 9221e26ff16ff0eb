package runs

import (
	"encoding/base64"
	"encoding/json"
	"strconv"
	"time"

	"github.com/stele-go/stele/base/jsontext"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/saver/serde"
)

// The functions below write what package json reads, in a fraction of the time that it takes to write it.
// Like its option omitempty they leave out what is empty.

// fields writes the fields of an object.
type fields struct {
	b   []byte
	err error
}

func (f *fields) name(name string) {
	if f.b[len(f.b)-1] != '{' {
		f.b = append(f.b, ',')
	}
	f.b = append(append(append(f.b, '"'), name...), '"', ':')
}

func (f *fields) text(name, s string) {
	if s != "" {
		f.name(name)
		f.b = jsontext.AppendString(f.b, s)
	}
}

func (f *fields) whole(name string, n int64) {
	if n != 0 {
		f.name(name)
		f.b = strconv.AppendInt(f.b, n, 10)
	}
}

func (f *fields) flag(name string, set bool) {
	if set {
		f.name(name)
		f.b = append(f.b, "true"...)
	}
}

func (f *fields) time(name string, t time.Time) {
	if t.IsZero() {
		return
	}
	f.name(name)
	f.b = append(f.b, '"')
	b, err := t.AppendText(f.b)
	if err != nil {
		f.err = err
		return
	}
	f.b = append(b, '"')
}

func (f *fields) typed(name string, t serde.Typed) {
	f.name(name)
	f.b = jsontext.AppendString(append(f.b, `{"Kind":`...), t.Kind)
	if t.Data == nil {
		f.b = append(f.b, `,"Data":null}`...)
		return
	}
	f.b = base64.StdEncoding.AppendEncode(append(f.b, `,"Data":"`...), t.Data)
	f.b = append(f.b, `"}`...)
}

func (f *fields) object(name string, m map[string]any) {
	if len(m) == 0 {
		return
	}
	f.name(name)
	b, ok := jsontext.Append(f.b, m, false)
	if f.b = b; !ok {
		f.value(m)
	}
}

// value writes what only package json can.
func (f *fields) value(v any) {
	text, err := json.Marshal(v)
	if err != nil {
		f.err = err
	}
	f.b = append(f.b, text...)
}

func texts[T ~string](f *fields, name string, list []T) {
	if len(list) == 0 {
		return
	}
	f.name(name)
	for i, s := range list {
		f.b = append(f.b, "[,"[min(i, 1)])
		f.b = jsontext.AppendString(f.b, string(s))
	}
	f.b = append(f.b, ']')
}

// appendNote appends the JSON of a TaskNote.
func appendNote(b []byte, n TaskNote) []byte {
	f := fields{b: append(b, '{')}
	f.text("id", n.ID)
	f.text("name", n.Name)
	f.flag("ended", n.Ended)
	f.whole("attempts", int64(n.Attempts))
	f.whole("took_ns", int64(n.Took))
	f.flag("failed", n.Failed)
	f.flag("waiting", n.Waiting)
	return append(f.b, '}')
}

// appendSpec appends the JSON of a Spec.
func appendSpec(b []byte, s *Spec) ([]byte, error) {
	f := fields{b: append(b, '{')}
	f.spec(s)
	return append(f.b, '}'), f.err
}

func (f *fields) spec(s *Spec) {
	f.text("thread_id", s.ThreadID)
	f.text("graph", s.Graph)
	f.typed("input", s.Input)
	f.text("checkpoint_id", s.CheckpointID)
	f.object("metadata", s.Metadata)
	f.object("configurable", s.Configurable)
	f.object("context", s.Context)
	texts(f, "tags", s.Tags)
	f.whole("recursion_limit", int64(s.RecursionLimit))
	f.whole("max_concurrency", int64(s.MaxConcurrency))
	f.text("durability", string(s.Durability))
	texts(f, "interrupt_before", s.InterruptBefore)
	texts(f, "interrupt_after", s.InterruptAfter)
	texts[pregel.Mode](f, "modes", s.Modes)
	f.flag("subgraphs", s.Subgraphs)
	f.flag("tasks", s.Tasks)
	f.text("multitask", string(s.Multitask))
	f.whole("priority", int64(s.Priority))
	f.whole("attempts", int64(s.Attempts))
	if len(s.Trace) > 0 {
		f.name("trace")
		f.value(s.Trace)
	}
	f.object("labels", s.Labels)
}

// appendRun appends the JSON of a run without its Spec and its ID, which is the key. What says no time
// before which it may not begin may begin when it was created.
func appendRun(b []byte, r *storedRun) ([]byte, error) {
	f := fields{b: append(b, '{')}
	f.text("key", r.Key)
	f.text("status", string(r.Status))
	f.whole("attempt", int64(r.Attempt))
	f.flag("waiting", r.Waiting)
	f.text("error", r.Error)
	f.text("cancel", string(r.Cancel))
	f.text("worker", r.Worker)
	f.whole("epoch", r.Epoch)
	f.text("mark", r.Mark)
	if !r.After.Equal(r.Created) {
		f.time("after", r.After)
	}
	f.time("created", r.Created)
	f.time("started", r.Started)
	f.time("ended", r.Ended)
	f.whole("seq", r.Seq)
	f.whole("last", r.Last)
	return append(f.b, '}'), f.err
}
