package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/stele-go/stele/pregel/killtest"
)

func TestMain(m *testing.M) {
	killtest.Main(life)
	os.Exit(m.Run())
}

// TestNothingLostNothingDoubled: killed 30 times at random points, the chats come to their end,
// and each mail went out once.
func TestNothingLostNothingDoubled(t *testing.T) {
	var out bytes.Buffer
	err := run(30, 0, &out)
	t.Log(out.String()[strings.LastIndex(strings.TrimSpace(out.String()), "\n")+1:])
	if err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	for _, want := range []string{"[kill -9]", "[going on]", "[approved: mail", "Done: sent to Bob."} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
}

// TestCheckNotices: a mail that went out twice, or not at all, is noticed.
func TestCheckNotices(t *testing.T) {
	dir := t.TempDir()
	outbox = dir + "/sent"
	for i, mail := range []string{"Ada: Lunch?", "Ada: I am ill", "Bob: I am ill", "Bob: I am ill"} {
		if err := check(dir); (err == nil) != (i == 3) {
			t.Errorf("after %d mails: %v", i, err)
		}
		if err := send(string(rune('a'+i)), mail); err != nil {
			t.Fatal(err)
		}
	}
	if check(dir) == nil {
		t.Error("a mail went out twice, and nobody noticed")
	}
}

// TestShort: the agent is as short as it can be read.
func TestShort(t *testing.T) {
	text, err := os.ReadFile("agent.go")
	if err != nil {
		t.Fatal(err)
	}
	lines := 0
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimRight(line, "\n"); strings.TrimSpace(line) != "" {
			lines++
		}
		if len(line) > 100 {
			t.Errorf("%d columns: %s", len(line), line)
		}
	}
	if lines > 90 {
		t.Errorf("%d lines", lines)
	}
}
