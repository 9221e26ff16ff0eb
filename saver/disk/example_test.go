package disk_test

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
)

// ctx of the examples; a program passes that of its request.
var ctx = context.Background()

// ok ends an example that cannot go on. A program returns the error.
func ok(err error) {
	if err != nil {
		panic(err)
	}
}

// tempStore opens a store in a directory that done removes.
func tempStore(opts disk.Options) (s *disk.Saver, done func()) {
	dir, err := os.MkdirTemp("", "example")
	ok(err)
	s, err = disk.Open(dir, opts)
	ok(err)
	return s, func() { ok(errors.Join(s.Close(), os.RemoveAll(dir))) }
}

// checkpoint has one channel, n, in its version v.
func checkpoint(id string, v int64, n any) (saver.Checkpoint, map[string]saver.Version) {
	versions := map[string]saver.Version{"n": saver.IntVersion(v)}
	return saver.Checkpoint{V: 4, ID: id, Versions: versions, Values: map[string]saver.Value{"n": saver.ValueOf(n)}}, versions
}

// chain puts checkpoints id-1 to id-n, each upon the last, and returns the last.
func chain(s *disk.Saver, thread string, n int) saver.Config {
	cfg := saver.Config{ThreadID: thread}
	for i := range n {
		cp, versions := checkpoint(fmt.Sprint("id-", i+1), int64(i+1), i+1)
		var err error
		cfg, err = s.Put(ctx, cfg, cp, saver.Metadata{"source": "loop", "step": i}, versions)
		ok(err)
	}
	return cfg
}

func ids(s *disk.Saver, q saver.Query) (ids []string) {
	for tup, err := range s.List(ctx, q) {
		ok(err)
		ids = append(ids, tup.Checkpoint.ID)
	}
	return ids
}

func ExampleOpen() {
	dir, err := os.MkdirTemp("", "example")
	ok(err)
	defer os.RemoveAll(dir)

	s, err := disk.Open(dir, disk.Options{}) // every call durable when it returns
	ok(err)
	chain(s, "alice", 2)
	ok(s.Close())

	s, err = disk.Open(dir, disk.Options{})
	ok(err)
	fmt.Println(ids(s, saver.Query{ThreadID: "alice"}))
	_, err = disk.Open(dir, disk.Options{})
	fmt.Println("a second writer:", errors.Is(err, fault.ErrLocked))
	ok(s.Close())
	// Output:
	// [id-2 id-1]
	// a second writer: true
}

func ExampleOptions_readOnly() {
	dir, err := os.MkdirTemp("", "example")
	ok(err)
	defer os.RemoveAll(dir)
	writer, err := disk.Open(dir, disk.Options{})
	ok(err)
	last := chain(writer, "alice", 1)

	// A reader takes no lock and sees the store as it is when it opens it.
	reader, err := disk.Open(dir, disk.Options{ReadOnly: true})
	ok(err)
	fmt.Println(ids(reader, saver.Query{}))
	err = reader.PutWrites(ctx, last, nil, "task", "")
	fmt.Println("writes are refused:", errors.Is(err, saver.ErrReadOnly))
	ok(reader.Close())
	ok(writer.Close())
	// Output:
	// [id-1]
	// writes are refused: true
}

func ExampleSaver_OpenReport() {
	s, done := tempStore(disk.Options{})
	defer done()
	report := s.OpenReport()
	fmt.Println("created:", report.Created, "torn tail:", report.DroppedBytes, "bytes")
	// Output: created: true torn tail: 0 bytes
}

func ExampleSaver_Put() {
	s, done := tempStore(disk.Options{})
	defer done()

	v1, err := s.NextVersion(saver.Version{}, "messages")
	ok(err)
	cp := saver.Checkpoint{V: 4, ID: "id-1",
		Values:   map[string]saver.Value{"messages": saver.ValueOf([]string{"hello"}), "user": saver.ValueOf("alice")},
		Versions: map[string]saver.Version{"messages": v1, "user": v1}}
	cfg, err := s.Put(ctx, saver.Config{ThreadID: "t"}, cp, saver.Metadata{"source": "input", "step": -1}, cp.Versions)
	ok(err)

	// The next one stores what changed; the user is read from where it was stored.
	v2, err := s.NextVersion(v1, "messages")
	ok(err)
	next := saver.Checkpoint{V: 4, ID: "id-2",
		Values:   map[string]saver.Value{"messages": saver.ValueOf([]string{"hello", "hi"})},
		Versions: map[string]saver.Version{"messages": v2, "user": v1}}
	_, err = s.Put(ctx, cfg, next, saver.Metadata{"source": "loop", "step": 0}, map[string]saver.Version{"messages": v2})
	ok(err)

	tup, err := s.GetTuple(ctx, saver.Config{ThreadID: "t"})
	ok(err)
	user, err := tup.Checkpoint.Values["user"].Any()
	ok(err)
	fmt.Println(tup.Checkpoint.ID, "upon", tup.Parent.CheckpointID, "user", user)
	// Output: id-2 upon id-1 user alice
}

