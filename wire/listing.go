package wire

import (
	"github.com/tinylib/msgp/msgp"

	"github.com/stele-go/stele/saver"
)

// List are the parameters of list.
type List struct{ saver.Query }

// AppendTo appends the parameters. The error is that of serializing the filter.
func (p *List) AppendTo(b []byte) ([]byte, error) {
	f := beginFields(b)
	f.name("thread", p.ThreadID)
	if p.Namespace != nil {
		f.always("ns", *p.Namespace)
	}
	f.name("id", p.CheckpointID)
	f.name("before", p.Before)
	if err := f.plain("filter", p.Filter); err != nil {
		return b, err
	}
	f.limit(p.Limit)
	return f.end(), nil
}

// limit is a limit, in which 0 on the wire means nothing, and in Go no limit.
func (f *fieldsOf) limit(n int) {
	switch n {
	case 0:
	case saver.NoResults:
		f.field("limit")
		f.b = msgp.AppendInt(f.b, 0)
	default:
		f.field("limit")
		f.b = msgp.AppendInt(f.b, n)
	}
}

func (r *reader) limit() int {
	if n := r.number(); n != 0 {
		return n
	}
	return saver.NoResults
}

// DecodeList reads the parameters of list.
func DecodeList(b []byte) (p List, err error) {
	r := &reader{b: b}
	r.fields(true, func(name string) bool {
		switch name {
		case "thread":
			p.ThreadID = r.name()
		case "ns":
			p.Namespace = saver.InNamespace(r.name())
		case "id":
			p.CheckpointID = r.name()
		case "before":
			p.Before = r.name()
		case "filter":
			p.Filter = r.plain()
		case "limit":
			p.Limit = r.limit()
		default:
			return false
		}
		return true
	})
	return p, r.end()
}

// Items is the notification with a batch of what a call lists.
type Items struct {
	Call  uint32
	Items [][]byte // each a tuple, or a thread
}

// AppendTo appends the parameters.
func (n *Items) AppendTo(b []byte) []byte {
	f := beginFields(b)
	f.field("call")
	f.b = msgp.AppendUint32(f.b, n.Call)
	f.field("items")
	f.b = msgp.AppendArrayHeader(f.b, uint32(len(n.Items)))
	for _, item := range n.Items {
		f.b = append(f.b, item...)
	}
	return f.end()
}

// DecodeItems reads the notification items. The items share the memory of b.
func DecodeItems(b []byte) (n Items, err error) {
	r := &reader{b: b}
	r.fields(false, func(name string) bool {
		switch name {
		case "call":
			n.Call = take(r, msgp.ReadUint32Bytes)
		case "items":
			count := r.array()
			for range count {
				item := r.raw()
				if r.err != nil {
					return true
				}
				n.Items = append(n.Items, item)
			}
		default:
			return false
		}
		return true
	})
	return n, r.end()
}

// Control are the parameters of the notifications more (Call, Batches), cancel (Call) and
// lost (Lease).
type Control struct {
	Call    uint32
	Batches int
	Lease   int64
}

// AppendTo appends the parameters.
func (n *Control) AppendTo(b []byte) []byte {
	f := beginFields(b)
	f.field("call")
	f.b = msgp.AppendUint32(f.b, n.Call)
	f.number("batches", int64(n.Batches))
	f.number("lease", n.Lease)
	return f.end()
}

// DecodeControl reads the parameters of more, cancel or lost.
func DecodeControl(b []byte) (n Control, err error) {
	r := &reader{b: b}
	r.fields(false, func(name string) bool {
		switch name {
		case "call":
			n.Call = take(r, msgp.ReadUint32Bytes)
		case "batches":
			n.Batches = r.number()
		case "lease":
			n.Lease = r.integer()
		default:
			return false
		}
		return true
	})
	return n, r.end()
}

// AppendCount appends the answer of a listing: how many items it had. field is "count", or
// the only field of another answer, such as "expired" and "attempts".
func AppendCount(b []byte, field string, n int) []byte {
	f := beginFields(b)
	f.field(field)
	f.b = msgp.AppendInt(f.b, n)
	return f.end()
}

// DecodeCount reads an answer of one number.
func DecodeCount(b []byte, field string) (n int, err error) {
	r := &reader{b: b}
	r.fields(false, func(name string) bool {
		if name == field {
			n = r.number()
		}
		return name == field
	})
	return n, r.end()
}

// FindThreads are the parameters of threads.
type FindThreads struct{ saver.ThreadQuery }

// AppendTo appends the parameters. The error is that of serializing the metadata.
func (p *FindThreads) AppendTo(b []byte) ([]byte, error) {
	f := beginFields(b)
	f.name("thread", p.ThreadID)
	f.name("prefix", p.Prefix)
	if !p.UpdatedSince.IsZero() {
		f.field("updated_since")
		f.b = appendTime(f.b, p.UpdatedSince)
	}
	f.name("status", string(p.Status))
	if err := f.plain("metadata", p.Metadata); err != nil {
		return b, err
	}
	f.limit(p.Limit)
	return f.end(), nil
}

// DecodeFindThreads reads the parameters of threads.
func DecodeFindThreads(b []byte) (p FindThreads, err error) {
	r := &reader{b: b}
	r.fields(true, func(name string) bool {
		switch name {
		case "thread":
			p.ThreadID = r.name()
		case "prefix":
			p.Prefix = r.name()
		case "updated_since":
			p.UpdatedSince = r.time()
		case "status":
			p.Status = saver.Status(r.name())
		case "metadata":
			p.Metadata = r.plain()
		case "limit":
			p.Limit = r.limit()
		default:
			return false
		}
		return true
	})
	return p, r.end()
}

// AppendThread appends what threads lists.
func AppendThread(b []byte, t *saver.ThreadInfo) []byte {
	f := beginFields(b)
	f.always("thread", t.ThreadID)
	f.always("head", t.Head)
	f.field("updated_at")
	f.b = appendTime(f.b, t.UpdatedAt)
	f.always("status", string(t.Status))
	f.always("graph", t.Graph)
	f.field("next")
	f.b = appendNames(f.b, t.Next)
	return f.end()
}

// DecodeThread reads what threads lists.
func DecodeThread(b []byte) (t saver.ThreadInfo, err error) {
	r := &reader{b: b}
	r.fields(false, func(name string) bool {
		switch name {
		case "thread":
			t.ThreadID = r.name()
		case "head":
			t.Head = r.name()
		case "updated_at":
			t.UpdatedAt = r.time()
		case "status":
			t.Status = saver.Status(r.name())
		case "graph":
			t.Graph = r.name()
		case "next":
			if t.Next = r.names(); len(t.Next) == 0 {
				t.Next = nil
			}
		default:
			return false
		}
		return true
	})
	return t, r.end()
}
