package savertest

import (
	"context"
	"errors"
	"io"
	"math"
	"strings"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/serde"
)

// refusesList checks that a query is an InvalidError, yielded once and last.
func (e *env) refusesList(q saver.Query) {
	e.Helper()
	e.fails("list", e.listError(e.ctx, q), saver.ErrInvalid)
}

// listError is the error of a listing that must fail at once.
func (e *env) listError(ctx context.Context, q saver.Query) error {
	e.Helper()
	var got error
	n := 0
	for tup, err := range e.s.List(ctx, q) {
		n++
		if tup != nil || err == nil || n > 1 {
			e.Fatalf("list %+v yields %+v, %v as number %d; want an error alone", q, tup, err, n)
		}
		got = err
	}
	if got == nil {
		e.Fatalf("list %+v yields nothing; want an error", q)
	}
	return got
}

const (
	longName = 1<<10 + 1 // a byte more than a name may have
	longNS   = 2<<10 + 1
	tooBig   = 64<<20 + 1
)

// badPut changes a good request into one that must be refused.
type badPut struct {
	name   string
	change func(req *saver.PutRequest)
	want   error
}

func badPuts() []badPut {
	long := strings.Repeat("x", longName)
	return []badPut{
		{"no thread", func(r *saver.PutRequest) { r.Config.ThreadID = "" }, saver.ErrInvalid},
		{"no checkpoint id", func(r *saver.PutRequest) { r.Checkpoint.ID = "" }, saver.ErrInvalid},
		{"its own parent", func(r *saver.PutRequest) { r.Config.CheckpointID = r.Checkpoint.ID }, saver.ErrInvalid},
		{"null new version", func(r *saver.PutRequest) { r.NewVersions["a"] = saver.Version{} }, saver.ErrInvalid},
		{"new version of no channel", func(r *saver.PutRequest) { r.NewVersions["b"] = saver.IntVersion(1) }, saver.ErrInvalid},
		{"another new version", func(r *saver.PutRequest) { r.NewVersions["a"] = saver.IntVersion(2) }, saver.ErrInvalid},
		{"a version without order", func(r *saver.PutRequest) { r.Checkpoint.Versions["n"] = saver.FloatVersion(math.NaN()) }, saver.ErrInvalid},
		{"a seen version without order", func(r *saver.PutRequest) {
			r.Checkpoint.Seen["n"] = map[string]saver.Version{"a": saver.FloatVersion(math.NaN())}
		}, saver.ErrInvalid},
		{"typed bytes without kind", func(r *saver.PutRequest) { r.Checkpoint.Values["a"] = saver.ValueTyped(serde.Typed{}) }, saver.ErrInvalid},
		{"long thread", func(r *saver.PutRequest) { r.Config.ThreadID = long }, saver.ErrTooLarge},
		{"long namespace", func(r *saver.PutRequest) { r.Config.Namespace = strings.Repeat("x", longNS) }, saver.ErrTooLarge},
		{"long parent", func(r *saver.PutRequest) { r.Config.CheckpointID = long }, saver.ErrTooLarge},
		{"long checkpoint id", func(r *saver.PutRequest) { r.Checkpoint.ID = long }, saver.ErrTooLarge},
		{"long channel", func(r *saver.PutRequest) { r.Checkpoint.Versions[long] = saver.IntVersion(1) }, saver.ErrTooLarge},
		{"long version", func(r *saver.PutRequest) { r.Checkpoint.Versions["v"] = saver.StringVersion(long) }, saver.ErrTooLarge},
		{"large value", func(r *saver.PutRequest) {
			r.Checkpoint.Values["a"] = saver.ValueTyped(serde.Typed{Kind: serde.KindBytes, Data: make([]byte, tooBig)})
		}, saver.ErrTooLarge},
		{"many large values", func(r *saver.PutRequest) {
			v := saver.ValueTyped(serde.Typed{Kind: serde.KindBytes, Data: make([]byte, tooBig-1)})
			for _, channel := range []string{"a", "b", "c", "d", "e"} {
				r.Checkpoint.Values[channel], r.Checkpoint.Versions[channel], r.NewVersions[channel] = v, saver.IntVersion(1), saver.IntVersion(1)
			}
		}, saver.ErrTooLarge},
	}
}

