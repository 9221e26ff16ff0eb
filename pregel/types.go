package pregel

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/saver/serde"
)

// The types of LangGraph's protocol that are stored as such.
type (
	// Send asks for one run of a node with its own input in the next superstep.
	Send = serde.Send
	// Command updates state, resumes interrupts and steers the graph: as a
	// node's output, or as the input of a run.
	Command = serde.Command
	// Interrupt is what a paused task shows to the outside.
	Interrupt = serde.Interrupt
	// Overwrite replaces the value of a reducing channel.
	Overwrite = serde.Overwrite
	// TimeoutPolicy bounds one attempt of a node.
	TimeoutPolicy = serde.TimeoutPolicy
)

// Timeout makes a TimeoutPolicy. run bounds an attempt. idle bounds the time without
// progress: a write, a stream event, a call or a heartbeat. Zero is no bound.
func Timeout(run, idle time.Duration) *TimeoutPolicy {
	return &TimeoutPolicy{RunTimeout: run.Seconds(), IdleTimeout: idle.Seconds(), RefreshOn: "auto"}
}

// Func is the body of a node. Its context carries the task; see Ask, Emit and Task. It runs
// again from the start after an interrupt and for a retry.
type Func func(ctx context.Context, input any) (any, error)

// NodeOf makes a Func of a typed function. Input of another type is converted like a write
// to a channel.
func NodeOf[I, O any](f func(ctx context.Context, input I) (O, error)) Func {
	return func(ctx context.Context, input any) (any, error) {
		in, err := channel.Convert[I](input)
		if err != nil {
			return nil, err
		}
		return f(ctx, in)
	}
}

// Pair is one update of a state key.
type Pair struct {
	Key   string
	Value any
}

// Pairs are updates in a given order, as the output of a node or as Command.Update. Where
// the order does not matter a map does the same; it is written in the order of its keys. As
// the input of a run, Pairs are a map.
type Pairs []Pair

// PairsOf reads v as updates: Pairs, or a map with string keys in the order of those keys.
// ok is false for anything else.
func PairsOf(v any) (pairs Pairs, ok bool) {
	switch x := v.(type) {
	case Pairs:
		return x, true
	case map[string]any:
		if len(x) == 0 {
			return nil, true
		}
		pairs = make(Pairs, 0, len(x))
		for k, v := range x {
			pairs = append(pairs, Pair{k, v})
		}
		slices.SortFunc(pairs, func(a, b Pair) int { return strings.Compare(a.Key, b.Key) })
		return pairs, true
	}
	return nil, false
}

// CachePolicy reuses the writes of a finished task for later tasks with equal input.
type CachePolicy struct {
	// Key identifies an input; nil hashes its serialized form.
	Key func(input any) (string, error)
	// TTL is how long an entry is valid; 0 is for ever.
	TTL time.Duration
}

// Durability says when a run's progress is stored.
type Durability string

// The durability modes. Async is the default.
const (
	// Sync stores the checkpoint of a superstep, and the writes that made it, before the
	// next superstep begins, and the input before the first.
	Sync Durability = "sync"
	// Async stores them in order while the next superstep runs, and all of them before the run returns.
	// Checkpoints that wait for each other share a sync. On a disk saver a checkpoint that carries no
	// long-term store items waits up to a millisecond, so that checkpoints of quick nodes are stored
	// together. Each is a commit of its own: a crash may leave the first few.
	Async Durability = "async"
	// Exit stores only the last checkpoint, when the run ends, and what the tasks of an
	// unfinished superstep wrote.
	Exit Durability = "exit"
)

// Checkpointing says where a graph that runs inside another keeps its history.
type Checkpointing int

// The values of Checkpointing.
const (
	// Inherit uses the saver of the graph around, in a namespace of the calling task. The
	// graph can be resumed, and starts afresh at the next call.
	Inherit Checkpointing = iota
	// Stable uses the saver of the graph around, in one namespace for all calls, so its
	// state accumulates. Such a graph cannot be outermost.
	Stable
	// Off stores nothing. Such a graph cannot wait for an answer.
	Off
)

// Keys names channels: one whose value stands for itself, or several that make
// a map.
type Keys struct {
	Names  []string
	Single bool
}

// One is the Keys of a single channel.
func One(name string) Keys { return Keys{Names: []string{name}, Single: true} }

// Many is the Keys of a map of channels.
func Many(names ...string) Keys { return Keys{Names: names} }

func (k Keys) has(name string) bool { return slices.Contains(k.Names, name) }

// String is for error texts.
func (k Keys) String() string {
	if k.Single && len(k.Names) == 1 {
		return k.Names[0]
	}
	return fmt.Sprint(k.Names)
}

func commandOf(v any) (Command, bool) { return valueOf[Command](v) }

// valueOf is v as a T: v itself, or what it points to.
func valueOf[T any](v any) (x T, ok bool) {
	if p, isPointer := v.(*T); isPointer && p != nil {
		return *p, true
	}
	x, ok = v.(T)
	return x, ok
}

func sendOf(v any) (Send, bool) { return valueOf[Send](v) }

// anys is list as a []any, as it is stored.
func anys[T any](list []T) []any {
	out := make([]any, len(list))
	for i, x := range list {
		out[i] = x
	}
	return out
}
