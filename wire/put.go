package wire

import (
	"fmt"

	"github.com/tinylib/msgp/msgp"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/serde"
)

// Put are the parameters of put.
type Put struct {
	named
	saver.PutRequest
	DeferSync bool
}

// AppendTo appends the parameters. Values that are not serialized yet, and plain data, are
// serialized with codec and the default serializer; the error is that of serializing them.
func (p *Put) AppendTo(b []byte, codec serde.Serializer) ([]byte, error) {
	f := beginFields(b)
	appendConfig(&f, saver.Config{ThreadID: p.Config.ThreadID, Namespace: p.Config.Namespace})
	f.name("parent", p.Config.CheckpointID)
	f.field("checkpoint")
	var err error
	if f.b, err = appendCheckpoint(f.b, &p.Checkpoint, p.NewVersions, codec); err != nil {
		return b, err
	}
	for _, plain := range []struct {
		name string
		m    map[string]any
	}{{"metadata", p.Metadata}, {"configurable", p.Config.Configurable}, {"run_metadata", p.Config.Metadata}} {
		if err := f.plain(plain.name, plain.m); err != nil {
			return b, err
		}
	}
	f.field("new_versions")
	f.b = appendVersions(f.b, p.NewVersions)
	if p.Config.ExpectHead != nil {
		f.always("expect_head", *p.Config.ExpectHead)
	}
	f.number("epoch", p.Config.Epoch)
	if p.ValuesFrom != nil {
		f.always("values_from", p.ValuesFrom.CheckpointID)
	}
	if p.Note != nil {
		f.field("note")
		f.b = appendNote(f.b, p.Note)
	}
	if len(p.Writes) > 0 {
		f.field("writes")
		f.b = msgp.AppendArrayHeader(f.b, uint32(len(p.Writes)))
		for i := range p.Writes {
			w := &p.Writes[i]
			g := beginFields(f.b)
			g.name("id", w.CheckpointID)
			g.name("task", w.TaskID)
			g.name("path", w.TaskPath)
			if err := g.writes(w.Writes, codec); err != nil {
				return b, err
			}
			f.b = g.end()
		}
	}
	f.boolean("defer_sync", p.DeferSync)
	p.named.appendTo(&f)
	return f.end(), nil
}

// plain is a field of plain data, left out if it is empty.
func (f *fieldsOf) plain(name string, m map[string]any) error {
	if len(m) == 0 {
		return nil
	}
	t, err := serde.Default().Encode(m)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	f.typed(name, t)
	return nil
}

// writes is the field of that name.
func (f *fieldsOf) writes(writes []saver.Write, codec serde.Serializer) error {
	f.field("writes")
	f.b = msgp.AppendArrayHeader(f.b, uint32(len(writes)))
	for i := range writes {
		t, err := writes[i].Value.Encode(codec)
		if err != nil {
			return fmt.Errorf("channel %q: %w", writes[i].Channel, err)
		}
		f.b = msgp.AppendArrayHeader(f.b, 2)
		f.b = appendTyped(appendName(f.b, writes[i].Channel), t)
	}
	return nil
}

func appendConfig(f *fieldsOf, cfg saver.Config) {
	f.name("thread", cfg.ThreadID)
	f.name("ns", cfg.Namespace)
	f.name("id", cfg.CheckpointID)
}

// appendCheckpoint appends a checkpoint with the values of the channels in fresh.
func appendCheckpoint(b []byte, cp *saver.Checkpoint, fresh map[string]saver.Version, codec serde.Serializer) ([]byte, error) {
	f := beginFields(b)
	f.number("v", int64(cp.V))
	f.name("id", cp.ID)
	f.name("ts", cp.TS)
	given := map[string]saver.Value{}
	for channel := range fresh {
		if v, ok := cp.Values[channel]; ok && !v.IsZero() {
			given[channel] = v
		}
	}
	f.field("values")
	var err error
	if f.b, err = appendValues(f.b, given, codec); err != nil {
		return b, err
	}
	f.field("versions")
	f.b = appendVersions(f.b, cp.Versions)
	f.field("seen")
	f.b = appendSeen(f.b, cp.Seen)
	f.names("updated", cp.Updated)
	return f.end(), nil
}

func appendValues(b []byte, values map[string]saver.Value, codec serde.Serializer) ([]byte, error) {
	b = msgp.AppendMapHeader(b, uint32(len(values)))
	for _, channel := range sorted(values) {
		t, err := values[channel].Encode(codec)
		if err != nil {
			return b, fmt.Errorf("channel %q: %w", channel, err)
		}
		b = appendTyped(appendName(b, channel), t)
	}
	return b, nil
}

func appendSeen(b []byte, seen map[string]map[string]saver.Version) []byte {
	b = msgp.AppendMapHeader(b, uint32(len(seen)))
	for _, node := range sorted(seen) {
		b = appendVersions(appendName(b, node), seen[node])
	}
	return b
}

func appendNote(b []byte, n *saver.Note) []byte {
	f := beginFields(b)
	f.name("graph", n.Graph)
	f.names("next", n.Next)
	f.name("stop", string(n.Stop))
	f.names("deltas", n.Deltas)
	return f.end()
}