// badWrite is a call of PutWrites that must be refused.
type badWrite struct {
	name   string
	cfg    saver.Config
	writes []saver.Write
	task   string
	path   string
	want   error
}

func badWrites() []badWrite {
	long, one := strings.Repeat("x", longName), writes("ch", 1)
	return []badWrite{
		{"no thread", saver.Config{CheckpointID: id(1)}, one, "task", "", saver.ErrInvalid},
		{"no checkpoint id", head, one, "task", "", saver.ErrInvalid},
		{"no task", at(1), one, "", "", saver.ErrInvalid},
		{"no value", at(1), append(writes("ok", 1), saver.Write{Channel: "ch"}), "task", "", saver.ErrInvalid},
		{"typed bytes without kind", at(1), writes("ch", serde.Typed{}), "task", "", saver.ErrInvalid},
		{"long task", at(1), one, long, "", saver.ErrTooLarge},
		{"long path", at(1), one, "task", strings.Repeat("x", 8<<10+1), saver.ErrTooLarge},
		{"long channel", at(1), writes("ok", 1, long, 1), "task", "", saver.ErrTooLarge},
		{"large value", at(1), writes("ok", 1, "ch", serde.Typed{Kind: serde.KindBytes, Data: make([]byte, tooBig)}), "task", "", saver.ErrTooLarge},
		{"many writes", at(1), make([]saver.Write, 1<<16-1), "task", "", saver.ErrTooLarge},
	}
}

