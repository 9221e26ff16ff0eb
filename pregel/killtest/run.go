package killtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
)

// Options configure Run.
type Options struct {
	// Kills is how many processes are killed; 0 is 10.
	Kills int
	// Seed decides at which points; 0 means a random seed, which Report and each error contain. The
	// same seed draws the same points; the code at a point may depend on scheduling.
	Seed uint64
	// Dir has a directory for each round. It must exist.
	Dir string
	// Check returns an error if the directory of a round is wrong when the program has ended. It is
	// called in the process of Run. Nil checks nothing.
	Check func(dir string) error
	// Out gets what the processes print; nil drops it.
	Out io.Writer
	// Killed is called after each kill. Nil does nothing.
	Killed func()
}

// Report counts what Run did.
type Report struct {
	Seed   uint64
	Kills  int
	Rounds int // how often the program came to its end, each time in a directory of its own
	Points int // that the first process passed, which was not killed
}

// Run runs the program of Main in rounds. A round is a directory, and processes that work in it until
// one comes to its end; then Check is called. No process is killed in the first round, which counts the
// points of a whole round. In later rounds each process is killed at one of these points, until
// Options.Kills were killed. An error is that of a process that failed, of Check, or of ctx; it names
// the round and the seed. Programs that call Graph.Recover should set RecoverOptions.Attempts: three
// kills at one checkpoint look like a node that kills its process.
func Run(ctx context.Context, o Options) (Report, error) {
	if o.Kills == 0 {
		o.Kills = 10
	}
	for o.Seed == 0 {
		o.Seed = rand.Uint64()
	}
	if o.Dir == "" || o.Kills < 0 {
		return Report{}, errors.New("killtest: Options need a Dir, and Kills that are not negative")
	}
	r := &run{Options: o, Report: Report{Seed: o.Seed}, rng: rand.New(rand.NewPCG(o.Seed, 0))}
	for r.Report.Rounds == 0 || r.Report.Kills < o.Kills {
		if err := r.round(ctx); err != nil {
			return r.Report, fmt.Errorf("killtest: round %d, after %d kills (repeat with seed %d): %w", r.Rounds+1, r.Report.Kills, o.Seed, err)
		}
		r.Rounds++
	}
	return r.Report, nil
}

type run struct {
	Options
	Report
	rng *rand.Rand
}

// round lets processes work in a directory of their own until one comes to its end.
func (r *run) round(ctx context.Context) error {
	dir := filepath.Join(r.Dir, strconv.Itoa(r.Rounds))
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	for ended := false; !ended; {
		at := 0
		if r.Rounds > 0 && r.Report.Kills < r.Options.Kills {
			at = 1 + r.rng.IntN(r.Points)
		}
		var err error
		if ended, err = r.process(ctx, dir, at); err != nil {
			return err
		}
	}
	if r.Rounds == 0 {
		text, err := os.ReadFile(filepath.Join(dir, pointsFile))
		if err != nil {
			return err
		}
		if r.Points, err = strconv.Atoi(string(text)); err != nil {
			return err
		}
		if r.Points == 0 {
			return errors.New("the program passes no points; its graph needs Hooks")
		}
	}
	if r.Check == nil {
		return nil
	}
	return r.Check(dir)
}

// process runs one process. ended reports whether it came to its end; otherwise it was killed.
func (r *run) process(ctx context.Context, dir string, at int) (ended bool, err error) {
	self, err := os.Executable()
	if err != nil {
		return false, err
	}
	var errs bytes.Buffer
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d:%s", childVariable, at, dir))
	cmd.Stdout, cmd.Stderr = r.Out, &errs
	err = cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return true, nil
	case ctx.Err() != nil:
		return false, ctx.Err()
	case at > 0 && errors.As(err, &exit) && wasKilled(exit):
		r.Report.Kills++
		if r.Killed != nil {
			r.Killed()
		}
		return false, nil
	}
	return false, fmt.Errorf("the program: %w\n%s", err, &errs)
}

// wasKilled reports whether a process ended by a signal; on Windows, as Process.Kill ends it.
func wasKilled(exit *exec.ExitError) bool {
	return exit.ExitCode() == -1 || runtime.GOOS == "windows" && exit.ExitCode() == 1
}
