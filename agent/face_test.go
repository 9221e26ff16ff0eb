package agent_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stele-go/stele/agent"
	"github.com/stele-go/stele/agent/model"
	"github.com/stele-go/stele/agent/tool"
	"github.com/stele-go/stele/message"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/memory"
)

var (
	start = context.Background()
	at    = pregel.Thread("t")
	brisk = []pregel.RetryPolicy{{InitialInterval: time.Nanosecond, NoJitter: true}}
)

// TestDefaults: the model and each tool have a time limit, and are tried again.
func TestDefaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		slow := tool.Must(tool.New("slow", "", tool.Unchecked(`{"type":"object"}`), func(ctx context.Context, _ struct{}) (string, error) {
			if tries++; tries == 1 {
				<-ctx.Done() // the limit ends it
				return "", ctx.Err()
			}
			return "done", nil
		}))
		m := model.NewScripted(model.Fail(errors.New("busy")), model.Calls(echo("1", "x")), model.Text("bye"))
		defs := slow.Definition()
		defs.Name = "echo"
		g, err := agent.New(m, agent.Options{Tools: []tool.Tool{renamed{slow, defs}}, Defaults: graph.NodeOptions{Timeout: pregel.Timeout(300*time.Millisecond, 0), Retry: brisk}})
		if err != nil {
			t.Fatal(err)
		}
		res, err := g.Invoke(start, pregel.Address{}, agent.Say("hi"))
		if err != nil || tries != 2 || len(m.Requests()) != 3 {
			t.Errorf("%v, %d tries, %d requests: %v", err, tries, len(m.Requests()), res)
		}
	})
}

type renamed struct {
	tool.Tool
	def tool.Definition
}

func (r renamed) Definition() tool.Definition { return r.def }

type wrapped struct{ tool.Tool }

func (w wrapped) Unwrap() tool.Tool { return w.Tool }

