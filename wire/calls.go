package wire

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"io"
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
	Again  bool `msgpack:"-"` // it was asked before; sent beside the call
}

// named is a request that may have a call.
type named struct {
	Call  *Call `msgpack:"call,omitempty"`
	Again bool  `msgpack:"again,omitempty"` // Call.Again
}

// SetCall names the call of a request.
func (n *named) SetCall(c *Call) { n.Call = c }

func (n *named) prepare() { n.Again = n.Call != nil && n.Call.Again }

func (n *named) settle() error {
	if n.Again && n.Call == nil {
		return malformed("again without call")
	}
	if n.Call != nil {
		n.Call.Again = n.Again
	}
	return nil
}

// Hello is the first request of a connection.
type Hello struct {
	Protocol int    `msgpack:"protocol,omitempty"`
	Client   string `msgpack:"client,omitempty"` // who calls, for logs
	Token    string `msgpack:"token,omitempty"`
	// Challenge is a random text, and Proof that of the client, in place of the token: see Prove.
	Challenge string `msgpack:"challenge,omitempty"`
	Proof     string `msgpack:"proof,omitempty"`
	InTurn    bool   `msgpack:"in_turn,omitempty"` // a call is sent when the one before it was answered
}

// Who proves that it knows a token.
const (
	ProvesClient = "client"
	ProvesServer = "server"
)

// Prove is the proof of one side of a connection to an address, HOST:PORT, that it knows the token. A
// server that was killed leaves its address in the directory, and another program may listen there by now: it
// must learn neither the token nor what is stored. Address and side are in the proof, so that it cannot pass on that of the other.
func Prove(token, side, address, challenge string) string {
	h := hmac.New(sha256.New, []byte(token))
	_, _ = io.WriteString(h, side+"\x00"+address+"\x00"+challenge) // a hash returns no error
	return hex.EncodeToString(h.Sum(nil))
}

// Welcome is the answer to Hello.
type Welcome struct {
	Protocol  int      `msgpack:"protocol,omitempty"`
	Server    string   `msgpack:"server,omitempty"` // its version
	Store     string   `msgpack:"store,omitempty"`  // "disk", "memory" or "postgres"
	StoreID   string   `msgpack:"store_id,omitempty"`
	Proof     string   `msgpack:"proof,omitempty"` // of the server, if Hello has a challenge and the listener a token
	Methods   []string `msgpack:"methods,omitempty"`
	MaxFrame  int      `msgpack:"max_frame,omitempty"` // bytes
	MaxCalls  int      `msgpack:"max_calls,omitempty"`
	MaxValue  int      `msgpack:"max_value,omitempty"` // bytes
	CallSlots int      `msgpack:"call_slots,omitempty"`
}

// Threads are the parameters of methods about threads, runs or one of them: delete_thread
// (Thread), copy_thread (Thread, To), delete_for_runs (Runs, Thread, Epoch), prune (Threads, Strategy),
// set_ttl (Thread, TTL), sweep (none), erase (Threads), own (Thread, Wait), release (Lease),
// and of those without any.
type Threads struct {
	Thread   string              `msgpack:"thread,omitempty"`
	To       string              `msgpack:"to,omitempty"`
	Threads  []string            `msgpack:"threads,omitempty"`
	Runs     []string            `msgpack:"runs,omitempty"`
	Strategy saver.PruneStrategy `msgpack:"strategy,omitempty"`
	TTL      time.Duration       `msgpack:"ttl,omitempty"`
	Wait     bool                `msgpack:"wait,omitempty"`
	Lease    int64               `msgpack:"lease,omitempty"`
	Epoch    int64               `msgpack:"epoch,omitempty"`
	named
}

// callFields are the fields that every method of At and Threads has.
var callFields = []string{"call", "again"}

// methodFields are the others that a method has of them.
var methodFields = map[string][]string{
	"get": {"thread", "ns", "id"}, "delta_history": {"thread", "ns", "id", "channels"},
	"count_attempt": {"thread", "ns", "id", "epoch"}, "delete_thread": {"thread"}, "copy_thread": {"thread", "to"},
	"delete_for_runs": {"runs", "thread", "epoch"}, "prune": {"threads", "strategy"}, "set_ttl": {"thread", "ttl"},
	"sweep": {}, "store_sweep": {}, "erase": {"threads"}, "own": {"thread", "wait"}, "release": {"lease"},
	"sync": {}, "stats": {}, "ping": {},
}

// Owned is the answer of own.
type Owned struct {
	Lease int64 `msgpack:"lease"`
	Epoch int64 `msgpack:"epoch"`
}

// Attempts is the answer of count_attempt.
type Attempts struct {
	Attempts int `msgpack:"attempts"`
}

// Expired is the answer of sweep and store_sweep: how many threads, or items, are gone.
type Expired struct {
	Expired int `msgpack:"expired"`
}

// AppendEmpty appends an empty map: the answer of a method that answers nothing.
func AppendEmpty(b []byte) []byte { return msgp.AppendMapHeader(b, 0) }