func ExampleSaver_PutWrites() {
	s, done := tempStore(disk.Options{})
	defer done()
	cfg := chain(s, "t", 1)

	// A task that ended is not run again after a crash: its writes are there.
	ok(s.PutWrites(ctx, cfg, []saver.Write{{Channel: "n", Value: saver.ValueOf(5)}}, "task-1", ""))
	ok(s.PutWrites(ctx, cfg, []saver.Write{{Channel: "n", Value: saver.ValueOf(6)}}, "task-1", "")) // the first stays

	tup, err := s.GetTuple(ctx, cfg)
	ok(err)
	for _, w := range tup.PendingWrites {
		n, err := w.Value.Any()
		ok(err)
		fmt.Println(w.TaskID, w.Channel, n)
	}
	// Output: task-1 n 5
}

func ExampleSaver_GetTuple() {
	s, done := tempStore(disk.Options{})
	defer done()
	chain(s, "t", 3)

	latest, err := s.GetTuple(ctx, saver.Config{ThreadID: "t"})
	ok(err)
	var n int
	ok(latest.Checkpoint.Values["n"].Decode(&n)) // values are read when asked for
	fmt.Println(latest.Checkpoint.ID, n, latest.Metadata["step"])

	byID, err := s.GetTuple(ctx, saver.Config{ThreadID: "t", CheckpointID: "id-1"})
	ok(err)
	fmt.Println(byID.Checkpoint.ID)
	_, err = s.GetTuple(ctx, saver.Config{ThreadID: "nobody"})
	fmt.Println(errors.Is(err, saver.ErrNotFound))
	// Output:
	// id-3 3 2
	// id-1
	// true
}

func ExampleSaver_List() {
	s, done := tempStore(disk.Options{})
	defer done()
	chain(s, "t", 5)

	fmt.Println(ids(s, saver.Query{ThreadID: "t", Limit: 2}))
	fmt.Println(ids(s, saver.Query{ThreadID: "t", Before: "id-3"}))
	fmt.Println(ids(s, saver.Query{Filter: map[string]any{"step": 3}}))
	// Output:
	// [id-5 id-4]
	// [id-2 id-1]
	// [id-4]
}

func ExampleSaver_DeleteThread() {
	s, done := tempStore(disk.Options{})
	defer done()
	last := chain(s, "t", 2)

	ok(s.DeleteThread(ctx, "t"))
	fmt.Println(ids(s, saver.Query{ThreadID: "t"}))
	err := s.PutWrites(ctx, last, []saver.Write{{Channel: "n", Value: saver.ValueOf(1)}}, "late task", "")
	fmt.Println("a late task does not bring it back:", errors.Is(err, saver.ErrThreadDeleted))
	// Output:
	// []
	// a late task does not bring it back: true
}

func ExampleSaver_Prune() {
	s, done := tempStore(disk.Options{})
	defer done()
	chain(s, "t", 3)

	removed, err := s.Prune(ctx, []string{"t"}, saver.KeepLatest)
	ok(err)
	fmt.Println(ids(s, saver.Query{ThreadID: "t"}), removed.Checkpoints, "removed")
	// Output: [id-3] 2 removed
}

func ExampleSaver_CopyThread() {
	s, done := tempStore(disk.Options{})
	defer done()
	chain(s, "draft", 2)

	ok(s.CopyThread(ctx, "draft", "copy")) // shares the stored bytes
	ok(s.DeleteThread(ctx, "draft"))
	fmt.Println(ids(s, saver.Query{ThreadID: "copy"}))
	// Output: [id-2 id-1]
}

func ExampleSaver_DeleteForRuns() {
	s, done := tempStore(disk.Options{})
	defer done()
	cp, versions := checkpoint("id-1", 1, "from a run")
	_, err := s.Put(ctx, saver.Config{ThreadID: "t"}, cp, saver.Metadata{"run_id": "run-7"}, versions)
	ok(err)

	removed, err := s.DeleteForRuns(ctx, []string{"run-7", "unknown"}, nil)
	ok(err)
	fmt.Println(ids(s, saver.Query{ThreadID: "t"}))
	for _, k := range removed.Kept {
		fmt.Println(k.CheckpointID, "is still there, as", k.For, "needs it to read", k.Channel)
	}
	// Output: []
}

func ExampleSaver_DeltaChannelHistory() {
	s, done := tempStore(disk.Options{})
	defer done()
	// A delta channel is stored whole now and then; between, only what tasks
	// wrote to it is.
	cp, versions := checkpoint("id-1", 1, []string{"a"})
	cfg, err := s.Put(ctx, saver.Config{ThreadID: "t"}, cp, nil, versions)
	ok(err)
	for i, w := range []string{"b", "c"} {
		ok(s.PutWrites(ctx, cfg, []saver.Write{{Channel: "n", Value: saver.ValueOf(w)}}, "task", ""))
		cp, versions := checkpoint(fmt.Sprint("id-", i+2), int64(i+2), nil)
		delete(cp.Values, "n")
		cfg, err = s.Put(ctx, cfg, cp, nil, versions)
		ok(err)
	}

	history, err := s.DeltaChannelHistory(ctx, cfg, []string{"n"})
	ok(err)
	seed, err := history["n"].Seed.Any()
	ok(err)
	fmt.Print(seed)
	for _, w := range history["n"].Writes {
		v, err := w.Value.Any()
		ok(err)
		fmt.Print(" + ", v)
	}
	fmt.Println()
	// Output: [a] + b + c
}

