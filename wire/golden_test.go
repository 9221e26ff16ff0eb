package wire

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/serde"
	"github.com/stele-go/stele/store"
)

var update = flag.Bool("update", false, "write testdata/messages.txt anew")

// codec decodes a body and encodes what it decoded.
type codec func(b []byte) ([]byte, error)

// params is the codec of the parameters of a method.
func params[T any](method string) codec {
	return func(b []byte) ([]byte, error) {
		m, err := DecodeParams[T](method, b)
		if err != nil {
			return nil, err
		}
		return Encode(&m)
	}
}

// answer is the codec of an answer, or of a notification.
func answer[T any]() codec {
	return func(b []byte) ([]byte, error) {
		m, err := Decode[T](b)
		if err != nil {
			return nil, err
		}
		return Encode(&m)
	}
}

// requests decode parameters, by method.
func requests() map[string]codec {
	out := map[string]codec{
		"hello": params[Hello]("hello"), "put": params[Put]("put"), "put_writes": params[PutWrites]("put_writes"), "list": params[saver.Query]("list"),
		"threads": params[saver.ThreadQuery]("threads"), "retain": params[Retain]("retain"), "store_batch": params[Batch]("store_batch"),
		"items": answer[Items](), "more": answer[Control](), "cancel": answer[Control](), "lost": answer[Control](),
	}
	for method := range methodFields {
		out[method] = params[Threads](method)
	}
	for _, method := range []string{"get", "delta_history", "count_attempt"} {
		out[method] = params[At](method)
	}
	delete(out, "store_sweep") // as sweep
	return out
}

// goldenOps are the operations of the batch in the goldens; its answer depends on them.
var goldenOps = []store.Op{
	store.GetOp{Namespace: store.Namespace{"a", "b"}, Key: "k", NoRefresh: true},
	store.PutOp{Namespace: store.Namespace{"a"}, Key: "k", Value: map[string]any{"x": int64(1)}, TTL: 90 * time.Second, IndexFields: []string{"x"}},
	store.PutOp{Namespace: store.Namespace{"a"}, Key: "gone"},
	store.PutOp{Namespace: store.Namespace{"a"}, Key: "k", Value: map[string]any{}, TTL: -1, NoIndex: true},
	store.Query{Prefix: store.Namespace{"a"}, Filter: map[string]any{"x": int64(1)}, Limit: 5, Offset: 1, Text: "near", ByKey: true},
	store.Query{Vector: []float32{0.5, 1}},
	store.NamespaceQuery{Match: []store.Match{{Kind: store.MatchPrefix, Path: store.Namespace{"a", "*"}}}, MaxDepth: 2, Limit: 3, Offset: 1},
}

// answers decode results, by method.
func answers() map[string]codec {
	// A put, a tuple and an item go through what the saver and the store have, too.
	put := func(b []byte) ([]byte, error) {
		a, err := Decode[PutAnswer](b)
		if err != nil {
			return nil, err
		}
		cfg := a.Config()
		return Encode(PutAnswer{Thread: cfg.ThreadID, NS: cfg.Namespace, ID: cfg.CheckpointID})
	}
	tuple := func(b []byte) ([]byte, error) {
		t, err := Decode[Tuple](b)
		if err != nil {
			return nil, err
		}
		return Encode(TupleOf(t.Saver()))
	}
	batch := func(b []byte) ([]byte, error) {
		results, err := DecodeResults(b, goldenOps)
		if err != nil {
			return nil, err
		}
		return EncodeResults(goldenOps, results)
	}
	return map[string]codec{
		"hello": answer[Welcome](), "put": put, "get": answer[Got](), "list item": tuple, "list": answer[Counted](), "prune": answer[saver.Removal](),
		"retain": answer[saver.RetentionReport](), "threads item": answer[saver.ThreadInfo](), "delta_history": answer[map[string]saver.DeltaHistory](),
		"own": answer[Owned](), "stats": answer[map[string]int64](), "store_batch": batch, "store_scan item": answer[store.Found](),
	}
}

