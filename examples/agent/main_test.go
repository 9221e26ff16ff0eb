package main

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"
)

func TestMain(m *testing.M) {
	childMain()
	os.Exit(m.Run())
}

var verdict = regexp.MustCompile(`^6 kills, (3|6|9) mails, each went out once; [1-9] were sent again, and dropped$`)

// TestEachMailOnce: killed again and again, the chat comes to its end. Some kills come right
// after a mail went out.
func TestEachMailOnce(t *testing.T) {
	var out, errs bytes.Buffer
	code := run([]string{"-kills", "6", "-seed", "1"}, &out, &errs)
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if last := lines[len(lines)-1]; code != 0 || !verdict.MatchString(last) {
		t.Errorf("exit code %d, last line %q\n%s%s", code, last, out.String(), errs.String())
	}
	if !strings.Contains(out.String(), "Done, sent to Eve. That makes 3 in this chat.") {
		t.Errorf("the chat does not remember its beginning:\n%s", out.String())
	}
}

func TestWrongFlag(t *testing.T) {
	if code := run([]string{"-no-such-flag"}, &bytes.Buffer{}, &bytes.Buffer{}); code != 2 {
		t.Errorf("exit code %d, want 2", code)
	}
}
