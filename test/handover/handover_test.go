//go:build unix

package handover

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stele-go/stele/base/race"
	"github.com/stele-go/stele/postgres"
	"github.com/stele-go/stele/postgres/pgtest"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/saver"
	traces "github.com/stele-go/stele/test/parity/pregel"
)

// notHandedOver are the scenarios that cannot change hands, by the reason.
var notHandedOver = map[string]string{
	"node_cache":        inMemory,
	"functional_cache":  inMemory,
	"delta_bound":       "it runs for thousands of supersteps",
	"messages_of_nodes": classes,
	"messages_in_parts": classes,
	"messages_removed":  classes,
	"delta_messages":    classes,
	"answers_at_places": "LangGraph's saver on PostgreSQL keeps the answers of a task that it has, where more are stored together with what the task wrote",
	"delta_from_null":   "LangGraph's saver on PostgreSQL takes a stored null for no value",
}

const (
	inMemory = "the cache is memory of a process"
	classes  = "its messages are objects of LangChain in Python, and of stele in Go"
)

// player is LangGraph on the database, in a process that plays one scenario after another.
type player struct {
	traces.Partner
	cmd    *exec.Cmd
	stderr *bytes.Buffer
	in     io.Closer
}

func newPlayer(t *testing.T, python, url string) *player {
	t.Helper()
	p := &player{cmd: exec.Command(python, "-W", "ignore", "handover.py", url), stderr: &bytes.Buffer{}}
	p.cmd.Stderr = p.stderr
	in, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.In, p.Out, p.in = in, bufio.NewReader(out), in
	return p
}

func (p *player) end() {
	p.in.Close()
	_ = p.cmd.Process.Kill() // it may wait for a turn
	_ = p.cmd.Wait()
}

// comparable is a trace without what must differ:
//   - what functions of one process counted for themselves;
//   - metadata of old checkpoints that LangGraph's saver does not store in this schema;
//   - answers of a task after the first. LangGraph stores them together with what the task
//     wrote, and its saver then keeps what this schema has already.
func comparable(t *testing.T, lines []string) (out []string) {
	t.Helper()
	for _, l := range lines {
		d := json.NewDecoder(strings.NewReader(l))
		d.UseNumber()
		var line map[string]any
		if err := d.Decode(&line); err != nil {
			t.Fatalf("%v: %s", err, l)
		}
		_, hooks := line["hooks"]
		_, counted := line["calls"]
		if _, puts := line["puts"]; hooks || counted || puts {
			continue
		}
		b, err := json.Marshal(plainly(line))
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, string(b))
	}
	return out
}

func plainly(v any) any {
	switch x := v.(type) {
	case json.Number: // 1 and 1.0 are one number
		if n, err := x.Int64(); err == nil {
			return n
		}
		f, _ := x.Float64()
		return f
	case map[string]any:
		if md, ok := x["metadata"].(map[string]any); ok {
			delete(md, "writes")
		}
		for k := range x {
			x[k] = plainly(x[k])
		}
	case []any:
		for i := range x {
			x[i] = plainly(x[i])
		}
		if len(x) == 3 && x[1] == "__resume__" {
			if answers, ok := x[2].([]any); ok {
				x[2] = answers[:min(1, len(answers))]
			}
		}
	}
	return v
}

// calls is how many calls of a trace change a thread.
func calls(golden []string) (n int) {
	for _, l := range golden {
		if strings.HasPrefix(l, `{"call":"run"`) || strings.HasPrefix(l, `{"updated"`) {
			n++
		}
	}
	return n
}

// Every scenario that LangGraph was recorded in, and that stops at least once, changes hands
// between Python and Go at each stop, on one database. What both show of it is what LangGraph
// alone showed: events, states, tasks, interrupts, histories, ids, and every stored field.
func TestScenariosHandedOver(t *testing.T) {
	server, err := pgtest.New()
	if err != nil {
		pgtest.Need(t, err)
	}
	t.Cleanup(server.Close)
	url := server.Database(t)
	python := pgtest.LangGraph(t)
	t.Chdir("../parity/pregel")
	var random atomic.Value
	opts := postgres.Options{Random: func() float64 { return random.Load().(func() float64)() }}
	if err := postgres.Setup(t.Context(), url, opts); err != nil {
		t.Fatal(err)
	}
	s, err := postgres.Open(t.Context(), url, opts)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	db, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(t.Context())
	tables := tablesOf(t, db)

	var p *player
	defer func() {
		if p != nil {
			p.end()
		}
	}()
	plays, changes, stop := 0, 0, map[string]bool{}
	for _, name := range traces.Scenarios() {
		for i, d := range []pregel.Durability{pregel.Sync, pregel.Exit} {
			want, err := traces.Golden(name, d)
			if os.IsNotExist(err) || err == nil && calls(want) < 2 {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			stop[name] = true
			if notHandedOver[name] != "" {
				continue
			}
			for _, first := range []string{"Python", "Go"} {
				if race.Enabled && (i == 0) != (first == "Go") {
					continue
				}
				t.Run(fmt.Sprint(name, "/", d, "/", first, " first"), func(t *testing.T) {
					if p == nil {
						p = newPlayer(t, python, url)
					}
					for _, table := range tables {
						if _, err := db.Exec(t.Context(), "DELETE FROM "+table); err != nil {
							t.Fatal(err)
						}
					}
					hang := time.AfterFunc(time.Minute, func() { _ = p.cmd.Process.Kill() })
					defer hang.Stop()
					ended := false
					defer func() {
						if !ended { // the programs are not at one call
							p.end()
							p = nil
						}
					}()
					byGo, byPython, err := traces.HandedOver(t, &p.Partner, name, d, first == "Python", func(f func() float64) saver.Saver {
						random.Store(f)
						return s
					})
					if err != nil {
						p.end() // and with it what it says
						t.Fatalf("%v\n%s", err, p.stderr)
					}
					ended = true
					plays++
					changes += calls(want) - 1
					for who, got := range map[string][]string{"Go": byGo, "Python": byPython} {
						if a, b, differ := traces.Differs(name, d, comparable(t, want), comparable(t, got)); differ {
							t.Errorf("what %s shows differs:\nLangGraph alone %s\n       in turns %s", who, a, b)
						}
					}
				})
			}
		}
	}
	fmt.Printf("handed over: %d of %d scenarios that stop, %d plays, %d changes of hands\n", len(stop)-len(notHandedOver), len(stop), plays, changes)
	for name, why := range notHandedOver {
		fmt.Printf("not handed over: %s: %s\n", name, why)
		if !stop[name] {
			t.Errorf("%s is no scenario that stops", name)
		}
	}
}

// tablesOf are the tables that hold threads.
func tablesOf(t *testing.T, db *pgx.Conn) (names []string) {
	t.Helper()
	rows, err := db.Query(t.Context(), "SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND tablename !~ 'migrations'")
	if err != nil {
		t.Fatal(err)
	}
	names, err = pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(names) < 4 {
		t.Fatal(names, err)
	}
	return names
}
