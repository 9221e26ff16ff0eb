// Command resume shows the use of a checkpoint and pending writes. A graph of three parallel
// tasks is killed (SIGKILL) in the middle of their superstep, when two have ended. Another
// process resumes it and runs only the third. Each task appends a line to its own file when
// it runs, so the files show what ran, whatever the store says.
//
//	go run ./examples/resume
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
)

// childEnv names the directory a child process works in.
const childEnv = "STELE_EXAMPLE_RESUME_DIR"

// endedByItself is the exit code of a child that nobody killed.
const endedByItself = 3

var tasks = []string{"fetch", "parse", "store"}

func main() {
	childMain()
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// childMain is the process that gets killed, if this is one.
func childMain() {
	if dir := os.Getenv(childEnv); dir != "" {
		fmt.Fprintln(os.Stderr, "the run ended:", firstLife(dir))
		os.Exit(endedByItself)
	}
}

// firstLife runs the graph until its last task kills the process.
func firstLife(dir string) error {
	s, err := disk.Open(filepath.Join(dir, "state"), disk.Options{})
	if err != nil {
		return err
	}
	var stored sync.WaitGroup
	stored.Add(len(tasks) - 1)
	hooks := pregel.Hooks{Save: func(_ pregel.RunInfo, op string, _ time.Duration, err error) {
		for _, name := range tasks {
			if op == fmt.Sprintf("writes of node %q", name) && err == nil {
				stored.Done()
			}
		}
	}}
	g, err := build(dir, s, hooks, func() {
		stored.Wait() // the writes of the others are durable
		self, err := os.FindProcess(os.Getpid())
		if err == nil {
			err = self.Kill()
		}
		if err != nil {
			panic(err)
		}
		select {} // until the signal arrives
	})
	if err != nil {
		return err
	}
	_, err = g.Invoke(context.Background(), pregel.Thread("job"), map[string]any{"done": []string{}}, pregel.RunOptions{Durability: pregel.Sync})
	return err
}

// build makes the graph. last is called in the middle of the last task.
func build(dir string, s saver.Saver, hooks pregel.Hooks, last func()) (*pregel.Graph, error) {
	b := graph.New(graph.Key("done", channel.Reduce(channel.Append[string])))
	for i, name := range tasks {
		b.Node(name, func(context.Context, any) (any, error) {
			if err := appendLine(filepath.Join(dir, name+".ran")); err != nil {
				return nil, err
			}
			if i == len(tasks)-1 {
				last()
			}
			return map[string]any{"done": []string{name}}, nil
		})
		b.Edge(graph.Start, name).Edge(name, graph.End)
	}
	return b.Compile(graph.Options{Saver: s, Hooks: hooks})
}

func appendLine(name string) error {
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "ran in process %d\n", os.Getpid())
	return errors.Join(err, f.Close())
}

// counts says how often each task ran.
func counts(dir string) ([]int, error) {
	out := make([]int, len(tasks))
	for i, name := range tasks {
		f, err := os.Open(filepath.Join(dir, name+".ran"))
		if err != nil {
			return nil, err
		}
		for lines := bufio.NewScanner(f); lines.Scan(); {
			out[i]++
		}
		if err := f.Close(); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// forgetful hides the writes of tasks that ended, to show what resuming would be without them.
type forgetful struct{ saver.Saver }

// GetTuple reads a checkpoint as if no task had ended after it.
func (f forgetful) GetTuple(ctx context.Context, at saver.Config) (*saver.Tuple, error) {
	t, err := f.Saver.GetTuple(ctx, at)
	if err == nil {
		t.PendingWrites = nil
	}
	return t, err
}

// run returns the exit code.
func run(args []string, out, errs io.Writer) int {
	flags := flag.NewFlagSet("resume", flag.ContinueOnError)
	flags.SetOutput(errs)
	noReplay := flags.Bool("no-replay", false, "hide the stored writes when resuming, to see what they are good for")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	dir, err := os.MkdirTemp("", "stele-resume-")
	if err == nil {
		defer os.RemoveAll(dir)
		err = lives(dir, *noReplay, out)
	}
	if err != nil {
		fmt.Fprintln(errs, err)
		return 1
	}
	return 0
}

// lives lets a child die, resumes its thread and tells what ran again.
func lives(dir string, noReplay bool, out io.Writer) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	child := exec.Command(self)
	child.Env = append(os.Environ(), childEnv+"="+dir)
	said, err := child.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() == endedByItself {
		return fmt.Errorf("the child was not killed: %v\n%s", err, said)
	}
	before, err := counts(dir)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "the process died: %v; tasks %v had run %v times\n", exit, tasks, before)
	done, err := secondLife(dir, noReplay)
	if err != nil {
		return err
	}
	after, err := counts(dir)
	if err != nil {
		return err
	}
	again := 0
	for i := range tasks {
		again += after[i] - before[i]
	}
	fmt.Fprintf(out, "the graph ended with %v; tasks have now run %v times\n", done, after)
	fmt.Fprintf(out, "resumed: ran %d of %d tasks again, %d replayed\n", again, len(tasks), len(tasks)-again)
	return nil
}

// secondLife opens the dead process's store and goes on: a nil input resumes.
func secondLife(dir string, noReplay bool) (done any, err error) {
	sv, err := disk.Open(filepath.Join(dir, "state"), disk.Options{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, sv.Close()) }()
	var s saver.Saver = sv
	if noReplay {
		s = forgetful{sv}
	}
	g, err := build(dir, s, pregel.Hooks{}, func() {})
	if err != nil {
		return nil, err
	}
	res, err := g.Invoke(context.Background(), pregel.Thread("job"), nil)
	if err != nil {
		return nil, err
	}
	return res.Map()["done"], nil
}
