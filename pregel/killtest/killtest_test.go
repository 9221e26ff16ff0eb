package killtest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/pregel/killtest"
	"github.com/stele-go/stele/saver/disk"
)

func TestMain(m *testing.M) {
	killtest.Main(life)
	os.Exit(m.Run())
}

// programVariable chooses what a process does.
const programVariable = "STELE_KILLTEST_PROGRAM"

type list struct {
	Done []string `json:"done" state:"append"`
}

// life runs three nodes that each leave a file. It may name files by chance, in which case a node
// that runs again leaves another.
func life(ctx context.Context, dir string) error {
	program := os.Getenv(programVariable)
	if program == "fails" {
		return errors.New("no such city")
	}
	if program == "panics" {
		panic("oh")
	}
	d, err := disk.Open(filepath.Join(dir, "state"), disk.Options{})
	if err != nil {
		return err
	}
	defer d.Close()
	node := func(name string) graph.NodeFunc[list] {
		return func(ctx context.Context, l *list) (graph.Update, error) {
			key, err := pregel.IdempotencyKey(ctx, "file")
			if err != nil {
				return nil, err
			}
			if program == "careless" {
				key = fmt.Sprint("process-", os.Getpid())
			}
			if err := os.WriteFile(filepath.Join(dir, name+"."+key), nil, 0o600); err != nil {
				return nil, err
			}
			if program != "blind" {
				killtest.Point()
			}
			return graph.Write(&l.Done, []string{name}), nil
		}
	}
	o := graph.Options{Saver: d}
	if program != "blind" {
		o.Hooks = killtest.Hooks(pregel.Hooks{})
	}
	g, err := graph.For[list]().Node("a", node("a")).Node("b", node("b")).Node("c", node("c")).
		Sequence(graph.Start, "a", "b", "c", graph.End).Compile(o)
	if err != nil {
		return err
	}
	at := pregel.Thread("t")
	snap, err := g.State(ctx, at)
	if err != nil {
		return err
	}
	var res *graph.Result[list]
	if snap.Status == "" {
		res, err = g.Do(ctx, at, graph.Command[list]{Input: func(l *list) graph.Update { return graph.Write(&l.Done, []string{"input"}) }})
	} else {
		res, err = g.Continue(ctx, at)
	}
	if err != nil {
		return err
	}
	if !slices.Equal(res.State.Done, []string{"input", "a", "b", "c"}) {
		return fmt.Errorf("the state is %v", res.State)
	}
	fmt.Println("ended")
	return nil
}

// once says which nodes left no file, or several.
func once(dir string) error {
	for _, name := range []string{"a", "b", "c"} {
		if files, err := filepath.Glob(filepath.Join(dir, name+".*")); err != nil || len(files) != 1 {
			return errors.Join(err, fmt.Errorf("node %s left %v", name, files))
		}
	}
	return nil
}

// TestRun: a program that goes on where it was is killed as often as was asked, comes to its end
// each time, and is checked.
func TestRun(t *testing.T) {
	var out bytes.Buffer
	killed, checked := 0, 0
	r, err := killtest.Run(t.Context(), killtest.Options{Kills: 12, Dir: t.TempDir(), Out: &out,
		Killed: func() { killed++ },
		Check: func(dir string) error {
			checked++
			return once(dir)
		}})
	t.Logf("%+v", r)
	if err != nil {
		t.Fatal(err)
	}
	if r.Kills != 12 || killed != 12 || r.Rounds < 2 || checked != r.Rounds || r.Points < 10 || r.Seed == 0 || strings.Count(out.String(), "ended") < r.Rounds {
		t.Errorf("%+v, %d killed, %d checked", r, killed, checked)
	}
}

// TestBadProgramsAreNoticed: each failure says what it is and how to repeat it.
func TestBadProgramsAreNoticed(t *testing.T) {
	for program, want := range map[string]string{
		"careless": "node ", "fails": "no such city", "panics": "oh", "blind": "no points",
	} {
		t.Setenv(programVariable, program)
		points := killtest.Options{Kills: 40, Dir: t.TempDir(), Seed: 7, Check: once}
		if program == "blind" {
			points.Check = nil
		}
		_, err := killtest.Run(t.Context(), points)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "seed 7") {
			t.Errorf("%s: %v", program, err)
		}
	}
}

func TestWrongOptions(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := killtest.Run(ended, killtest.Options{Dir: t.TempDir()}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	for name, o := range map[string]killtest.Options{"no directory": {}, "negative": {Kills: -1, Dir: t.TempDir()}} {
		if _, err := killtest.Run(t.Context(), o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestHooks: each hook but Span is one of Hooks, and one that was there is still called. Outside of
// a process under test a point does nothing.
func TestHooks(t *testing.T) {
	killtest.Point()
	empty := reflect.ValueOf(killtest.Hooks(pregel.Hooks{}))
	calls, own := 0, pregel.Hooks{}
	fields := reflect.ValueOf(&own).Elem()
	for i := range fields.NumField() {
		if fields.Type().Field(i).Name == "Span" {
			continue
		}
		fields.Field(i).Set(reflect.MakeFunc(fields.Field(i).Type(), func([]reflect.Value) []reflect.Value {
			calls++
			return nil
		}))
	}
	wrapped := reflect.ValueOf(killtest.Hooks(own))
	for i := range fields.NumField() {
		name := fields.Type().Field(i).Name
		if name == "Span" {
			continue
		}
		if empty.Field(i).IsNil() {
			t.Errorf("%s is no point", name)
			continue
		}
		args := make([]reflect.Value, fields.Field(i).Type().NumIn())
		for j := range args {
			args[j] = reflect.Zero(fields.Field(i).Type().In(j))
		}
		before := calls
		if wrapped.Field(i).Call(args); calls != before+1 {
			t.Errorf("%s is not called", name)
		}
		empty.Field(i).Call(args)
	}
}
