package guide

import (
	"context"
	"errors"
	"fmt"
	"log"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/memory"
)

type Base struct {
	Owner string `json:"owner"`
}

type Call struct {
	ID   string         `json:"id"`
	Args map[string]any `json:"args"`
}

type Agent struct {
	Base                         // its fields are fields of the state
	Messages []channel.Message   `json:"messages" state:"messages"`
	Calls    []Call              `json:"calls"`
	Cost     float64             `json:"cost" state:"add"`
	Seen     map[string]struct{} `json:"seen" state:"merge"`
	Deadline *time.Time          `json:"deadline"`
	cache    map[string]string   `json:"-"` // not part of the state
}

// step compiles a graph of one node.
func step[S any](t *testing.T, s saver.Saver, f func(context.Context, *S) (graph.Update, error)) *graph.Graph[S] {
	t.Helper()
	g, err := graph.For[S]().Node("step", f).Sequence(graph.Start, "step", graph.End).Compile(graph.Options{Saver: s, RoundTrip: true})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestStateTypes: a state of all these types is stored and read back as it was.
func TestStateTypes(t *testing.T) {
	s := memory.New(memory.Options{})
	by := time.Date(2030, 1, 2, 3, 4, 5, 6000, time.UTC)
	g := step(t, s, func(_ context.Context, a *Agent) (graph.Update, error) {
		a.cache = map[string]string{"not": "stored"}
		return graph.Write(&a.Cost, 0.5).
			And(graph.Write(&a.Calls, []Call{{ID: "1", Args: map[string]any{"n": 1}}})).
			And(graph.Write(&a.Seen, map[string]struct{}{"oslo": {}})), nil
	})
	if _, err := g.Run(t.Context(), pregel.Thread("t"), Agent{Base: Base{Owner: "ada"}, Deadline: &by, Cost: 1}); err != nil {
		t.Fatal(err)
	}
	state, err := g.State(t.Context(), pregel.Thread("t"))
	if err != nil {
		t.Fatal(err)
	}
	got := state.State
	if got.Owner != "ada" || got.Cost != 1.5 || len(got.Seen) != 1 || !got.Deadline.Equal(by) || got.cache != nil ||
		!reflect.DeepEqual(got.Calls, []Call{{ID: "1", Args: map[string]any{"n": int64(1)}}}) {
		t.Errorf("%+v", got)
	}
}

type Letter struct {
	Recipient string   `json:"recipient" state:"alias=to,alias=addressee"`
	Lines     []string `json:"lines" state:"append,alias=text"`
	Stamps    []Stamp  `json:"stamps"`
}

type Stamp struct {
	Cents int `json:"cents" state:"alias=value"`
}

func resume(ctx context.Context, g *graph.Graph[Letter], thread pregel.Address) error {
	_, err := g.Resume(ctx, thread, "yes")
	var unread *graph.StateError
	if errors.As(err, &unread) {
		log.Printf("thread %s: field %s, stored as %q: %v", unread.ThreadID, unread.Field, unread.Key, unread.Err)
	}
	return err
}

// TestAlias: fields that were renamed are read under their former names, and a stored value that
// the new type cannot hold is an error that names it.
func TestAlias(t *testing.T) {
	type formerStamp struct {
		Value int `json:"value"`
	}
	type former struct {
		To     string        `json:"to"`
		Text   []string      `json:"text" state:"append"`
		Stamps []formerStamp `json:"stamps"`
	}
	type other struct {
		Recipient int `json:"recipient"`
	}
	s := memory.New(memory.Options{})
	old := step(t, s, func(context.Context, *former) (graph.Update, error) { return nil, nil })
	if _, err := old.Run(t.Context(), pregel.Thread("t"), former{To: "Ada", Text: []string{"Hi"}, Stamps: []formerStamp{{Value: 95}}}); err != nil {
		t.Fatal(err)
	}
	g := step(t, s, func(_ context.Context, l *Letter) (graph.Update, error) {
		return graph.Write(&l.Lines, []string{"for " + l.Recipient}), nil
	})
	res, err := g.Run(t.Context(), pregel.Thread("t"), Letter{Lines: []string{"Bye"}})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"Hi", "Bye", "for Ada"}; !slices.Equal(res.State.Lines, want) {
		t.Errorf("lines %q, want %q", res.State.Lines, want)
	}
	if want := []Stamp{{Cents: 95}}; !slices.Equal(res.State.Stamps, want) {
		t.Errorf("stamps %v, want %v", res.State.Stamps, want)
	}
	numbers := step(t, s, func(context.Context, *other) (graph.Update, error) { return nil, nil })
	if _, err := numbers.Run(t.Context(), pregel.Thread("n"), other{Recipient: 7}); err != nil {
		t.Fatal(err)
	}
	var unread *graph.StateError
	if err := resume(t.Context(), g, pregel.Thread("n")); !errors.As(err, &unread) || unread.ThreadID != "n" || unread.Field != "Recipient" {
		t.Errorf("a number read as a text: %v", err)
	}
}

type Draft struct {
	Text  string   `json:"text"` // older threads
	Lines []string `json:"lines"`
}

func move(_ context.Context, d *Draft) (graph.Update, error) {
	if d.Text == "" {
		return nil, nil
	}
	return graph.Write(&d.Lines, []string{d.Text}).And(graph.Write(&d.Text, "")), nil
}

// TestMove: a value is moved to its new key once.
func TestMove(t *testing.T) {
	g := step(t, memory.New(memory.Options{}), move)
	for range 2 {
		res, err := g.Run(t.Context(), pregel.Thread("t"), Draft{Text: "Hi"})
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(strings.Join(res.State.Lines, ","), res.State.Text); got != "Hi" {
			t.Errorf("%+v", res.State)
		}
	}
}
