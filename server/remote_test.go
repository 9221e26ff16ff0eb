package server_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver/memory"
	"github.com/stele-go/stele/server"
	"github.com/stele-go/stele/server/client"
	"github.com/stele-go/stele/server/client/remote"
)

// counts asks side by side how many there are of each name, and fails once after the answer to
// "flaky".
func counts(t *testing.T, names ...string) *remote.Graph {
	t.Helper()
	b := graph.New(graph.Key("log", channel.Reduce(channel.Append[string])))
	flaky := true
	for _, name := range names {
		b.Node(name, func(ctx context.Context, _ any) (any, error) {
			n, err := pregel.AskFor[int](ctx, "how many "+name+"?")
			if err == nil && name == "flaky" && flaky {
				flaky, err = false, errors.New("flaky")
			}
			return object{"log": []string{fmt.Sprint(name, n)}}, err
		}).Edge(graph.Start, name)
	}
	h := open(t, t.TempDir(), func(c *server.Config) {
		c.Graphs["counts"] = must(b.Compile(graph.Options{Name: "counts", Saver: c.Saver}))
	})
	return remote.New(must(client.New(h.base)), "counts")
}

// calls is a graph that has a remote graph as its node.
func calls(g *remote.Graph) *pregel.Graph {
	return must(graph.New(graph.Key("log", nil)).Node("there", g.Node(remote.CallOptions{})).Edge(graph.Start, "there").
		Compile(graph.Options{Name: "here", Saver: memory.New(memory.Options{})}))
}

// A remote graph refuses an answer of the wrong type. Here the question waits as well, until there
// is one that it takes.
func TestRemoteAnswer(t *testing.T) {
	for _, byID := range []bool{false, true} {
		t.Run(fmt.Sprint("by id ", byID), func(t *testing.T) {
			g, at := calls(counts(t, "apples")), pregel.Thread("t")
			res := must(g.Invoke(t.Context(), at, object{"log": []string{}}))
			answer := func(v any) (*pregel.Result, error) {
				if byID {
					v = object{res.Interrupts[0].ID: v}
				}
				return g.Invoke(t.Context(), at, pregel.Command{Resume: v})
			}
			for _, wrong := range []string{"five", "six"} {
				var refused *pregel.AnswerError
				if res, err := answer(wrong); !errors.As(err, &refused) || !strings.Contains(err.Error(), "want an integer, got a string") {
					t.Fatalf("%s: %v, %v", wrong, res, err)
				}
				if st := must(g.GetState(t.Context(), at)); len(st.Interrupts) != 1 || st.Interrupts[0].ID != res.Interrupts[0].ID {
					t.Fatalf("waiting after %s: %+v", wrong, st.Interrupts)
				}
			}
			if !byID { // the answer is still the last one that was given
				var refused *pregel.AnswerError
				if res, err := g.Invoke(t.Context(), at, nil); !errors.As(err, &refused) {
					t.Fatalf("%v, %v", res, err)
				}
			}
			if res, err := answer(5); err != nil || len(res.Interrupts) > 0 || fmt.Sprint(res.Map()["log"]) != "[apples5]" {
				t.Fatalf("%v, %v", res, err)
			}
		})
	}
}

