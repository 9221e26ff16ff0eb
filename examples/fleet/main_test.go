//go:build unix

package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stele-go/stele/postgres/pgtest"
)

// The example does what it says, with workers killed on the way.
func TestRun(t *testing.T) {
	if _, err := pgtest.Program("initdb"); err != nil {
		pgtest.Need(t, err)
	}
	program := filepath.Join(t.TempDir(), "fleet")
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.Command(program, "-letters", "4", "-kills", "3")
	cmd.Env = append(cmd.Environ(), "DATABASE_URL=")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if text := string(out); !strings.Contains(text, "4 letters are done after 3 kills") || !strings.Contains(text, "4 mails went out") {
		t.Errorf("it says:\n%s", text)
	}
}
