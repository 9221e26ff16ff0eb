package resume

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver/disk"
)

// poisonEnv names the directory of a process that is killed by a node.
const poisonEnv = "STELE_RESUME_POISON_DIR"

// A program that recovers at its start, with a node that kills it, is restarted again
// and again: the node runs once for the input and once for each attempt, and then the
// program comes up.
func TestRecoverAtStartSurvivesPoison(t *testing.T) {
	if dir := os.Getenv(poisonEnv); dir != "" {
		poisoned(t, dir)
		return
	}
	dir := t.TempDir()
	var lives []string
	for range 6 {
		cmd := exec.Command(os.Args[0], "-test.run=^TestRecoverAtStartSurvivesPoison$", "-test.count=1")
		cmd.Env = append(os.Environ(), poisonEnv+"="+dir)
		if out, err := cmd.CombinedOutput(); err == nil {
			lives = append(lives, "up")
		} else if cmd.ProcessState.Exited() {
			t.Fatalf("%v: %s", err, out)
		} else {
			lives = append(lives, "killed")
		}
	}
	if got := fmt.Sprint(lives); got != "[killed killed killed killed up up]" {
		t.Errorf("lives: %s", got)
	}
	ran, err := os.ReadFile(filepath.Join(dir, "ran"))
	if n := strings.Count(string(ran), "x"); err != nil || n != 4 {
		t.Errorf("the node ran %d times, %v; want 4: once for the input and 3 attempts", n, err)
	}
}

// poisoned is one life of the program.
func poisoned(t *testing.T, dir string) {
	d, err := disk.Open(filepath.Join(dir, "store"), disk.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	g, err := graph.New(steps()).Node("a", says("a")).Node("poison", func(context.Context, any) (any, error) {
		f, err := os.OpenFile(filepath.Join(dir, "ran"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, err
		}
		if _, err := f.WriteString("x"); err != nil {
			return nil, err
		}
		self, err := os.FindProcess(os.Getpid())
		if err != nil {
			return nil, err
		}
		if err := self.Kill(); err != nil {
			return nil, err
		}
		select {}
	}).Sequence(graph.Start, "a", "poison").Compile(graph.Options{Name: "poison", Saver: d})
	if err != nil {
		t.Fatal(err)
	}
	report, err := g.Recover(context.Background(), pregel.RecoverOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Threads) > 0 {
		if r := report.Threads[0]; r.ThreadID != "t" || r.Outcome != pregel.GivenUp {
			t.Fatalf("%+v", r)
		}
		return
	}
	_, err = g.Invoke(context.Background(), pregel.Thread("t"), m{"steps": []string{"in"}}, pregel.RunOptions{Durability: pregel.Sync})
	t.Fatal("the process was not killed: ", err)
}
