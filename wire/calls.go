package wire

import (
	"time"

	"github.com/tinylib/msgp/msgp"

	"github.com/stele-go/stele/saver"
)

// ClientSize is the length of Call.Client.
const ClientSize = 16

// Call names a call that writes, so that it can be asked again.
type Call struct {
	Client [ClientSize]byte
	Slot   uint16
	Number uint64
	Again  bool // it was asked before
}

// named is a request that may have a call.
type named struct{ Call *Call }

// again is where the field of the same name waits for the field call.
type again bool

func (n *named) field(r *reader, name string, a *again) bool {
	switch name {
	case "call":
		r.arrayOf(3)
		c := &Call{}
		client := r.bin()
		if r.err == nil && copy(c.Client[:], client) != len(client) || r.err == nil && len(client) != ClientSize {
			r.fail(malformed("a client of %d bytes, not %d", len(client), ClientSize))
		}
		c.Slot = take(r, msgp.ReadUint16Bytes)
		c.Number = take(r, msgp.ReadUint64Bytes)
		n.Call = c
	case "again":
		*a = again(r.boolean())
	default:
		return false
	}
	return true
}

func (n *named) settle(r *reader, a again) {
	if !a || r.err != nil {
		return
	}
	if n.Call == nil {
		r.fail(malformed("again without call"))
		return
	}
	n.Call.Again = true
}

func (n *named) appendTo(f *fieldsOf) {
	if n.Call == nil {
		return
	}
	f.field("call")
	f.b = msgp.AppendArrayHeader(f.b, 3)
	f.b = msgp.AppendBytes(f.b, n.Call.Client[:])
	f.b = msgp.AppendUint16(f.b, n.Call.Slot)
	f.b = msgp.AppendUint64(f.b, n.Call.Number)
	f.boolean("again", n.Call.Again)
}

// Hello is the first request of a connection.
type Hello struct {
	Protocol int
	Client   string // who calls, for logs
	Token    string
	InTurn   bool // a call is sent when the one before it was answered
}

// AppendTo appends the parameters.
func (h *Hello) AppendTo(b []byte) []byte {
	f := beginFields(b)
	f.number("protocol", int64(h.Protocol))
	f.name("client", h.Client)
	f.name("token", h.Token)
	f.boolean("in_turn", h.InTurn)
	return f.end()
}

// DecodeHello reads the parameters of hello. It ignores fields that it does not know, so that
// a server can answer to a client of a later protocol that it does not speak it.
func DecodeHello(b []byte) (h Hello, err error) {
	r := &reader{b: b}
	r.fields(false, func(name string) bool {
		switch name {
		case "protocol":
			h.Protocol = r.number()
		case "client":
			h.Client = r.name()
		case "token":
			h.Token = r.name()
		case "in_turn":
			h.InTurn = r.boolean()
		default:
			return false
		}
		return true
	})
	return h, r.end()
}

// Welcome is the answer to Hello.
type Welcome struct {
	Protocol  int
	Server    string // its version
	Store     string // "disk", "memory" or "postgres"
	Methods   []string
	MaxFrame  int // bytes
	MaxCalls  int
	MaxValue  int // bytes
	CallSlots int
}

// AppendTo appends the answer.
func (w *Welcome) AppendTo(b []byte) []byte {
	f := beginFields(b)
	f.number("protocol", int64(w.Protocol))
	f.name("server", w.Server)
	f.name("store", w.Store)
	f.names("methods", w.Methods)
	f.number("max_frame", int64(w.MaxFrame))
	f.number("max_calls", int64(w.MaxCalls))
	f.number("max_value", int64(w.MaxValue))
	f.number("call_slots", int64(w.CallSlots))
	return f.end()
}

// DecodeWelcome reads the answer to Hello.
func DecodeWelcome(b []byte) (w Welcome, err error) {
	r := &reader{b: b}
	r.fields(false, func(name string) bool {
		switch name {
		case "protocol":
			w.Protocol = r.number()
		case "server":
			w.Server = r.name()
		case "store":
			w.Store = r.name()
		case "methods":
			w.Methods = r.names()
		case "max_frame":
			w.MaxFrame = r.number()
		case "max_calls":
			w.MaxCalls = r.number()
		case "max_value":
			w.MaxValue = r.number()
		case "call_slots":
			w.CallSlots = r.number()
		default:
			return false
		}
		return true
	})
	return w, r.end()
}

// Threads are the parameters of methods about threads, runs or one of them: delete_thread
// (Thread), copy_thread (Thread, To), delete_for_runs (Runs, Thread, Epoch), prune (Threads, Strategy),
// set_ttl (Thread, TTL), sweep (none), erase (Threads), own (Thread, Wait), release (Lease),
// and of those without any.
type Threads struct {
	named
	Thread, To    string
	Threads, Runs []string
	Strategy      saver.PruneStrategy
	TTL           time.Duration
	Wait          bool
	Lease         int64
	Epoch         int64
}

// AppendTo appends the parameters.
func (t *Threads) AppendTo(b []byte) []byte {
	f := beginFields(b)
	f.name("thread", t.Thread)
	f.name("to", t.To)
	f.names("threads", t.Threads)
	f.names("runs", t.Runs)
	f.name("strategy", string(t.Strategy))
	f.seconds("ttl", t.TTL)
	f.boolean("wait", t.Wait)
	f.number("lease", t.Lease)
	f.number("epoch", t.Epoch)
	t.named.appendTo(&f)
	return f.end()
}

// threadFields are the fields that each of the methods of Threads has.
var threadFields = map[string][]string{
	"delete_thread": {"thread"}, "copy_thread": {"thread", "to"}, "delete_for_runs": {"runs", "thread", "epoch"}, "prune": {"threads", "strategy"},
	"set_ttl": {"thread", "ttl"}, "sweep": {}, "erase": {"threads"}, "own": {"thread", "wait"}, "release": {"lease"}, "sync": {}, "stats": {}, "ping": {},
}

// DecodeThreads reads the parameters of a method of Threads.
func DecodeThreads(method string, b []byte) (t Threads, err error) {
	r, a := &reader{b: b}, again(false)
	known := threadFields[method]
	r.fields(true, func(name string) bool {
		if t.named.field(r, name, &a) {
			return true
		}
		has := false
		for _, k := range known {
			has = has || k == name
		}
		if !has {
			return false
		}
		switch name {
		case "thread":
			t.Thread = r.name()
		case "to":
			t.To = r.name()
		case "threads":
			t.Threads = r.names()
		case "runs":
			t.Runs = r.names()
		case "strategy":
			t.Strategy = saver.PruneStrategy(r.name())
		case "ttl":
			t.TTL = r.seconds()
		case "wait":
			t.Wait = r.boolean()
		case "lease":
			t.Lease = r.integer()
		case "epoch":
			t.Epoch = r.integer()
		}
		return true
	})
	t.named.settle(r, a)
	return t, r.end()
}

// AppendEmpty appends an empty map: the answer of a method that answers nothing.
func AppendEmpty(b []byte) []byte { return msgp.AppendMapHeader(b, 0) }
