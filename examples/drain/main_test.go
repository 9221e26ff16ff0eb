package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// TestDrain: the job stops behind the page under way, the next process goes on with the one after
// it, and no page is scanned twice.
func TestDrain(t *testing.T) {
	var out bytes.Buffer
	if err := run([]string{"-every", "0s", "-pages", "9", "-stop", "4"}, &out); err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	for page := 1; page <= 9; page++ {
		fmt.Fprintf(&want, "page %d\n", page)
		if page == 4 {
			want.WriteString("drained: the process ends\ngoing on: unfinished after 4 pages\n")
		}
	}
	want.WriteString("done: 9 pages\n")
	if out.String() != want.String() {
		t.Errorf("got\n%swant\n%s", &out, &want)
	}
}

// TestProcesses: each process does its part of a job in a directory that stays.
func TestProcesses(t *testing.T) {
	dir := t.TempDir()
	var out bytes.Buffer
	for _, stop := range []string{"2", "3", "0"} {
		if err := run([]string{"-dir", dir, "-every", "0s", "-pages", "5", "-stop", stop}, &out); err != nil {
			t.Fatal(err)
		}
	}
	if n := strings.Count(out.String(), "page "); n != 5 || !strings.Contains(out.String(), "going on: unfinished after 3 pages") || !strings.HasSuffix(out.String(), "done: 5 pages\n") {
		t.Errorf("%d pages scanned\n%s", n, &out)
	}
	if err := run([]string{"-gone"}, &out); err == nil {
		t.Error("an unknown flag was accepted")
	}
}
