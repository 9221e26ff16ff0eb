// Command embed shows a saver inside a program: a directory, a checkpoint, what
// a task wrote against it, and both read back. No server, no schema, no graph.
// Beside them, in the same directory, are memories, which are found by what they
// mean; they are in memories.go. Run it again: all of it is still there.
//
//	go run ./examples/embed
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
)

func main() {
	dir := "stele-data"
	if len(os.Args) > 1 {
		dir = os.Args[1]
	}
	if err := run(context.Background(), dir, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// run may be repeated on the same directory: putting an id again replaces it.
func run(ctx context.Context, dir string, out io.Writer) (err error) {
	s, err := disk.Open(dir, disk.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()

	versions := map[string]saver.Version{"messages": saver.IntVersion(1)}
	cfg, err := s.Put(ctx, saver.Config{ThreadID: "alice"}, saver.Checkpoint{
		V: 4, ID: "turn-000", Versions: versions,
		Values: map[string]saver.Value{"messages": saver.ValueOf([]string{"hello"})},
	}, saver.Metadata{"source": "loop", "step": 0}, versions)
	if err != nil {
		return err // nothing was stored; without an error it survives kill -9 and power loss
	}
	reply := []saver.Write{{Channel: "messages", Value: saver.ValueOf("hello, alice")}}
	if err := s.PutWrites(ctx, cfg, reply, "task-1", ""); err != nil {
		return err
	}

	latest, err := s.GetTuple(ctx, saver.Config{ThreadID: "alice"})
	if err != nil {
		return err
	}
	var messages []string // values are decoded when asked for
	if err := latest.Checkpoint.Values["messages"].Decode(&messages); err != nil {
		return err
	}
	fmt.Fprintf(out, "latest is %s: %q, %d pending\n", latest.Checkpoint.ID, messages, len(latest.PendingWrites))
	for tup, err := range s.List(ctx, saver.Query{Filter: map[string]any{"source": "loop"}, Limit: 10}) {
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "listed %s %s, step %v\n", tup.Config.ThreadID, tup.Checkpoint.ID, tup.Metadata["step"])
	}
	return remember(ctx, s, out)
}
