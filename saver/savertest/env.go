package savertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/stele-go/stele/saver"
)

// env is the environment of a case: one saver and helpers that fail the case.
type env struct {
	TB
	s   saver.Saver
	ctx context.Context
}

// step describes a checkpoint for env.put.
type step struct {
	thread string // "" is "t"
	ns     string
	id     string // "" is not allowed; see id
	parent string
	v      int            // 0 is 4
	values map[string]any // Go values
	vers   map[string]any // a version each; nil gives every value version 1
	fresh  []string       // the channels in newVersions; nil is all of vers
	md     saver.Metadata // nil is source loop, step 0
	note   *saver.Note
}

// id is the n-th checkpoint id: UUIDv6 as LangGraph makes them, growing with n.
func id(n int) string { return fmt.Sprintf("1f0f5200-24f1-%04x-8000-bde4e02ab92b", 0x6000+n) }

// head names the newest checkpoint of thread t in the root namespace.
var head = saver.Config{ThreadID: "t"}

// at names checkpoint n of thread t.
func at(n int) saver.Config { return saver.Config{ThreadID: "t", CheckpointID: id(n)} }

// request turns st into the arguments of Put.
func (e *env) request(st step) saver.PutRequest {
	e.Helper()
	if st.thread == "" {
		st.thread = "t"
	}
	if st.v == 0 {
		st.v = 4
	}
	if st.md == nil {
		st.md = saver.Metadata{"source": "loop", "step": 0, "parents": map[string]any{}}
	}
	if st.vers == nil {
		st.vers = map[string]any{}
		for channel := range st.values {
			st.vers[channel] = 1
		}
	}
	cp := saver.Checkpoint{
		V: st.v, ID: st.id, TS: "2026-01-02T03:04:05.000006+00:00",
		Values: map[string]saver.Value{}, Versions: map[string]saver.Version{}, Seen: map[string]map[string]saver.Version{},
	}
	for channel, v := range st.values {
		cp.Values[channel] = saver.ValueOf(v)
	}
	for channel, v := range st.vers {
		cp.Versions[channel] = e.version(v)
	}
	fresh := map[string]saver.Version{}
	for channel, v := range cp.Versions {
		if st.fresh == nil || slices.Contains(st.fresh, channel) {
			fresh[channel] = v
		}
	}
	cfg := saver.Config{ThreadID: st.thread, Namespace: st.ns, CheckpointID: st.parent}
	return saver.PutRequest{Config: cfg, Checkpoint: cp, Metadata: st.md, NewVersions: fresh, Note: st.note}
}

func (e *env) version(v any) saver.Version {
	e.Helper()
	ver, err := saver.VersionOf(v)
	if err != nil {
		e.Fatalf("version %v: %v", v, err)
	}
	return ver
}

// put stores the checkpoint st describes.
func (e *env) put(st step) saver.Config {
	e.Helper()
	cfg, err := e.tryPut(st)
	if err != nil {
		e.Fatalf("put %s: %v", st.id, err)
	}
	return cfg
}

func (e *env) tryPut(st step) (saver.Config, error) {
	e.Helper()
	req := e.request(st)
	if req.Note != nil {
		return e.s.PutRequest(e.ctx, req)
	}
	return e.s.Put(e.ctx, req.Config, req.Checkpoint, req.Metadata, req.NewVersions)
}

// chain puts checkpoints from, …, to of thread t, each upon the one before,
// without values, and with their number as the step.
func (e *env) chain(from, to int) {
	e.Helper()
	for n := from; n <= to; n++ {
		st := step{id: id(n), md: saver.Metadata{"source": "loop", "step": n}}
		if n > from {
			st.parent = id(n - 1)
		}
		e.put(st)
	}
}

// write stores the values of pairs, each channel and value, under task.
func (e *env) write(cfg saver.Config, task string, pairs ...any) {
	e.Helper()
	if err := e.s.PutWrites(e.ctx, cfg, writes(pairs...), task, ""); err != nil {
		e.Fatalf("put writes of %s: %v", task, err)
	}
}

func writes(pairs ...any) []saver.Write {
	ws := make([]saver.Write, 0, len(pairs)/2)
	for i := 0; i+1 < len(pairs); i += 2 {
		ws = append(ws, saver.Write{Channel: pairs[i].(string), Value: saver.ValueOf(pairs[i+1])})
	}
	return ws
}

func (e *env) get(cfg saver.Config) *saver.Tuple {
	e.Helper()
	tup, err := e.s.GetTuple(e.ctx, cfg)
	if err != nil {
		e.Fatalf("get %+v: %v", cfg, err)
	}
	return tup
}

