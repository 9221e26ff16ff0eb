package wire

import (
	"github.com/tinylib/msgp/msgp"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/serde"
)

// At are the parameters of get, delta_history and count_attempt.
type At struct {
	named
	Config   saver.Config // with Epoch, of count_attempt
	Channels []string     // of delta_history
}

// AppendTo appends the parameters.
func (p *At) AppendTo(b []byte) []byte {
	f := beginFields(b)
	appendConfig(&f, p.Config)
	f.number("epoch", p.Config.Epoch)
	f.names("channels", p.Channels)
	p.named.appendTo(&f)
	return f.end()
}

// DecodeAt reads the parameters of get, delta_history or count_attempt.
func DecodeAt(method string, b []byte) (p At, err error) {
	r, a := &reader{b: b}, again(false)
	r.fields(true, func(name string) bool {
		switch {
		case name == "channels" && method == "delta_history":
			p.Channels = r.names()
		case name == "epoch" && method == "count_attempt":
			p.Config.Epoch = r.integer()
		default:
			return r.config(name, &p.Config) || p.named.field(r, name, &a)
		}
		return true
	})
	p.named.settle(r, a)
	return p, r.end()
}

// AppendTuple appends a tuple. It reads its values; the error is that of reading one.
func AppendTuple(b []byte, t *saver.Tuple) ([]byte, error) {
	f := beginFields(b)
	f.always("thread", t.Config.ThreadID)
	f.always("ns", t.Config.Namespace)
	f.always("id", t.Config.CheckpointID)
	f.field("parent")
	if t.Parent == nil {
		f.b = msgp.AppendNil(f.b)
	} else {
		f.b = appendName(f.b, t.Parent.CheckpointID)
	}
	cp := &t.Checkpoint
	f.field("v")
	f.b = msgp.AppendInt(f.b, cp.V)
	f.always("ts", cp.TS)
	f.field("values")
	f.b = msgp.AppendMapHeader(f.b, uint32(len(cp.Values)))
	for _, channel := range sorted(cp.Values) {
		v, err := cp.Values[channel].View()
		if err != nil {
			return b, err
		}
		f.b = appendTyped(appendName(f.b, channel), v)
	}
	f.field("versions")
	f.b = appendVersions(f.b, cp.Versions)
	f.field("seen")
	f.b = appendSeen(f.b, cp.Seen)
	f.field("updated")
	if cp.Updated == nil {
		f.b = msgp.AppendNil(f.b)
	} else {
		f.b = appendNames(f.b, cp.Updated)
	}
	md, err := serde.Default().Encode(map[string]any(t.Metadata))
	if err != nil {
		return b, err
	}
	f.typed("metadata", md)
	f.field("writes")
	if f.b, err = appendPending(f.b, t.PendingWrites); err != nil {
		return b, err
	}
	if t.Note != nil {
		f.field("note")
		f.b = appendNote(f.b, t.Note)
	}
	return f.end(), nil
}

func appendPending(b []byte, writes []saver.PendingWrite) ([]byte, error) {
	b = msgp.AppendArrayHeader(b, uint32(len(writes)))
	for i := range writes {
		w := &writes[i]
		v, err := w.Value.View()
		if err != nil {
			return b, err
		}
		b = msgp.AppendArrayHeader(b, 5)
		b = appendName(b, w.TaskID)
		b = appendName(b, w.Channel)
		b = appendTyped(b, v)
		b = appendName(b, w.TaskPath)
		b = msgp.AppendInt(b, w.Index)
	}
	return b, nil
}

func (r *reader) pending() []saver.PendingWrite {
	n := r.array()
	out := []saver.PendingWrite{}
	for range n {
		r.arrayOf(5)
		w := saver.PendingWrite{TaskID: r.name(), Channel: r.name(), Value: r.value(), TaskPath: r.name(), Index: r.number()}
		if r.err != nil {
			return nil
		}
		out = append(out, w)
	}
	return out
}

func (r *reader) tuple() *saver.Tuple {
	t := &saver.Tuple{PendingWrites: []saver.PendingWrite{}, Metadata: saver.Metadata{}}
	cp := &t.Checkpoint
	cp.Values, cp.Versions, cp.Seen = map[string]saver.Value{}, map[string]saver.Version{}, map[string]map[string]saver.Version{}
	parent := false
	id := ""
	r.fields(false, func(name string) bool {
		switch name {
		case "parent":
			parent, id = true, r.name()
		case "v":
			cp.V = r.number()
		case "ts":
			cp.TS = r.name()
		case "values":
			cp.Values = r.values()
		case "versions":
			cp.Versions = r.versions()
		case "seen":
			cp.Seen = r.seen()
		case "updated":
			cp.Updated = r.names()
		case "metadata":
			t.Metadata = r.plain()
		case "writes":
			t.PendingWrites = r.pending()
		case "note":
			t.Note = r.note()
		default:
			return r.config(name, &t.Config)
		}
		return true
	})
	cp.ID = t.Config.CheckpointID
	if parent {
		at := t.Config.At(id)
		t.Parent = &at
	}
	return t
}

// AppendGot appends the answer of get; a nil tuple is none.
func AppendGot(b []byte, t *saver.Tuple) ([]byte, error) {
	f := beginFields(b)
	f.field("tuple")
	if t == nil {
		f.b = msgp.AppendNil(f.b)
		return f.end(), nil
	}
	var err error
	if f.b, err = AppendTuple(f.b, t); err != nil {
		return b, err
	}
	return f.end(), nil
}

// DecodeGot reads the answer of get: nil if there is no tuple.
func DecodeGot(b []byte) (t *saver.Tuple, err error) {
	r := &reader{b: b}
	r.fields(false, func(name string) bool {
		if name != "tuple" {
			return false
		}
		t = r.tuple()
		return true
	})
	return t, r.end()
}

// DecodeTuple reads a tuple, an item of a listing.
func DecodeTuple(b []byte) (*saver.Tuple, error) {
	r := &reader{b: b}
	t := r.tuple()
	return t, r.end()
}

// AppendHistory appends the answer of delta_history.
func AppendHistory(b []byte, h map[string]saver.DeltaHistory) ([]byte, error) {
	b = msgp.AppendMapHeader(b, uint32(len(h)))
	for _, channel := range sorted(h) {
		b = appendName(b, channel)
		f := beginFields(b)
		f.field("writes")
		var err error
		if f.b, err = appendPending(f.b, h[channel].Writes); err != nil {
			return b, err
		}
		f.field("seed")
		if seed := h[channel].Seed; seed.IsZero() {
			f.b = msgp.AppendNil(f.b)
		} else {
			v, err := seed.View()
			if err != nil {
				return b, err
			}
			f.b = appendTyped(f.b, v)
		}
		b = f.end()
	}
	return b, nil
}

// DecodeHistory reads the answer of delta_history.
func DecodeHistory(b []byte) (map[string]saver.DeltaHistory, error) {
	r := &reader{b: b}
	out := map[string]saver.DeltaHistory{}
	r.table(func(channel string) {
		var h saver.DeltaHistory
		r.fields(false, func(name string) bool {
			switch name {
			case "writes":
				h.Writes = r.pending()
			case "seed":
				h.Seed = r.value()
			default:
				return false
			}
			return true
		})
		out[channel] = h
	})
	return out, r.end()
}