func ExampleSaver_Threads() {
	s, done := tempStore(disk.Options{})
	defer done()
	chain(s, "user-1/chat", 1)
	asked := chain(s, "user-1/order", 2)
	chain(s, "user-2/chat", 1)
	ok(s.PutWrites(ctx, asked, []saver.Write{{Channel: saver.ChannelInterrupt, Value: saver.ValueOf("approve?")}}, "task", ""))

	for info, err := range s.Threads(ctx, saver.ThreadQuery{Prefix: "user-1/"}) {
		ok(err)
		fmt.Printf("%s %s %q\n", info.ThreadID, info.Head, info.Status)
	}
	// Output:
	// user-1/chat id-1 ""
	// user-1/order id-2 "waiting"
}

func ExampleSaver_PutRequest() {
	s, done := tempStore(disk.Options{})
	defer done()
	first := chain(s, "t", 1)

	// The writes that led to a checkpoint, and the checkpoint, in one step.
	cp, versions := checkpoint("id-2", 2, 7)
	_, err := s.PutRequest(ctx, saver.PutRequest{Config: first, Checkpoint: cp, NewVersions: versions,
		Writes: []saver.TaskWrites{{CheckpointID: "id-1", TaskID: "task-1", Writes: []saver.Write{{Channel: "n", Value: saver.ValueOf(7)}}}}})
	ok(err)
	tup, err := s.GetTuple(ctx, first)
	ok(err)
	fmt.Println(len(tup.PendingWrites), ids(s, saver.Query{ThreadID: "t"}))
	// Output: 1 [id-2 id-1]
}

func ExampleConflictError() {
	s, done := tempStore(disk.Options{})
	defer done()
	head := chain(s, "t", 1)

	// Two writers continue from the same head; one wins.
	for _, id := range []string{"id-2", "id-3"} {
		head.ExpectHead = saver.Head("id-1")
		cp, versions := checkpoint(id, 2, id)
		_, err := s.Put(ctx, head, cp, nil, versions)
		var conflict *saver.ConflictError
		if errors.As(err, &conflict) {
			fmt.Println(id, "lost; the head is", conflict.Head)
			continue
		}
		ok(err)
		fmt.Println(id, "won")
	}
	// Output:
	// id-2 won
	// id-3 lost; the head is id-2
}

func ExampleInvalidError() {
	s, done := tempStore(disk.Options{})
	defer done()
	_, err := s.GetTuple(ctx, saver.Config{})
	var invalid *saver.InvalidError
	fmt.Println(errors.As(err, &invalid), invalid.Field)
	// Output: true thread_id
}

func ExampleSaver_Sync() {
	// Calls return once the kernel has the bytes: they survive the death of the
	// process at once, and power loss after at most a second, or Sync.
	s, done := tempStore(disk.Options{Sync: disk.SyncInterval})
	defer done()
	chain(s, "t", 100)
	ok(s.Sync(ctx))
	st := s.Stats()
	fmt.Println("all durable:", st.DurableLSN == st.LastLSN)
	// Output: all durable: true
}

func ExampleSaver_Compact() {
	s, done := tempStore(disk.Options{})
	defer done()
	chain(s, "t", 100)
	ok(s.Flush(ctx)) // from the log to a compressed segment
	whole := s.Stats().RawBytes
	_, err := s.Prune(ctx, []string{"t"}, saver.KeepLatest)
	ok(err)
	ok(s.Compact(ctx)) // gives back the space of what was pruned
	fmt.Println(s.Stats().Segments, s.Stats().RawBytes < whole/50)
	// Output: 1 true
}

func ExampleSaver_Metrics() {
	s, done := tempStore(disk.Options{})
	defer done()
	chain(s, "t", 10)
	m := s.Metrics()
	fmt.Println(m.Log.Records, "records,", m.Flushes, "flushes")
	// Output: 10 records, 0 flushes
}

func ExampleNextVersion() {
	fraction := func() float64 { return 0.25 } // nil: random, which keeps forks apart
	v, err := saver.NextVersion(saver.Version{}, fraction)
	ok(err)
	fmt.Println(v)
	// Output: 00000000000000000000000000000001.0000000000000.25
}

func ExampleValueTyped() {
	s, done := tempStore(disk.Options{})
	defer done()
	// Bytes that are serialized already are stored as they are.
	cfg := chain(s, "t", 1)
	tup, err := s.GetTuple(ctx, cfg)
	ok(err)
	typed, err := tup.Checkpoint.Values["n"].Typed()
	ok(err)
	cp, versions := checkpoint("id-2", 2, nil)
	cp.Values["n"] = saver.ValueTyped(typed)
	_, err = s.Put(ctx, cfg, cp, nil, versions)
	ok(err)
	fmt.Println(typed.Kind, typed.Data)
	// Output: msgpack [1]
}