// gone checks that there is no such checkpoint.
func (e *env) gone(cfg saver.Config) {
	e.Helper()
	tup, err := e.s.GetTuple(e.ctx, cfg)
	if !errors.Is(err, saver.ErrNotFound) {
		e.Fatalf("get %+v: got %+v, %v; want ErrNotFound", cfg, tup, err)
	}
}

func (e *env) list(q saver.Query) []*saver.Tuple {
	e.Helper()
	var all []*saver.Tuple
	for tup, err := range e.s.List(e.ctx, q) {
		if err != nil {
			e.Fatalf("list %+v: %v", q, err)
		}
		all = append(all, tup)
	}
	return all
}

// listed checks the ids a listing gives, in order.
func (e *env) listed(q saver.Query, want ...int) {
	e.Helper()
	got, wanted := []string{}, []string{}
	for _, tup := range e.list(q) {
		got = append(got, tup.Config.CheckpointID)
	}
	for _, n := range want {
		wanted = append(wanted, id(n))
	}
	if !slices.Equal(got, wanted) {
		e.Fatalf("list %+v:\n got %v\nwant %v", q, got, wanted)
	}
}

// values checks that the tuple has exactly these values.
func (e *env) values(tup *saver.Tuple, want map[string]any) {
	e.Helper()
	got := map[string]any{}
	for channel, v := range tup.Checkpoint.Values {
		got[channel] = e.any(v)
	}
	e.equal("values of "+tup.Config.CheckpointID, got, want)
}

func (e *env) any(v saver.Value) any {
	e.Helper()
	x, err := v.Any()
	if err != nil {
		e.Fatalf("decode value: %v", err)
	}
	return x
}

// pending checks the pending writes: task, channel and value of each, in order.
func (e *env) pending(tup *saver.Tuple, want ...any) {
	e.Helper()
	got := []any{}
	for _, w := range tup.PendingWrites {
		got = append(got, w.TaskID, w.Channel, e.any(w.Value))
	}
	e.equal("pending writes of "+tup.Config.CheckpointID, got, append([]any{}, want...))
}

// equal compares plain data; integers of all Go types are alike, and values of
// anything else must be deeply equal.
func (e *env) equal(what string, got, want any) {
	e.Helper()
	if g, w := plain(got), plain(want); !reflect.DeepEqual(g, w) {
		e.Fatalf("%s:\n got %#v\nwant %#v", what, g, w)
	}
}

// plain is v with its Metadata, wherever it lies, as maps.
func plain(v any) any {
	switch x := v.(type) {
	case saver.Metadata:
		return plain(map[string]any(x))
	case map[string]any:
		out := make(map[string]any, len(x))
		for k, v := range x {
			out[k] = plain(v)
		}
		return out
	case []any:
		out := make([]any, len(x))
		for i, v := range x {
			out[i] = plain(v)
		}
		return out
	case int:
		return int64(x)
	}
	return v
}

// fails checks that err matches every target.
func (e *env) fails(what string, err error, targets ...error) {
	e.Helper()
	for _, target := range targets {
		if !errors.Is(err, target) {
			e.Fatalf("%s: got error %v, want %q", what, err, target)
		}
	}
}

func (e *env) ok(what string, err error) {
	e.Helper()
	if err != nil {
		e.Fatalf("%s: %v", what, err)
	}
}

// dump returns the content of the saver as text: every tuple of every thread with the bytes of its
// values and writes, and the list of threads. Writes without a checkpoint show only in the latter.
func (e *env) dump() string {
	e.Helper()
	var b bytes.Buffer
	for _, tup := range e.list(saver.Query{}) {
		cp := tup.Checkpoint
		values := cp.Values
		cp.Values = nil
		fmt.Fprintf(&b, "%+v\n  %+v\n  %v parent %+v\n", tup.Config, cp, plain(tup.Metadata), tup.Parent)
		for _, channel := range slices.Sorted(maps.Keys(values)) {
			typed, err := values[channel].Typed()
			fmt.Fprintf(&b, "  %s = %s %x %v\n", channel, typed.Kind, typed.Data, err)
		}
		for _, w := range tup.PendingWrites {
			typed, err := w.Value.Typed()
			fmt.Fprintf(&b, "  %q %s[%d] %s = %s %x %v\n", w.TaskPath, w.TaskID, w.Index, w.Channel, typed.Kind, typed.Data, err)
		}
	}
	for info, err := range e.s.Threads(e.ctx, saver.ThreadQuery{}) {
		fmt.Fprintf(&b, "thread %+v %v\n", info, err)
	}
	return b.String()
}

// unchanged runs a call that must write nothing.
func (e *env) unchanged(what string, call func()) {
	e.Helper()
	before := e.dump()
	call()
	if after := e.dump(); after != before {
		e.Fatalf("%s wrote something:\nbefore\n%safter\n%s", what, before, after)
	}
}
