package bench

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/serde"
)

// words make text that compresses about as English does.
var words = strings.Fields(`the of and to in is that it was for on are as with his they at be this from have or by one had not
but what all were when we there can an your which their said if do will each about how up out them then she many some so these
would other into has more her two like him see time could no make than first been its who now people my made over did down only
way find use may water long little very after words called just where most know get through back much before go good new write
our used me man too any day same right look think also around another came come work three word must because does part even place
well such here take why things help put years different away again off went old number great tell men say small every found still
between name should home big give air line set own under read last never us left end along while might next sound below saw
something thought both few those always looked show large often together asked house world going want school important until form
food keep children feet land side without boy once animals life enough took sometimes four head above kind began almost live page
got earth need far hand high year mother light parts country father let night following picture being study second eyes soon times
story boys since white days ever paper hard near sentence better best across during today others however sure means knew tried told
young miles sun ways thing whole hear example heard several change answer room sea against top turned learn point city play toward
five using himself usually money seen car morning given order red door sure become agent graph model tool call state checkpoint
thread invoice refund customer account shipment schedule meeting summary report database query result error retry timeout budget`)

// Data makes values. It gives the same ones to everybody who asks in the same
// order from the same seed. Not safe for concurrent use.
type Data struct{ r *rand.Rand }

// NewData starts a sequence of values.
func NewData(seed uint64) *Data { return &Data{rand.New(rand.NewPCG(seed, 42))} }

// Text is at least n bytes of words and punctuation, frequent words more often.
func (d *Data) Text(n int) string {
	var b strings.Builder
	b.Grow(n + 16)
	for sentence := 0; b.Len() < n; sentence++ {
		w := words[int(float64(len(words))*d.r.Float64()*d.r.Float64())]
		if sentence%11 == 0 {
			w = strings.ToUpper(w[:1]) + w[1:]
		}
		b.WriteString(w)
		if sentence%11 == 10 {
			b.WriteString(". ")
		} else {
			b.WriteByte(' ')
		}
	}
	return b.String()
}

// ID is a random UUID-like id.
func (d *Data) ID() string {
	return fmt.Sprintf("%08x-%04x-4%03x-8%03x-%012x", d.r.Uint32(), d.r.Uint32()&0xffff, d.r.Uint32()&0xfff, d.r.Uint32()&0xfff, d.r.Uint64()&0xffffffffffff)
}

// Message is a chat message with the fields LangChain gives it, about 670 bytes
// serialized.
func (d *Data) Message(kind string) map[string]any {
	return map[string]any{
		"type": kind, "id": d.ID(), "content": d.Text(360), "name": nil, "example": false,
		"additional_kwargs": map[string]any{},
		"response_metadata": map[string]any{"model_name": "scripted-1", "finish_reason": "stop", "logprobs": nil,
			"token_usage": map[string]any{"completion_tokens": d.r.IntN(500), "prompt_tokens": d.r.IntN(5000), "total_tokens": d.r.IntN(5500)}},
		"tool_calls": []any{}, "invalid_tool_calls": []any{},
	}
}

// CheckpointID is an id as LangGraph makes them, a UUIDv6, growing with n.
func CheckpointID(n int) string {
	return fmt.Sprintf("1f0f%04x-%04x-6%03x-8%03x-%012x", n>>16&0xffff, n&0xffff, n&0xfff, n&0x3fff, uint64(n)*0x9e3779b97f4a7c15&0xffffffffffff)
}

// Step is what one superstep hands to the saver.
type Step struct {
	Checkpoint saver.Checkpoint
	Metadata   saver.Metadata
	Changed    map[string]saver.Version // channels whose values are in Checkpoint and new
	Writes     []saver.Write            // one task each
}

// Typed serializes the values of a step, for the raw workloads.
func (s Step) Typed() Step {
	enc := func(v saver.Value) saver.Value {
		t, err := v.Encode(serde.Default())
		if err != nil {
			panic(err) // plain data always encode
		}
		return saver.ValueTyped(t)
	}
	values := map[string]saver.Value{}
	for channel, v := range s.Checkpoint.Values {
		values[channel] = enc(v)
	}
	s.Checkpoint.Values = values
	writes := make([]saver.Write, len(s.Writes))
	for i, w := range s.Writes {
		writes[i] = saver.Write{Channel: w.Channel, Value: enc(w.Value)}
	}
	s.Writes = writes
	return s
}