var badInputCases = []testCase{
	{id: "bad input", name: "put", fn: func(e *env) {
		e.chain(1, 1)
		e.unchanged("bad input", func() {
			for _, bad := range badPuts() {
				req := e.request(step{id: id(2), parent: id(1), values: map[string]any{"a": 1}})
				bad.change(&req)
				cfg, err := e.s.Put(e.ctx, req.Config, req.Checkpoint, req.Metadata, req.NewVersions)
				e.fails(bad.name, err, bad.want)
				e.equal(bad.name, cfg, saver.Config{})
			}
		})
	}},
	{id: "bad input", name: "put what cannot be serialized", fn: func(e *env) {
		e.chain(1, 1)
		e.unchanged("bad input", func() {
			var enc *serde.EncodeError
			_, err := e.tryPut(step{id: id(2), values: map[string]any{"good": 1, "bad": map[string]any{"f": func() {}}}})
			if !errors.As(err, &enc) || !strings.Contains(err.Error(), `"bad"`) {
				e.Fatalf("put: got %v, want an EncodeError that names the channel", err)
			}
			_, err = e.tryPut(step{id: id(2), md: saver.Metadata{"bad": make(chan int)}})
			if !errors.As(err, &enc) || !strings.Contains(err.Error(), "metadata") {
				e.Fatalf("put: got %v, want an EncodeError that names the metadata", err)
			}
			err = e.s.PutWrites(e.ctx, at(1), writes("good", 1, "bad", func() {}), "task", "")
			if !errors.As(err, &enc) || !strings.Contains(err.Error(), `"bad"`) {
				e.Fatalf("put writes: got %v, want an EncodeError that names the channel", err)
			}
		})
	}},
	{id: "bad input", name: "put writes", fn: func(e *env) {
		e.chain(1, 1)
		e.unchanged("bad input", func() {
			for _, bad := range badWrites() {
				e.fails(bad.name, e.s.PutWrites(e.ctx, bad.cfg, bad.writes, bad.task, bad.path), bad.want)
			}
		})
	}},
	{id: "bad input", name: "get, list, delete", fn: func(e *env) {
		e.chain(1, 1)
		long := strings.Repeat("x", longName)
		_, err := e.s.GetTuple(e.ctx, saver.Config{})
		e.fails("get", err, saver.ErrInvalid)
		_, err = e.s.GetTuple(e.ctx, saver.Config{ThreadID: long})
		e.fails("get", err, saver.ErrTooLarge)
		e.fails("delete", e.s.DeleteThread(e.ctx, ""), saver.ErrInvalid)
		e.refusesList(saver.Query{Limit: -1})
		for _, v := range []any{math.NaN(), struct{}{}, make(chan int), map[int]any{1: 1}, []any{func() {}}, new(int)} {
			e.refusesList(saver.Query{Filter: map[string]any{"k": v}})
		}
		_, err = saver.ConfigFromMap(map[string]any{"thread_id": 1.5})
		e.fails("config", err, saver.ErrInvalid)
		_, err = saver.VersionOf([]int{1})
		e.fails("version", err, saver.ErrInvalid)
	}},
	{id: "bad input", name: "runs, copies, prunes, threads", fn: func(e *env) {
		e.chain(1, 1)
		e.unchanged("bad input", func() {
			e.fails("copy from nowhere", e.s.CopyThread(e.ctx, "", "u"), saver.ErrInvalid)
			e.fails("copy to nowhere", e.s.CopyThread(e.ctx, "t", ""), saver.ErrInvalid)
			_, err := e.s.Prune(e.ctx, []string{"t"}, "keep_oldest")
			e.fails("prune", err, saver.ErrInvalid)
			_, err = e.s.Prune(e.ctx, []string{"t", ""}, saver.PruneAll)
			e.fails("prune", err, saver.ErrInvalid)
			for _, err := range e.s.Threads(e.ctx, saver.ThreadQuery{Limit: -1}) {
				e.fails("threads", err, saver.ErrInvalid)
			}
			_, err = e.s.DeltaChannelHistory(e.ctx, saver.Config{}, []string{"d"})
			e.fails("history", err, saver.ErrInvalid)
		})
	}},
	{id: "cancelled", name: "a cancelled call does nothing", fn: func(e *env) {
		e.chain(1, 1)
		ctx, cancel := context.WithCancel(e.ctx)
		cancel()
		e.unchanged("cancelled calls", func() {
			for what, err := range e.everyCall(ctx) {
				e.fails(what, err, context.Canceled)
			}
		})
	}},
	{id: "cancelled", name: "a listing ends when its context does", fn: func(e *env) {
		e.chain(1, 3)
		ctx, cancel := context.WithCancel(e.ctx)
		defer cancel()
		var got []error
		for _, err := range e.s.List(ctx, saver.Query{ThreadID: "t"}) {
			got = append(got, err)
			cancel()
		}
		if len(got) != 2 || got[0] != nil || !errors.Is(got[1], context.Canceled) {
			e.Fatalf("got %v, want one checkpoint and the context's error", got)
		}
	}},
	{id: "closed", name: "after Close every call says so", needs: PowerCloser, fn: func(e *env) {
		e.chain(1, 1)
		e.ok("close", e.s.(io.Closer).Close())
		for what, err := range e.everyCall(e.ctx) {
			e.fails(what, err, saver.ErrClosed)
		}
		_, err := e.s.Own(e.ctx, "another", false)
		e.fails("own", err, saver.ErrClosed)
		e.ok("close again", e.s.(io.Closer).Close())
	}},
}

// everyCall makes each call of the saver once with ctx, on a thread that has
// checkpoint 1, and returns the errors.
func (e *env) everyCall(ctx context.Context) map[string]error {
	e.Helper()
	errs := map[string]error{}
	req := e.request(step{id: id(2), parent: id(1), values: map[string]any{"a": 1}})
	_, errs["put"] = e.s.Put(ctx, req.Config, req.Checkpoint, req.Metadata, req.NewVersions)
	errs["put writes"] = e.s.PutWrites(ctx, at(1), writes("ch", 1), "task", "")
	_, errs["get"] = e.s.GetTuple(ctx, head)
	errs["list"] = e.listError(ctx, saver.Query{})
	errs["delete"] = e.s.DeleteThread(ctx, "t")
	_, errs["put request"] = e.s.PutRequest(ctx, req)
	_, errs["delete for runs"] = e.s.DeleteForRuns(ctx, []string{"r"}, nil)
	errs["copy"] = e.s.CopyThread(ctx, "t", "u")
	_, errs["prune"] = e.s.Prune(ctx, []string{"t"}, saver.PruneAll)
	_, errs["history"] = e.s.DeltaChannelHistory(ctx, head, []string{"d"})
	for _, err := range e.s.Threads(ctx, saver.ThreadQuery{}) {
		errs["threads"] = err
	}
	errs["sync"] = e.s.Sync(ctx)
	return errs
}