// messages are the goldens: "request METHOD", "answer METHOD" and "message KIND".
func messages(t testing.TB) map[string][]byte {
	t.Helper()
	body := func(m any) []byte {
		t.Helper()
		b, err := Encode(m)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	name := &Call{Client: [ClientSize]byte{15: 1}, Slot: 2, Number: 300}
	typed := func(kind, data string) saver.Value {
		return saver.ValueTyped(serde.Typed{Kind: kind, Data: []byte(data)})
	}
	versions := map[string]saver.Version{"float": saver.FloatVersion(1.5), "int": saver.IntVersion(7), "none": {}, "text": saver.StringVersion("0001.5"), "raw\xff": saver.IntVersion(-1)}
	cp := saver.Checkpoint{V: 4, ID: "2", TS: "2026-01-02T03:04:05+00:00", Values: map[string]saver.Value{"int": typed("msgpack", "\x01"), "text": typed("null", "")}, Versions: versions, Seen: map[string]map[string]saver.Version{"node": {"int": saver.IntVersion(7)}}, Updated: []string{"int"}}
	note := &saver.Note{Graph: "g", Next: []string{"n"}, Stop: saver.StopBreakpoint, Deltas: []string{"d"}}
	cfg := saver.Config{ThreadID: "t", Namespace: "ns", CheckpointID: "1"}
	full := cfg
	full.ExpectHead, full.Epoch, full.Metadata, full.Configurable = saver.Head(""), 9, map[string]any{"a": int64(1)}, map[string]any{"b": true}
	from := cfg.At("0")
	put := PutOf(saver.PutRequest{Config: full, Checkpoint: cp, Metadata: saver.Metadata{"source": "loop"}, NewVersions: map[string]saver.Version{"int": saver.IntVersion(7), "text": saver.StringVersion("0001.5")}, ValuesFrom: &from, Note: note,
		Writes: []saver.TaskWrites{{CheckpointID: "1", TaskID: "task", TaskPath: "p", Writes: []saver.Write{{Channel: "c", Value: typed("bytes", "x")}}}}})
	put.DeferSync, put.Call = true, name
	again := *name
	again.Again = true
	writes := PutWrites{Config: cfg, Task: "task", Path: "~p", Writes: []saver.Write{{Channel: "c", Value: typed("bytes", "x")}}}
	writes.Config.Epoch, writes.Call = 9, &again
	list := saver.Query{ThreadID: "t", Namespace: saver.InNamespace(""), CheckpointID: "1", Before: "9", Filter: map[string]any{"step": int64(1)}, Limit: saver.NoResults}
	found := saver.ThreadQuery{ThreadID: "pt", Prefix: "p", UpdatedSince: time.UnixMicro(1).UTC(), Status: saver.StatusDone, Limit: 3, Metadata: map[string]any{"a": nil}}
	retain := Retain{Policy: saver.RetentionPolicy{ThreadIDs: []string{}, KeepLast: 1, MaxAge: 1500 * time.Millisecond, ThreadBytes: 2, StoreBytes: 3, CutAnyway: true}, DryRun: true}
	batch := Batch{Ops: goldenOps}
	parent := cfg.At("0")
	tuple := &saver.Tuple{Config: cfg, Checkpoint: cp, Metadata: saver.Metadata{"step": int64(1)}, Parent: &parent, Note: note,
		PendingWrites: []saver.PendingWrite{{TaskID: "task", Channel: "c", Value: typed("bytes", "x"), TaskPath: "p", Index: -1}}}
	kept := saver.KeptList{Kept: []saver.Kept{{ThreadID: "t", Namespace: "ns", CheckpointID: "1", For: "2", Channel: "d", Reason: saver.KeptForDelta}}, KeptTotal: 1}
	removal := saver.Removal{Checkpoints: 1, Writes: 2, KeptList: kept}
	report := saver.RetentionReport{Threads: 1, Checkpoints: 2, Writes: 3, Bytes: 4, Left: 5, Over: []string{"t"}, KeptList: kept, StoreOver: true}
	info := saver.ThreadInfo{ThreadID: "t", Head: "1", UpdatedAt: time.UnixMicro(1).UTC(), Status: saver.StatusWaiting, Graph: "g", Next: []string{"n"}}
	item := store.Item{Namespace: store.Namespace{"a"}, Key: "k", Value: map[string]any{"x": int64(1)}, CreatedAt: time.UnixMicro(1).UTC(), UpdatedAt: time.UnixMicro(2).UTC()}
	results := []store.Result{{Item: &item}, {}, {}, {}, {Found: []store.Found{{Item: item, Score: 0.5, Scored: true}}}, {}, {Namespaces: []store.Namespace{{"a", "b"}}}}
	hello := Hello{Protocol: 1, Client: "test/1", Token: "secret", InTurn: true}
	welcome := Welcome{Protocol: 1, Server: "v1", Store: "disk", Methods: []string{"get", "put"}, MaxFrame: 1 << 27, MaxCalls: 256, MaxValue: 1 << 26, CallSlots: 256}
	owned := Owned{Lease: 1, Epoch: 1 << 50}
	answered, err := EncodeResults(goldenOps, results)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]byte{
		"request hello": body(hello), "request put": body(&put), "request put_writes": body(writes),
		"request list": body(list), "request threads": body(found), "request retain": body(&retain), "request store_batch": body(&batch),
		"answer hello": body(welcome), "answer put": body(PutAnswer{Thread: cfg.ThreadID, NS: cfg.Namespace, ID: cfg.CheckpointID}), "answer get": body(Got{TupleOf(tuple)}), "answer get none": body(Got{}),
		"answer list item": body(TupleOf(&saver.Tuple{Config: cfg})), "answer list": body(Counted{3}), "answer prune": body(removal), "answer retain": body(report),
		"answer threads item": body(info), "answer own": body(owned), "answer stats": body(map[string]int64{"commits": 7}),
		"answer delta_history": body(map[string]saver.DeltaHistory{"d": {Writes: tuple.PendingWrites, Seed: typed("null", "")}, "empty": {}}),
		"answer store_batch":   answered, "answer store_scan item": body(&results[4].Found[0]),
	}
	items := Items{Call: 7, Items: []Raw{out["answer threads item"]}}
	out["request items"] = body(items)
	for notification, n := range map[string]Control{"more": {Call: 7, Batches: 2}, "cancel": {Call: 7}, "lost": {Lease: 3}} {
		out["request "+notification] = body(n)
	}
	for _, method := range []string{"get", "delta_history", "count_attempt"} {
		p := At{Config: cfg}
		switch method {
		case "delta_history":
			p.Channels = []string{"d"}
		case "count_attempt":
			p.Config.Epoch, p.Call = 9, name
		}
		out["request "+method] = body(&p)
	}
	whole := Threads{Thread: "t", To: "u", Threads: []string{"t"}, Runs: []string{"r"}, Strategy: saver.KeepLatest, TTL: time.Minute, Wait: true, Lease: 3, Epoch: 9}
	for method, fields := range methodFields {
		if out["request "+method] != nil || method == "store_sweep" {
			continue // it has At, or is as sweep
		}
		p := Threads{}
		for field, set := range map[string]func(){
			"thread": func() { p.Thread = whole.Thread }, "to": func() { p.To = whole.To }, "threads": func() { p.Threads = whole.Threads }, "runs": func() { p.Runs = whole.Runs },
			"strategy": func() { p.Strategy = whole.Strategy }, "ttl": func() { p.TTL = whole.TTL }, "wait": func() { p.Wait = true }, "lease": func() { p.Lease = whole.Lease }, "epoch": func() { p.Epoch = whole.Epoch },
		} {
			if slices.Contains(fields, field) {
				set()
			}
		}
		out["request "+method] = body(&p)
	}
	for kind, m := range map[string]Message{
		"request": {Kind: Request, ID: 7, Method: "get", Body: out["request get"]}, "response": {Kind: Response, ID: 7, Body: out["answer put"]},
		"response of nothing": {Kind: Response, ID: math.MaxUint32}, "notification": {Kind: Notification, Method: "cancel", Body: out["request cancel"]},
		"error": {Kind: Response, ID: 7, Err: ErrorOf(&saver.ConflictError{ThreadID: "t", Namespace: "ns", Head: "1"})},
	} {
		out["message "+kind] = m.AppendTo(nil)
	}
	return out
}

