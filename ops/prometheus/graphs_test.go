package prometheus_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/stele-go/stele/agent"
	"github.com/stele-go/stele/agent/model"
	"github.com/stele-go/stele/message"
	steleprom "github.com/stele-go/stele/ops/prometheus"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver/memory"
)

// worked is a collector that has counted something of each kind.
func worked(t *testing.T) *steleprom.GraphCollector {
	t.Helper()
	c := steleprom.NewGraphCollector()
	answer := message.AI("Hello.")
	answer.Usage = &message.Usage{InputTokens: 30, OutputTokens: 4}
	m := model.NewScripted(model.Fail(errors.New("busy")), model.Answer{Message: answer}, model.Fail(errors.New("no")), model.Fail(errors.New("no"))).
		WithProfile(model.Profile{MaxInputTokens: 7})
	counted := c.Model("m-1", m)
	if model.ProfileOf(counted).MaxInputTokens != 7 {
		t.Error("the profile is lost")
	}
	ask := agent.Middleware{Name: "ask", BeforeAgent: func(ctx context.Context, _ map[string]any) (any, error) {
		_, err := pregel.Ask(ctx, "sure?")
		return nil, err
	}}
	g, err := agent.New(counted, agent.Options{Name: "bot", Middleware: []agent.Middleware{ask},
		Defaults: graph.NodeOptions{Retry: []pregel.RetryPolicy{{MaxAttempts: 2, InitialInterval: time.Nanosecond, NoJitter: true}}},
		Graph:    graph.Options{Version: "v1", Saver: memory.New(memory.Options{}), Hooks: c.Hooks(pregel.Hooks{})}})
	if err != nil {
		t.Fatal(err)
	}
	at := pregel.Thread("t")
	for i, fails := range []bool{false, true} {
		if _, err := g.Invoke(ctx, at, agent.Say("hi")); err != nil {
			t.Fatal(err)
		}
		if _, err := g.Invoke(ctx, at, pregel.Command{Resume: "yes"}); (err != nil) != fails {
			t.Fatalf("run %d: %v", i, err)
		}
	}
	return c
}

// TestGraphCollector: runs, supersteps, nodes, retries, questions, calls and tokens are counted.
func TestGraphCollector(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(worked(t))
	got := scrape(t, reg)
	for name, want := range map[string]float64{
		`stele_runs_total{graph="bot",outcome="ok"}`: 3, `stele_runs_total{graph="bot",outcome="failed"}`: 1,
		`stele_runs_active{graph="bot"}`: 0, `stele_run_duration_seconds_count{graph="bot"}`: 4,
		`stele_node_runs_total{graph="bot",node="ask.before_agent",outcome="interrupted"}`: 2,
		`stele_node_runs_total{graph="bot",node="ask.before_agent",outcome="ok"}`:          2,
		`stele_node_runs_total{graph="bot",node="model",outcome="ok"}`:                     1,
		`stele_node_runs_total{graph="bot",node="model",outcome="failed"}`:                 1,
		`stele_node_duration_seconds_count{graph="bot",node="model"}`:                      2,
		`stele_node_retries_total{graph="bot",node="model"}`:                               2,
		`stele_model_calls_total{model="m-1",outcome="ok"}`:                                1,
		`stele_model_calls_total{model="m-1",outcome="failed"}`:                            3,
		`stele_model_call_duration_seconds_count{model="m-1"}`:                             4,
		`stele_model_tokens_total{kind="input",model="m-1"}`:                               30,
		`stele_model_tokens_total{kind="output",model="m-1"}`:                              4,
	} {
		if v, ok := got[name]; !ok || v != want {
			t.Errorf("%s is %v (there: %v), want %v", name, v, ok, want)
		}
	}
	if got[`stele_run_versions_total{graph="bot",version="v1"}`] != 4 {
		t.Error("runs are not counted by the version of the graph")
	}
	if got[`stele_supersteps_total{graph="bot"}`] < 4 {
		t.Error("supersteps are not counted")
	}
	problems, err := testutil.GatherAndLint(reg)
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	if err != nil {
		t.Error(err)
	}
}

// TestOutcomes: how a run or a call ended has a name of its own.
func TestOutcomes(t *testing.T) {
	c := steleprom.NewGraphCollector()
	kept, ended := 0, 0
	hooks := c.Hooks(pregel.Hooks{Span: func(ctx context.Context, _ pregel.Span) (context.Context, func(error)) {
		if kept++; kept == 1 {
			return ctx, nil
		}
		return ctx, func(error) { ended++ }
	}})
	for _, err := range []error{nil, pregel.ErrDrained, pregel.ErrConflict, fmt.Errorf("gone: %w", context.Canceled), errors.New("oh"), &pregel.ParentCommandError{}} {
		_, end := hooks.Span(ctx, pregel.Span{Kind: pregel.SpanRun, Run: pregel.RunInfo{Graph: "g"}})
		end(err)
	}
	if kept != 6 || ended != 5 {
		t.Errorf("the hook that was there: %d calls, %d ends", kept, ended)
	}
	for range c.Model("m", model.NewScripted(model.Text("one two three"))).Stream(ctx, model.Request{}) {
		break // the caller goes away
	}
	reg := prometheus.NewRegistry()
	reg.MustRegister(c)
	got := scrape(t, reg)
	for name, want := range map[string]float64{
		`stele_runs_total{graph="g",outcome="ok"}`: 2, `stele_runs_total{graph="g",outcome="drained"}`: 1, `stele_runs_total{graph="g",outcome="conflict"}`: 1,
		`stele_runs_total{graph="g",outcome="cancelled"}`: 1, `stele_runs_total{graph="g",outcome="failed"}`: 1,
		`stele_model_calls_total{model="m",outcome="cancelled"}`: 1,
	} {
		if got[name] != want {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
}

// TestLabelsAreBounded: names that are made at run time share a series when they are too many.
func TestLabelsAreBounded(t *testing.T) {
	c := steleprom.NewGraphCollector()
	h := c.Hooks(pregel.Hooks{})
	for i := range 300 {
		c.Model(fmt.Sprint("m", i), model.NewScripted())
		_, end := h.Span(ctx, pregel.Span{Kind: pregel.SpanTask, Run: pregel.RunInfo{Graph: fmt.Sprint("g", i)}, Task: &pregel.TaskInfo{Node: fmt.Sprint("n", i)}})
		end(nil)
	}
	reg := prometheus.NewRegistry()
	reg.MustRegister(c)
	got := scrape(t, reg)
	if v := got[`stele_node_runs_total{graph="other",node="other",outcome="ok"}`]; v != 100 {
		t.Errorf("%v tasks have no series of their own, want 100", v)
	}
	if _, ok := got[`stele_node_runs_total{graph="g199",node="n199",outcome="ok"}`]; !ok {
		t.Error("the 200th has no series of its own")
	}
}
