package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

func TestMain(m *testing.M) {
	childMain()
	os.Exit(m.Run())
}

// last runs the command and returns its last line.
func last(t *testing.T, args ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	if code := run(args, &out, &errs); code != 0 {
		t.Fatalf("exit code %d: %s", code, errs.String())
	}
	t.Log(out.String())
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	return lines[len(lines)-1]
}

func TestOnlyTheUnfinishedTaskRunsAgain(t *testing.T) {
	if got, want := last(t), "resumed: ran 1 of 3 tasks again, 2 replayed"; got != want {
		t.Errorf("last line %q; want %q", got, want)
	}
}

func TestWithoutReplayTheLineChanges(t *testing.T) {
	if got, want := last(t, "-no-replay"), "resumed: ran 3 of 3 tasks again, 0 replayed"; got != want {
		t.Errorf("last line %q; want %q", got, want)
	}
}