func (r *reader) note() *saver.Note {
	n := &saver.Note{}
	r.fields(true, func(name string) bool {
		switch name {
		case "graph":
			n.Graph = r.name()
		case "next":
			n.Next = r.names()
		case "stop":
			n.Stop = saver.Stop(r.name())
		case "deltas":
			n.Deltas = r.names()
		default:
			return false
		}
		return true
	})
	return n
}

func (r *reader) checkpoint(cp *saver.Checkpoint) {
	r.fields(true, func(name string) bool {
		switch name {
		case "v":
			cp.V = r.number()
		case "id":
			cp.ID = r.name()
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
		default:
			return false
		}
		return true
	})
}

// config reads a field of a config.
func (r *reader) config(name string, cfg *saver.Config) bool {
	switch name {
	case "thread":
		cfg.ThreadID = r.name()
	case "ns":
		cfg.Namespace = r.name()
	case "id":
		cfg.CheckpointID = r.name()
	default:
		return false
	}
	return true
}

// DecodePut reads the parameters of put. What a put needs and does not have is for the saver
// to refuse.
func DecodePut(b []byte) (p Put, err error) {
	r, a := &reader{b: b}, again(false)
	from := ""
	r.fields(true, func(name string) bool {
		switch name {
		case "thread", "ns":
			r.config(name, &p.Config)
		case "parent":
			p.Config.CheckpointID = r.name()
		case "checkpoint":
			r.checkpoint(&p.Checkpoint)
		case "metadata":
			p.Metadata = r.plain()
		case "configurable":
			p.Config.Configurable = r.plain()
		case "run_metadata":
			p.Config.Metadata = r.plain()
		case "new_versions":
			p.NewVersions = r.versions()
		case "expect_head":
			p.Config.ExpectHead = saver.Head(r.name())
		case "epoch":
			p.Config.Epoch = r.integer()
		case "values_from":
			from = r.name()
			p.ValuesFrom = &saver.Config{CheckpointID: from}
		case "note":
			p.Note = r.note()
		case "writes":
			n := r.array()
			for range n {
				w := r.taskWrites()
				if r.err != nil {
					return true
				}
				p.Writes = append(p.Writes, w)
			}
		case "defer_sync":
			p.DeferSync = r.boolean()
		default:
			return p.named.field(r, name, &a)
		}
		return true
	})
	if p.ValuesFrom != nil {
		at := p.Config.At(from)
		p.ValuesFrom = &at
	}
	p.named.settle(r, a)
	return p, r.end()
}

func (r *reader) taskWrites() (w saver.TaskWrites) {
	r.fields(true, func(name string) bool {
		switch name {
		case "id":
			w.CheckpointID = r.name()
		case "task":
			w.TaskID = r.name()
		case "path":
			w.TaskPath = r.name()
		case "writes":
			w.Writes = r.writes()
		default:
			return false
		}
		return true
	})
	return w
}

func (r *reader) writes() []saver.Write {
	n := r.array()
	var out []saver.Write
	for range n {
		r.arrayOf(2)
		w := saver.Write{Channel: r.name(), Value: r.value()}
		if r.err != nil {
			return nil
		}
		out = append(out, w)
	}
	return out
}

// PutWrites are the parameters of put_writes.
type PutWrites struct {
	named
	Config     saver.Config
	Task, Path string
	Writes     []saver.Write
	DeferSync  bool
}

// AppendTo appends the parameters. Values that are not serialized yet are serialized with
// codec.
func (p *PutWrites) AppendTo(b []byte, codec serde.Serializer) ([]byte, error) {
	f := beginFields(b)
	appendConfig(&f, p.Config)
	f.number("epoch", p.Config.Epoch)
	f.name("task", p.Task)
	f.name("path", p.Path)
	if err := f.writes(p.Writes, codec); err != nil {
		return b, err
	}
	f.boolean("defer_sync", p.DeferSync)
	p.named.appendTo(&f)
	return f.end(), nil
}

// DecodePutWrites reads the parameters of put_writes.
func DecodePutWrites(b []byte) (p PutWrites, err error) {
	r, a := &reader{b: b}, again(false)
	r.fields(true, func(name string) bool {
		switch name {
		case "epoch":
			p.Config.Epoch = r.integer()
		case "task":
			p.Task = r.name()
		case "path":
			p.Path = r.name()
		case "writes":
			p.Writes = r.writes()
		case "defer_sync":
			p.DeferSync = r.boolean()
		default:
			return r.config(name, &p.Config) || p.named.field(r, name, &a)
		}
		return true
	})
	p.named.settle(r, a)
	return p, r.end()
}

// AppendConfig appends the answer of put.
func AppendConfig(b []byte, cfg saver.Config) []byte {
	f := beginFields(b)
	f.always("thread", cfg.ThreadID)
	f.always("ns", cfg.Namespace)
	f.always("id", cfg.CheckpointID)
	return f.end()
}

// DecodeConfig reads the answer of put.
func DecodeConfig(b []byte) (cfg saver.Config, err error) {
	r := &reader{b: b}
	r.fields(false, func(name string) bool { return r.config(name, &cfg) })
	return cfg, r.end()
}