// TestGolden: the bytes of every message do not change, and what is decoded of them is
// encoded to the same bytes.
func TestGolden(t *testing.T) {
	const file = "testdata/messages.txt"
	made := messages(t)
	if *update {
		var text strings.Builder
		for _, name := range slices.Sorted(maps.Keys(made)) {
			text.WriteString(name + ": " + hex.EncodeToString(made[name]) + "\n")
		}
		if err := os.WriteFile(file, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	golden := map[string][]byte{}
	for line := range strings.Lines(string(text)) {
		name, digits, _ := strings.Cut(strings.TrimSpace(line), ": ")
		b, err := hex.DecodeString(digits)
		if err != nil {
			t.Fatal(err)
		}
		golden[name] = b
	}
	if len(golden) != len(made) {
		t.Errorf("%d goldens, %d messages; run with -update", len(golden), len(made))
	}
	for name, b := range made {
		if !bytes.Equal(b, golden[name]) {
			t.Errorf("%s: %x, want %x", name, b, golden[name])
		}
		kind, method, _ := strings.Cut(name, " ")
		method = strings.TrimSuffix(method, " none")
		again := map[string]codec{"request": requests()[method], "answer": answers()[method], "message": message}[kind]
		if got, err := again(b); err != nil || !bytes.Equal(got, b) {
			t.Errorf("%s comes back as %x, %v, want %x", name, got, err, b)
		}
	}
	for method := range requests() {
		if made["request "+method] == nil {
			t.Errorf("no golden of the parameters of %s", method)
		}
	}
	for method := range answers() {
		if made["answer "+method] == nil {
			t.Errorf("no golden of the answer of %s", method)
		}
	}
}

func message(b []byte) ([]byte, error) {
	m, err := DecodeMessage(b)
	if err != nil {
		return nil, err
	}
	return m.AppendTo(nil), nil
}

// TestErrors: every error of a store is the same at the other end, as errors.Is and errors.As
// see it.
func TestErrors(t *testing.T) {
	for _, err := range []error{
		&saver.InvalidError{Field: "f", Reason: "r"}, saver.ErrInvalid, saver.ErrNotFound, &saver.ConflictError{ThreadID: "t", Namespace: "n", Expected: "1", Head: "2"},
		&saver.OwnedError{ThreadID: "t"}, &saver.FencedError{ThreadID: "t", Epoch: 3}, saver.ErrThreadDeleted, saver.ErrThreadExists, saver.ErrTooLarge,
		&saver.BudgetError{ThreadID: "t", Budget: 1, Least: 2}, fault.ErrDiskFull, saver.ErrReadOnly, saver.ErrOutcomeUnknown,
		&fault.CorruptionError{File: "f", Kind: "k", Offset: -1, Detail: "d"}, saver.ErrEraseUnfinished, saver.ErrAncestorCycle,
	} {
		sent := Message{Kind: Response, Err: ErrorOf(errors.Join(errors.New("doing"), err))}
		m, derr := DecodeMessage(sent.AppendTo(nil))
		if derr != nil {
			t.Fatal(derr)
		}
		if m.Err.Code == CodeInternal {
			t.Errorf("%v has no code", err)
		}
		is := errors.Is(m.Err, err)
		switch want := err.(type) {
		case *saver.InvalidError:
			var got *saver.InvalidError
			is = errors.As(m.Err, &got) && *got == *want && errors.Is(m.Err, saver.ErrInvalid)
		case *saver.ConflictError:
			var got *saver.ConflictError
			is = errors.As(m.Err, &got) && *got == *want
		case *saver.OwnedError:
			var got *saver.OwnedError
			is = errors.As(m.Err, &got) && *got == *want
		case *saver.FencedError:
			var got *saver.FencedError
			is = errors.As(m.Err, &got) && *got == *want
		case *saver.BudgetError:
			var got *saver.BudgetError
			is = errors.As(m.Err, &got) && *got == *want
		case *fault.CorruptionError:
			var got *fault.CorruptionError
			is = errors.As(m.Err, &got) && got.File == want.File && got.Offset == want.Offset
		}
		if !is {
			t.Errorf("%v is %v at the other end", err, m.Err)
		}
	}
	for err, code := range map[error]Code{fault.ErrPoisoned: CodeUnavailable, fault.ErrLockLost: CodeUnavailable, fault.ErrClosed: CodeClosing, io.EOF: CodeInternal} {
		if got := ErrorOf(err).Code; got != code {
			t.Errorf("%v is %s, want %s", err, got, code)
		}
	}
}

// TestMalformed: what is nearly a message is refused.
func TestMalformed(t *testing.T) {
	for name, b := range map[string][]byte{
		"again without call": {0x81, 0xa5, 'a', 'g', 'a', 'i', 'n', 0xc3}, "unknown field": {0x81, 0xa1, 'x', 0x01}, "a field twice the map": {0x80, 0x80},
		"no text": {0x81, 0xa6, 't', 'h', 'r', 'e', 'a', 'd', 0xa1, 0xff}, "a long map": {0xdf, 0xff, 0xff, 0xff, 0xff}, "": {},
	} {
		if _, err := DecodeParams[Threads]("delete_thread", b); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	deep := bytes.Repeat([]byte{0x91}, 100_000)
	if _, err := DecodeMessage(append([]byte{0x93, 0x02, 0xa1, 'x', 0x91, 0x81, 0xa1, 'x'}, deep...)); !errors.Is(err, ErrMalformed) {
		t.Errorf("nested lists: %v", err)
	}
}

// FuzzFrame: a stream of frames is read or refused, and takes no more memory than it has.
func FuzzFrame(f *testing.F) {
	f.Add([]byte{0, 0, 0, 1, 0xc0, 0, 0, 0, 2, 1, 2})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		r, left := bytes.NewReader(b), len(b)
		for {
			body, err := ReadFrame(r, 1<<16)
			if err != nil {
				return
			}
			again, err := AppendFrame(nil, 1<<16, func(b []byte) []byte { return append(b, body...) })
			if at := len(b) - left; err != nil || !bytes.Equal(again, b[at:at+len(again)]) {
				t.Fatalf("frame %x comes back as %x, %v", body, again, err)
			}
			left -= len(again)
		}
	})
}

// FuzzMessage: a body is a message that comes back, or is refused.
func FuzzMessage(f *testing.F) {
	for name, b := range messages(f) {
		if strings.HasPrefix(name, "message ") {
			f.Add(b)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) { settles(t, "message", message, b) })
}

// settles wants what was decoded and encoded once to stay as it is.
func settles(t *testing.T, name string, c codec, b []byte) {
	t.Helper()
	once, err := c(b)
	if err != nil {
		return
	}
	if twice, err := c(once); err != nil || !bytes.Equal(once, twice) {
		t.Fatalf("%s %x becomes %x, then %x, %v", name, b, once, twice, err)
	}
}

// FuzzRequest: every decoder of parameters takes any input.
func FuzzRequest(f *testing.F) { fuzzAll(f, "request ", requests()) }

// FuzzAnswer: every decoder of answers takes any input.
func FuzzAnswer(f *testing.F) { fuzzAll(f, "answer ", answers()) }

func fuzzAll(f *testing.F, prefix string, all map[string]codec) {
	for name, b := range messages(f) {
		if strings.HasPrefix(name, prefix) {
			f.Add(b)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for name, c := range all {
			settles(t, name, c, b)
		}
	})
}

// TestProve: all clients make the proofs that the server wants. The clients in Python and JavaScript have
// tests with the same texts.
func TestProve(t *testing.T) {
	for side, want := range map[string]string{
		ProvesClient: "07d624356bada1dfb1028eb91382e56e2c6a8e680a56e6d31850d6508cad21f4",
		ProvesServer: "f13e10306447850ff810ac22b9dfba58a2cbd0a00cc27feff7aeb68524059af8",
	} {
		if got := Prove("token", side, "127.0.0.1:1234", "challenge"); got != want {
			t.Errorf("%s: %s", side, got)
		}
	}
}
