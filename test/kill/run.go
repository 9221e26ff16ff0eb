package kill

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/test/parity"
)

// Options configures Run.
type Options struct {
	Kills int    // how many; at least 1
	Seed  uint64 // makes the choices; when a kill strikes depends on the machine too
	Dir   string // where stores are made; required, and left to the caller to remove
	// Fixtures names the recordings to replay, in turn; nil means all.
	Fixtures []string
	// LoseLog cuts the newest log file behind its header before the store is
	// opened again, as if there were no replay. The loss must be noticed.
	LoseLog bool
	// Progress is told of every kill; nil for silence.
	Progress io.Writer
}

// Result is what a Run found.
type Result struct {
	Kills int
	// Checkpoints and Writes were found and compared after kills, each as often
	// as its store was opened again.
	Checkpoints, Writes int
	Recordings          int // replayed to their end
	Differences         int
	// InFlight counts the kills after which the call that was not acknowledged
	// was found to be stored all the same, and Dropped those after which Open cut
	// a torn tail.
	InFlight, Dropped int
	ByMode            map[disk.SyncMode]int // kills
	First             []error               // the first differences
}

// String is the line the demonstration ends in.
func (r Result) String() string {
	return fmt.Sprintf("recovered %d checkpoints, %d writes after %d kills, %d differences", r.Checkpoints, r.Writes, r.Kills, r.Differences)
}

func (r *Result) differ(n int, err error) {
	const most = 5
	r.Differences += n
	if len(r.First) < most {
		r.First = append(r.First, err)
	}
}

// Run replays recordings and kills until it has killed as often as asked, and
// every recording begun is at its end. An error means that the experiment itself
// failed: what it found so far is in the Result.
func Run(ctx context.Context, opts Options) (Result, error) {
	r := runner{opts: opts, random: rand.New(rand.NewPCG(opts.Seed, 1)), result: Result{ByMode: map[disk.SyncMode]int{}}}
	if opts.Kills < 1 || opts.Dir == "" {
		return r.result, errors.New("kill: Kills and Dir are required")
	}
	if r.opts.Progress == nil {
		r.opts.Progress = io.Discard
	}
	fixtures, err := r.load()
	if err != nil {
		return r.result, err
	}
	r.random.Shuffle(len(fixtures), func(i, j int) { fixtures[i], fixtures[j] = fixtures[j], fixtures[i] })
	for round := 0; r.result.Kills < opts.Kills; round++ {
		f := fixtures[round%len(fixtures)]
		if err := r.recording(ctx, f, round); err != nil {
			return r.result, fmt.Errorf("%s: %w", f.Name, err)
		}
	}
	return r.result, nil
}

type runner struct {
	opts   Options
	random *rand.Rand
	result Result
}

func (r *runner) load() ([]*parity.Fixture, error) {
	if r.opts.Fixtures == nil {
		return parity.All()
	}
	var fixtures []*parity.Fixture
	for _, name := range r.opts.Fixtures {
		f, err := parity.Load(name)
		if err != nil {
			return nil, err
		}
		fixtures = append(fixtures, f)
	}
	return fixtures, nil
}

// killsPerRecording is how many kills a recording is cut by, while kills are
// left. Children are started at equal distances on average.
const killsPerRecording = 4

// recording replays one recording in a store of its own, through several lives.
func (r *runner) recording(ctx context.Context, f *parity.Fixture, round int) error {
	st := life{runner: r, f: f, writes: f.Writes(), dir: filepath.Join(r.opts.Dir, fmt.Sprintf("%03d-%s", round, f.Name))}
	for left := killsPerRecording; ; {
		if r.result.Kills >= r.opts.Kills {
			left = 0
		}
		killed, err := st.child(ctx, left)
		if err != nil {
			return err
		}
		if !killed {
			break
		}
		left--
		r.result.Kills++
		ok, err := st.verify(ctx)
		if err != nil || !ok {
			return err
		}
	}
	return st.finish(ctx)
}

// options are those of the next life of a store.
func (r *runner) options() storeOptions {
	size := func(lo, hi int) int64 { return int64(lo+r.random.IntN(hi-lo)) << 10 }
	return storeOptions{
		Sync:         []disk.SyncMode{disk.SyncAlways, disk.SyncInterval, disk.SyncNever}[r.random.IntN(3)],
		SyncInterval: time.Duration(1+r.random.IntN(50)) * time.Millisecond,
		LogFileSize:  size(64, 512), FlushBytes: size(16, 512), ImageMax: size(8, 128),
	}
}

// loseLog takes away what replay would read.
func loseLog(dir string) error {
	const header = 64 // docs/format/log.md
	logs, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil || len(logs) == 0 {
		return err
	}
	return os.Truncate(logs[len(logs)-1], header)
}
