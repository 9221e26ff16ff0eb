package kill

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/test/parity"
)

// childVariable is the environment variable that makes a process a child.
const childVariable = "STELE_KILL_CHILD"

// job is what a child is told to do.
type job struct {
	Dir     string
	Fixture string
	From    int // line of the first call to make
	Options storeOptions
}

// storeOptions are the options that vary from one life of a store to the next.
type storeOptions struct {
	Sync                              disk.SyncMode
	SyncInterval                      time.Duration
	LogFileSize, FlushBytes, ImageMax int64
	ReadOnly                          bool `json:"-"`
}

func (o storeOptions) open(dir string) (*disk.Saver, error) {
	return disk.Open(dir, disk.Options{
		Sync: o.Sync, SyncInterval: o.SyncInterval, ReadOnly: o.ReadOnly,
		LogFileSize: o.LogFileSize, FlushBytes: o.FlushBytes, ImageBytes: o.ImageMax,
	})
}

// Lines a child writes, one write call each, so that a kill cuts between them.
const (
	lineOpen = "open" // the store is open
	lineAck  = "ack"  // with the line of a call that returned
	lineDone = "done" // with the number of answers that differed
)

// ChildMain does a child's work and ends the process, if the process is one.
// Otherwise it returns at once.
func ChildMain() {
	spec := os.Getenv(childVariable)
	if spec == "" {
		return
	}
	if err := child(spec); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// errLastWrite ends a replay where only questions follow; the parent asks them.
var errLastWrite = errors.New("last write made")

func child(spec string) error {
	var j job
	if err := json.Unmarshal([]byte(spec), &j); err != nil {
		return fmt.Errorf("job of the child: %w", err)
	}
	f, err := parity.Load(j.Fixture)
	if err != nil {
		return err
	}
	s, err := j.Options.open(j.Dir)
	if err != nil {
		return err
	}
	if err := tell(lineOpen, s.OpenReport().Replayed); err != nil {
		return err
	}
	writes := f.Writes()
	last := writes[len(writes)-1]
	tally, err := parity.Replay(context.Background(), s, f, j.From, func(line int) error {
		if err := tell(lineAck, line); err != nil {
			return err
		}
		if line >= last {
			return errLastWrite
		}
		return nil
	})
	var differs *parity.DifferenceError
	if err != nil && !errors.Is(err, errLastWrite) && !errors.As(err, &differs) {
		return err
	}
	if err := s.Close(); err != nil {
		return err
	}
	for _, d := range tally.Differences {
		fmt.Fprintln(os.Stderr, d)
	}
	return tell(lineDone, len(tally.Differences))
}

func tell(what string, n int) error {
	_, err := fmt.Fprintf(os.Stdout, "%s %d\n", what, n)
	return err
}
