package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
)

// What a child process is told: its directory, and at which step to die; see newDeath. At step 0 it
// never dies.
const dirEnv, dieEnv = "STELE_EXAMPLE_AGENT_DIR", "STELE_EXAMPLE_AGENT_DIE"

// childMain is a process of the chat, if this is one.
func childMain() {
	if dir := os.Getenv(dirEnv); dir != "" {
		n, err := strconv.Atoi(os.Getenv(dieEnv))
		if err == nil {
			err = chat(context.Background(), dir, newDeath(n), os.Stdout)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

// newDeath returns a function that kills the process when it is called for the nth time; if n is
// negative, when a mail was sent.
func newDeath(n int) func(sent bool) {
	var left atomic.Int64
	left.Store(int64(n))
	return func(sent bool) {
		if left.Add(-1) != 0 && (n >= 0 || !sent) {
			return
		}
		self, err := os.FindProcess(os.Getpid())
		if err == nil {
			err = self.Kill()
		}
		if err != nil {
			panic(err)
		}
		select {} // until the signal arrives
	}
}

// run kills ten processes in their chats and returns the exit code.
func run(args []string, out, errs io.Writer) int {
	flags := flag.NewFlagSet("agent", flag.ContinueOnError)
	flags.SetOutput(errs)
	kills := flags.Int("kills", 10, "how often to kill")
	seed := flags.Uint64("seed", rand.Uint64(), "repeats the choices of a run")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	fmt.Fprintf(out, "repeat with: go run ./examples/agent -kills %d -seed %d\n", *kills, *seed)
	dir, err := os.MkdirTemp("", "stele-agent-")
	if err == nil {
		defer os.RemoveAll(dir)
		err = lives(dir, *kills, rand.New(rand.NewPCG(*seed, 0)), out)
	}
	if err != nil {
		fmt.Fprintln(errs, err)
		return 1
	}
	return 0
}

// lives starts processes, one after the other, until enough of them were killed and the last chat
// came to its end.
func lives(dir string, kills int, rng *rand.Rand, out io.Writer) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	killed, mails, again := 0, 0, 0
	for chats := 0; chats == 0 || killed < kills; chats++ {
		at := filepath.Join(dir, strconv.Itoa(chats))
		if err := os.Mkdir(at, 0o755); err != nil {
			return err
		}
		for ended := false; !ended; {
			die := 0
			if killed < kills {
				die = 1 + rng.IntN(15)
			}
			if killed%3 == 0 && die > 0 { // right after a mail went out
				die = -1
			}
			child := exec.Command(self)
			child.Env = append(os.Environ(), dirEnv+"="+at, dieEnv+"="+strconv.Itoa(die))
			child.Stdout, child.Stderr = out, os.Stderr
			err := child.Run()
			var exit *exec.ExitError
			switch {
			case err == nil:
				ended = true
			case errors.As(err, &exit) && exit.ExitCode() != 1:
				killed++
				fmt.Fprintf(out, " [kill -9]")
			default:
				return err
			}
		}
		sent, dropped, err := outbox(at)
		if err != nil {
			return err
		}
		if want := "Ada: rain,Bob: rain,Eve: rain"; strings.Join(sent, ",") != want {
			return fmt.Errorf("the mails that went out: %q, want %s", sent, want)
		}
		mails, again = mails+len(sent), again+dropped
	}
	fmt.Fprintf(out, "\n%d kills, %d mails, each went out once; %d were sent again, and dropped\n", killed, mails, again)
	return nil
}
