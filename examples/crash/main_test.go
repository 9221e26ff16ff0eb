package main

import (
	"bytes"
	"context"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stele-go/stele/test/kill"
)

func TestMain(m *testing.M) {
	kill.ChildMain()
	os.Exit(m.Run())
}

// crash runs the command and returns its last line.
func crash(t *testing.T, args ...string) (last string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(context.Background(), args, &out, &errs)
	t.Logf("%s%s", out.String(), errs.String())
	lines := strings.Split(strings.TrimRight(out.String(), "\n"), "\n")
	return lines[len(lines)-1], code
}

var verdict = regexp.MustCompile(`^recovered ([1-9]\d*) checkpoints, ([1-9]\d*) writes after 6 kills, 0 differences$`)

func TestNothingIsLost(t *testing.T) {
	last, code := crash(t, "-kills", "6")
	if !verdict.MatchString(last) || code != 0 {
		t.Errorf("exit code %d, last line %q; want 0 and %s", code, last, verdict)
	}
}

func TestWithoutReplayTheLineChanges(t *testing.T) {
	last, code := crash(t, "-kills", "3", "-lose-log")
	if verdict.MatchString(last) || strings.HasSuffix(last, " 0 differences") || !strings.HasSuffix(last, " differences") || code != 1 {
		t.Errorf("exit code %d, last line %q; want 1 and differences", code, last)
	}
}

func TestWrongFlag(t *testing.T) {
	if _, code := crash(t, "-no-such-flag"); code != 2 {
		t.Errorf("exit code %d, want 2", code)
	}
}