// TestDirectThroughWrapper: a tool around one that is ReturnDirect is ReturnDirect.
func TestDirectThroughWrapper(t *testing.T) {
	for _, direct := range []bool{false, true} {
		echo1 := tools([]string{"echo"})[0]
		if direct {
			echo1 = agent.ReturnDirect(echo1)
		}
		m := model.NewScripted(model.Calls(echo("1", "x")), model.Text("bye"))
		g, err := agent.New(m, agent.Options{Tools: []tool.Tool{wrapped{echo1}}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := g.Invoke(start, pregel.Address{}, agent.Say("hi")); err != nil || (len(m.Requests()) == 1) != direct {
			t.Errorf("direct %v: %v, %d requests", direct, err, len(m.Requests()))
		}
	}
}

// TestDynamicPrompt: each call has a prompt of its own, of two the inner one's; an error ends the run.
func TestDynamicPrompt(t *testing.T) {
	m := model.NewScripted(model.Calls(echo("1", "x")), model.Text("bye"), model.Text("never"))
	n := 0
	g, err := agent.New(m, agent.Options{System: "old", Tools: tools([]string{"echo"}), Middleware: []agent.Middleware{
		agent.DynamicPrompt(func(_ context.Context, r agent.ModelRequest) (string, error) {
			if n++; n == 3 {
				return "", errors.New("no prompt")
			}
			return r.System.Text() + strings.Repeat("!", n), nil
		})}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.Invoke(start, pregel.Address{}, agent.Say("hi")); err != nil {
		t.Fatal(err)
	}
	for i, r := range m.Requests() {
		if want := "old" + strings.Repeat("!", i+1); r.Messages[0].Text() != want {
			t.Errorf("call %d: %q", i, r.Messages[0].Text())
		}
	}
	if _, err := g.Invoke(start, pregel.Address{}, agent.Say("hi")); err == nil || len(m.Requests()) != 2 {
		t.Errorf("%v, %d requests", err, len(m.Requests()))
	}
	var list []agent.Middleware
	for _, text := range []string{"first", "second"} {
		one := agent.DynamicPrompt(func(_ context.Context, r agent.ModelRequest) (string, error) {
			return fmt.Sprint(text, " of ", len(r.State[agent.KeyMessages].(message.List))), nil
		})
		one.Name = text
		list = append(list, one)
	}
	m = model.NewScripted(model.Text("bye"))
	must(must(agent.New(m, agent.Options{System: "old", Middleware: list})).Invoke(start, pregel.Address{}, agent.Say("hi")))
	if got := m.Requests()[0].Messages[0].Text(); got != "second of 1" {
		t.Errorf("the last of two is %q", got)
	}
}

// TestDecide: a person decides each call of a question, and may answer again after a crash.
func TestDecide(t *testing.T) {
	m := model.NewScripted(model.Calls(echo("1", "x"), echo("2", "y")), model.Text("bye"))
	g, err := agent.New(m, agent.Options{Tools: tools([]string{"echo"}), Graph: graph.Options{Saver: memory.New(memory.Options{})},
		Middleware: []agent.Middleware{agent.AskPerson(agent.Review{Tools: map[string]agent.Gate{"echo": {}}})}})
	if err != nil {
		t.Fatal(err)
	}
	res, err := g.Invoke(start, at, agent.Say("hi"))
	if err != nil || len(res.Interrupts) != 1 {
		t.Fatalf("%v, %v", err, res)
	}
	answer, err := agent.Decide(res.Interrupts[0], func(a agent.ActionRequest) agent.Decision {
		if a.Args["text"] == "x" {
			return agent.Decision{Type: agent.Reject, Message: "no"}
		}
		return agent.Decision{Type: agent.Approve}
	})
	if err != nil {
		t.Fatal(err)
	}
	var words string
	for e, err := range g.Stream(start, at, answer, pregel.RunOptions{Modes: []pregel.Mode{pregel.ModeMessages}}) {
		if err != nil {
			t.Fatal(err)
		}
		words += agent.Words(e)
	}
	if words != "bye" {
		t.Errorf("the words are %q", words)
	}
	state, err := g.GetState(start, at)
	if err != nil {
		t.Fatal(err)
	}
	list, err := agent.Messages(state.Map())
	if err != nil || len(list) != 5 || !strings.Contains(list[2].Text(), "reason: no") || strings.Contains(list[3].Text(), "reject") {
		t.Errorf("%v, %v", err, list)
	}
	var wrong *channel.TypeError
	if _, err := agent.Decide(pregel.Interrupt{Value: "sure?"}, nil); !errors.As(err, &wrong) {
		t.Errorf("another question: %v", err)
	}
	if list, err := agent.Messages(map[string]any{}); list != nil || err != nil {
		t.Errorf("no messages: %v, %v", list, err)
	}
	if agent.Words(pregel.Event{}) != "" {
		t.Error("an event of another mode has words")
	}
}

// TestName: words have the name of the agent that says them; one without a name has, as in
// LangChain, that of the agent around. So have the messages of the model, and the checkpoints, also
// those of the agent inside.
func TestName(t *testing.T) {
	for inner, want := range map[string]string{"": "outer", "inner": "inner"} {
		helper := must(agent.New(model.NewScripted(model.Text("inside")), agent.Options{Name: inner}))
		help := must(tool.New("help", "Helps.", object, func(ctx context.Context, _ struct{}) (string, error) {
			res, err := helper.Invoke(ctx, pregel.Inside(), agent.Say("help"))
			if err != nil {
				return "", err
			}
			list, err := agent.Messages(res.Map())
			return list[len(list)-1].Text(), err
		}))
		m := model.NewScripted(model.Answer{Message: message.AI("asking", message.ToolCall{Name: "help", ID: "1"})}, model.Text("outside"))
		s := memory.New(memory.Options{})
		g := must(agent.New(m, agent.Options{Name: "outer", Tools: []tool.Tool{help}, Graph: graph.Options{Saver: s}}))
		names := map[string]any{}
		run := pregel.RunOptions{Modes: []pregel.Mode{pregel.ModeMessages}, Subgraphs: true, Metadata: map[string]any{"who": "me"}}
		for e, err := range g.Stream(start, at, agent.Say("hi"), run) {
			if err != nil {
				t.Fatal(err)
			}
			if words := agent.Words(e); words != "" {
				names[words] = e.Data.(pregel.MessageEvent).Metadata["lc_agent_name"]
			}
		}
		if names["inside"] != want || names["asking"] != "outer" || names["outside"] != "outer" {
			t.Errorf("inner %q: %v", inner, names)
		}
		for _, m := range must(agent.Messages(must(g.GetState(start, at)).Map())) {
			if m.Type == message.TypeAI && m.Name != "outer" {
				t.Errorf("inner %q: %q is said by %q", inner, m.Text(), m.Name)
			}
		}
		inside := 0
		for tup, err := range s.List(start, saver.Query{ThreadID: at.ThreadID}) {
			if err != nil {
				t.Fatal(err)
			}
			if tup.Config.Namespace != "" {
				inside++
			}
			stored := "outer"
			if tup.Config.Namespace != "" {
				stored = want
			}
			if m := tup.Metadata; m["lc_agent_name"] != stored || m["who"] != "me" || m["ls_integration"] != "langchain_create_agent" {
				t.Errorf("inner %q: a checkpoint of %q has %v", inner, tup.Config.Namespace, m)
			}
		}
		if inside == 0 {
			t.Errorf("inner %q: no checkpoint", inner)
		}
	}
}

// TestNoName: the words of an agent without a name have none.
func TestNoName(t *testing.T) {
	g := must(agent.New(model.NewScripted(model.Text("hello")), agent.Options{}))
	words := 0
	for e, err := range g.Stream(start, at, agent.Say("hi"), pregel.RunOptions{Modes: []pregel.Mode{pregel.ModeMessages}}) {
		if err != nil {
			t.Fatal(err)
		}
		words += len(agent.Words(e))
		if name, ok := e.Data.(pregel.MessageEvent).Metadata["lc_agent_name"]; ok {
			t.Errorf("the name is %v", name)
		}
	}
	if words == 0 {
		t.Error("no words")
	}
}
