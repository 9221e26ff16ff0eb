// Command walk tells which functions, files and packages of this module one Put, or one
// GetTuple, passes: a measure of how far its way is for a reader. Run it by
// test/walk/walk.sh, which builds it with coverage counters.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/coverage"
	"time"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
)

func main() {
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "walk:", err)
		os.Exit(1)
	}
}

// run does what is asked for, put or get, on a store that is open and has been used, and
// writes the counters of that alone into the directory to.
func run(what, to string) error {
	dir, err := os.MkdirTemp("", "walk")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	s, err := disk.Open(dir, disk.Options{ManualWork: true})
	if err != nil {
		return err
	}
	var at saver.Config
	for n := range 5 {
		if at, err = put(s, n, at.CheckpointID); err != nil {
			return err
		}
	}
	time.Sleep(100 * time.Millisecond) // what runs behind a call has ended
	if err := coverage.ClearCounters(); err != nil {
		return err
	}
	switch what {
	case "put":
		_, err = put(s, 5, at.CheckpointID)
	case "get":
		var tup *saver.Tuple
		if tup, err = s.GetTuple(context.Background(), saver.Config{ThreadID: "t"}); err == nil {
			_, err = tup.Checkpoint.Values["messages"].Any()
		}
	default:
		err = fmt.Errorf("%q is neither put nor get", what)
	}
	if err := errors.Join(err, coverage.WriteMetaDir(to), coverage.WriteCountersDir(to)); err != nil {
		return err
	}
	return s.Close()
}

// put stores the n-th checkpoint of a thread, whose list has grown.
func put(s *disk.Saver, n int, parent string) (saver.Config, error) {
	var list []string
	for i := range n + 1 {
		list = append(list, fmt.Sprintf("message %d", i))
	}
	versions := map[string]saver.Version{"messages": saver.IntVersion(int64(n + 1))}
	return s.Put(context.Background(), saver.Config{ThreadID: "t", CheckpointID: parent}, saver.Checkpoint{
		V: 4, ID: fmt.Sprintf("checkpoint-%d", n), TS: "2026-01-01T00:00:00+00:00", Versions: versions,
		Values: map[string]saver.Value{"messages": saver.ValueOf(list)},
	}, saver.Metadata{"source": "loop", "step": n}, versions)
}
