//go:build unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
)

// laptop makes a store with threads of a graph that has a delta channel, a subgraph that asks, and
// tasks of which one fails beside others that are done. It returns the states of the threads.
func laptop(t *testing.T, dir string, threads int) map[string]string {
	t.Helper()
	d, err := disk.Open(dir, disk.Options{Sync: disk.SyncNever})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}()
	g := movedGraph(t, d)
	for i := range threads {
		at := pregel.Thread(fmt.Sprintf("thread \\ %d \xe2\x82\xac", i))
		for n := range 4 {
			_, err := g.Invoke(t.Context(), at, map[string]any{"said": []any{fmt.Sprintf("%d: \\u0041 \"%d\"", i, n)}, "fails": i%3 == 2})
			if (err != nil) != (i%3 == 2) {
				t.Fatal(err)
			}
			if i%3 == 0 { // the others still wait, or failed
				if _, err := g.Invoke(t.Context(), at, pregel.Command{Resume: "yes"}); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	return states(t, d)
}

func movedGraph(t *testing.T, s saver.Saver) *pregel.Graph {
	t.Helper()
	ask, err := graph.New(graph.Key("said", channel.LastValue[[]any]())).
		Node("ask", func(ctx context.Context, _ any) (any, error) {
			answer, err := pregel.Ask(ctx, "go on?")
			return map[string]any{"said": []any{answer}}, err
		}).
		Sequence(graph.Start, "ask").Compile(graph.Options{Name: "inner"})
	if err != nil {
		t.Fatal(err)
	}
	said := channel.Delta(3, func(all []any, writes []any) ([]any, error) { return append(all, writes...), nil })
	g, err := graph.New(graph.Key("said", said), graph.Key("fails", channel.LastValue[bool]())).
		Node("done", func(context.Context, any) (any, error) { return map[string]any{"said": "done"}, nil }).
		Node("may fail", func(_ context.Context, in any) (any, error) {
			if in.(map[string]any)["fails"] == true {
				return nil, errors.New("it fails")
			}
			return map[string]any{"said": "did not fail"}, nil
		}).
		Subgraph("inner", ask).
		Edge(graph.Start, "done").Edge(graph.Start, "may fail").Edge("done", "inner").
		Compile(graph.Options{Name: "outer", Saver: s})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// states are the state and the status of each thread.
func states(t *testing.T, s saver.Saver) map[string]string {
	t.Helper()
	g, all := movedGraph(t, s), map[string]string{}
	for info, err := range s.Threads(t.Context(), saver.ThreadQuery{}) {
		if err != nil {
			t.Fatal(err)
		}
		st, err := g.GetState(t.Context(), pregel.Thread(info.ThreadID))
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal([]any{st.Values, st.Next, st.Interrupts, info.Status, info.Graph, info.Next, info.Head})
		if err != nil {
			t.Fatal(err)
		}
		all[info.ThreadID] = string(text)
	}
	return all
}

// killedAt runs the command until reached says so, and kills it then. It reports whether the
// command was killed.
func killedAt(t *testing.T, reached func() bool, args ...string) bool {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), childImport+"="+strings.Join(args, "\n"))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case <-ended:
			return false
		case <-time.After(time.Millisecond):
			if reached() {
				cancel()
				<-ended
				return true
			}
		}
	}
}

// TestMovedAndKilled: a store goes from a laptop to PostgreSQL and back, by commands that are
// killed again and again, and loses nothing: tuples and states are the same at every place.
func TestMovedAndKilled(t *testing.T) {
	url, _ := postgresServer(t)
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 4))
	root := t.TempDir()
	dir, back := filepath.Join(root, "laptop"), filepath.Join(root, "back")
	had := laptop(t, dir, 18)
	want := exported(t, dir)
	total := strings.Count(want, `"kind":"checkpoint"`)
	if out, errOut, code := stele(t, "export", "postgres", dir, url, "--setup", "--thread", "none of them"); code == exitDone {
		t.Fatalf("a thread that is not there: %s%s", out, errOut)
	}
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	kills := 0
	move := func(reached func(part int) bool, args ...string) {
		t.Helper()
		for round := range 3 {
			part := round*25 + rng.IntN(25) // percent
			if killedAt(t, func() bool { return reached(part) }, args...) {
				kills++
			}
		}
		out, errOut, code := stele(t, append([]string{"--json"}, args...)...)
		var rep transferReport
		if err := json.Unmarshal([]byte(out), &rep); code != exitDone || err != nil || rep.Verified != total || rep.Rejected > 0 {
			t.Fatalf("seed %d: %v: exit code %d, %s%s; want %d verified", seed, args, code, out, errOut, total)
		}
	}
	move(func(part int) bool {
		var n int
		if err := conn.QueryRow(t.Context(), `SELECT count(*) FROM checkpoints`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n > total*part/100
	}, "export", "postgres", dir, url)
	full := dirSize(dir)
	move(func(part int) bool { return dirSize(back) > full*int64(part)/100 }, "import", "postgres", url, back)
	if kills < 2 {
		t.Errorf("seed %d: only %d commands were killed", seed, kills)
	}
	t.Logf("%d checkpoints were moved; %d commands were killed", total, kills)
	if got := exported(t, back); got != want {
		t.Errorf("seed %d: the store differs from the laptop's", seed)
	}
	d, err := disk.Open(back, disk.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for id, got := range states(t, d) {
		if got != had[id] {
			t.Errorf("seed %d: thread %q is\n%s\nand was\n%s", seed, id, got, had[id])
		}
		delete(had, id)
	}
	if len(had) > 0 {
		t.Errorf("seed %d: threads are lost: %v", seed, had)
	}
}