// version is a channel version as LangGraph mints them.
func (d *Data) version(n int) saver.Version {
	v, err := saver.NextVersion(saver.IntVersion(int64(n-1)), d.r.Float64)
	if err != nil {
		panic(err) // an integer always has a successor
	}
	return v
}

// startVersion is that of the channel the first step empties.
var startVersion = saver.StringVersion("00000000000000000000000000000001.0.4137218904731846")

// frame is a checkpoint as a graph of an agent and its tools makes it, without
// the values of its own channels.
func (d *Data) frame(n int, run string) Step {
	s := Step{Changed: map[string]saver.Version{}}
	trigger, begun := d.version(n+1), startVersion
	if n == 0 {
		s.Changed["__start__"] = begun // emptied by the first step
	}
	s.Changed["branch:to:model"] = trigger
	s.Checkpoint = saver.Checkpoint{V: 4, ID: CheckpointID(n), TS: "2026-01-19T10:17:07.498064+00:00",
		Values:   map[string]saver.Value{"branch:to:model": saver.ValueOf(nil)},
		Versions: map[string]saver.Version{"__start__": begun, "branch:to:model": trigger},
		Seen: map[string]map[string]saver.Version{"__input__": {}, "__start__": {"__start__": begun},
			"model": {"branch:to:model": d.version(n)}, "tools": {"branch:to:model": d.version(n)}},
		Updated: []string{"branch:to:model", "messages"}}
	s.Metadata = saver.Metadata{"source": "loop", "step": n, "parents": map[string]any{}, "run_id": run, "user_id": "user-17"}
	return s
}

// Chat is W1: steps in which messages grow by two, each of them written by a
// task of its own.
func (d *Data) Chat(steps int) []Step {
	run := d.ID()
	all := make([]Step, steps)
	var messages []any
	for i := range all {
		s := d.frame(i, run)
		human, ai := d.Message("human"), d.Message("ai")
		messages = append(messages, human, ai)
		s.Checkpoint.Values["messages"] = saver.ValueOf(messages[:len(messages):len(messages)])
		s.Checkpoint.Versions["messages"] = d.version(i + 1)
		s.Changed["messages"] = s.Checkpoint.Versions["messages"]
		s.Writes = []saver.Write{{Channel: "messages", Value: saver.ValueOf(human)}, {Channel: "messages", Value: saver.ValueOf(ai)}}
		all[i] = s
	}
	return all
}

// Small are steps that change one channel of about size bytes altogether, with
// one short task write each: W2 and W5.
func (d *Data) Small(steps, size int) []Step {
	run := d.ID()
	all := make([]Step, steps)
	for i := range all {
		s := d.frame(i, run)
		s.Checkpoint.Values["state"] = saver.ValueOf(map[string]any{"plan": d.Text(size / 2), "notes": d.Text(size / 2), "turn": i})
		s.Checkpoint.Versions["state"] = d.version(i + 1)
		s.Changed["state"] = s.Checkpoint.Versions["state"]
		s.Writes = []saver.Write{{Channel: "state", Value: saver.ValueOf(map[string]any{"notes": d.Text(size / 8)})}}
		all[i] = s
	}
	return all
}

// Wide is W3: one checkpoint of four channels, about 8 KB.
func (d *Data) Wide() Step {
	s := d.frame(0, d.ID())
	s.Checkpoint.Values["messages"] = saver.ValueOf([]any{d.Message("human"), d.Message("ai"), d.Message("human"), d.Message("ai")})
	s.Checkpoint.Values["documents"] = saver.ValueOf([]any{d.Text(1200), d.Text(1200), d.Text(1200)})
	s.Checkpoint.Values["summary"] = saver.ValueOf(d.Text(800))
	s.Checkpoint.Values["plan"] = saver.ValueOf(map[string]any{"steps": []any{d.Text(100), d.Text(100), d.Text(100)}, "done": 1})
	for _, channel := range []string{"messages", "documents", "summary", "plan"} {
		s.Checkpoint.Versions[channel] = d.version(1)
		s.Changed[channel] = s.Checkpoint.Versions[channel]
	}
	return s
}