// Of several answers the remote graph takes those that are right. Each can be given alone.
func TestRemoteAnswers(t *testing.T) {
	for _, together := range []bool{false, true} {
		t.Run(fmt.Sprint("together ", together), func(t *testing.T) {
			g, at := calls(counts(t, "apples", "pears")), pregel.Thread("t")
			asked := must(g.Invoke(t.Context(), at, object{"log": []string{}})).Interrupts
			if len(asked) != 2 || asked[0].Value == asked[1].Value {
				t.Fatalf("%+v", asked)
			}
			if asked[0].Value == "how many pears?" { // side by side they have no order
				asked[0], asked[1] = asked[1], asked[0]
			}
			give := func(answers object, refusals bool, open int) *pregel.Result {
				t.Helper()
				res, err := g.Invoke(t.Context(), at, pregel.Command{Resume: answers})
				if refused := new(pregel.AnswerError); refusals != errors.As(err, &refused) || !refusals && err != nil {
					t.Fatalf("%v, %v", res, err)
				}
				if st := must(g.GetState(t.Context(), at)); len(st.Interrupts) != open {
					t.Fatalf("%d of %+v wait", open, st.Interrupts)
				}
				return res
			}
			apples, pears := asked[0].ID, asked[1].ID
			var res *pregel.Result
			if together {
				give(object{apples: "one", pears: 2}, true, 1)
				res = give(object{apples: 1}, false, 0)
			} else {
				give(object{pears: "two"}, true, 2)
				give(object{pears: 2}, false, 1)
				give(object{apples: "one"}, true, 1)
				res = must(g.Invoke(t.Context(), at, pregel.Command{Resume: 1}))
			}
			if fmt.Sprint(res.Map()["log"]) != "[apples1 pears2]" {
				t.Fatalf("%v", res.Map())
			}
		})
	}
}

// An answer that the remote graph took is not asked for again when the run fails behind it.
func TestRemoteFailure(t *testing.T) {
	g, at := calls(counts(t, "flaky")), pregel.Thread("t")
	must(g.Invoke(t.Context(), at, object{"log": []string{}}))
	var refused *pregel.AnswerError
	if _, err := g.Invoke(t.Context(), at, pregel.Command{Resume: 1}); !errors.Is(err, client.ErrRunFailed) || errors.As(err, &refused) {
		t.Fatal(err)
	}
	if res, err := g.Invoke(t.Context(), at, nil); err != nil || fmt.Sprint(res.Map()["log"]) != "[flaky1]" {
		t.Fatalf("%v, %v", res, err)
	}
}

// A remote graph as a node writes all that it ends with, as Python's RemoteGraph does. A node that
// calls it writes what is new.
func TestRemoteLists(t *testing.T) {
	h := newHouse(t)
	there := remote.New(must(client.New(h.base)), "simple")
	doubled := must(builder().Node("there", there.Node(remote.CallOptions{})).Edge(graph.Start, "there").Compile(graph.Options{Saver: memory.New(memory.Options{})}))
	if res := must(doubled.Invoke(t.Context(), pregel.Thread("t"), object{"log": []string{"in"}})); fmt.Sprint(res.Map()["log"]) != "[in in a b]" {
		t.Errorf("%v", res.Map())
	}
	type state struct {
		Text string   `json:"text"`
		Log  []string `json:"log" state:"append"`
	}
	once := must(graph.For[state]().Node("there", func(ctx context.Context, s *state) (graph.Update, error) {
		out, err := remote.Call[state](ctx, there, *s, remote.CallOptions{})
		if err != nil {
			return nil, err
		}
		return graph.Write(&s.Log, out.Log[len(s.Log):]), nil
	}).Edge(graph.Start, "there").Compile(graph.Options{Saver: memory.New(memory.Options{})}))
	res, err := once.Run(t.Context(), pregel.Thread("t"), state{Text: "hi", Log: []string{"in"}})
	if err != nil || fmt.Sprint(res.State) != "{hi [in a b]}" {
		t.Errorf("%+v, %v", res, err)
	}
	var mistyped *channel.TypeError
	task := func(ctx context.Context, _ *state) (graph.Update, error) {
		_, err := remote.Call[struct{ Log int }](ctx, there, object{"log": []string{"in"}}, remote.CallOptions{})
		return nil, err
	}
	wrong := must(graph.For[state]().Node("there", task).Edge(graph.Start, "there").Compile(graph.Options{Saver: memory.New(memory.Options{})}))
	if _, err := wrong.Run(t.Context(), pregel.Thread("t"), state{Text: "hi"}); !errors.As(err, &mistyped) {
		t.Errorf("%v", err)
	}
}
