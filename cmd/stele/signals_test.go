package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// childStuck makes this test binary a command of that name that nobody can stop by its
// context.
const childStuck = "STELE_TEST_STUCK"

// stuck says that it is at work, and looks at its context no more. It says so again when
// that ended.
func stuck(command string) int {
	return untilSignal(onlyReads([]string{command}), func(ctx context.Context) int {
		fmt.Println("at work")
		<-ctx.Done()
		fmt.Println("told")
		select {}
	})
}

// TestEndsOnSignal: one signal ends a command that only reads, wherever it is; a command
// that writes is waited for, until there is a second.
func TestEndsOnSignal(t *testing.T) {
	for _, c := range []struct {
		command string
		signals []os.Signal
	}{
		{"verify", []os.Signal{os.Interrupt}},
		{"verify", []os.Signal{syscall.SIGTERM}},
		{"dump", []os.Signal{syscall.SIGTERM}},
		{"compact", []os.Signal{os.Interrupt, os.Interrupt}},
		{"backup", []os.Signal{syscall.SIGTERM, os.Interrupt}},
	} {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), childStuck+"="+c.command)
		pipe, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		var stderr strings.Builder
		cmd.Stderr = &stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		says := bufio.NewScanner(pipe)
		for _, s := range c.signals {
			says.Scan() // at work, or told
			if err := cmd.Process.Signal(s); err != nil {
				t.Fatal(err)
			}
		}
		for says.Scan() { // to its end
		}
		var exit *exec.ExitError
		if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != exitFailed || !strings.Contains(stderr.String(), "interrupted") {
			t.Errorf("%s after %v: %v, %q", c.command, c.signals, err, stderr.String())
		}
	}
}

// TestWhoWrites: the commands that may be cut short are those that write nothing.
func TestWhoWrites(t *testing.T) {
	for command, want := range map[string]bool{"info": true, "stats": true, "threads": true, "log": true, "show": true, "diff": true, "verify": true,
		"dump": true, "compact": false, "erase": false, "salvage": false, "backup": false, "restore": false, "version": true} {
		if got := onlyReads([]string{"--json", command, "DIR"}); got != want {
			t.Errorf("%s only reads: %t", command, got)
		}
	}
	for _, command := range [][]string{{"import", "sqlite"}, {"import", "postgres"}, {"import", "ndjson"}, {"export", "postgres"}, {"export", "ndjson"}} {
		if onlyReads(append(command, "FROM", "TO")) {
			t.Errorf("%v passes for a command that only reads", command)
		}
	}
}
