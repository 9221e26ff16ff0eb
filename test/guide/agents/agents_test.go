package agents

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/stele-go/stele/agent"
	"github.com/stele-go/stele/agent/model"
	"github.com/stele-go/stele/agent/providers/anthropic"
	"github.com/stele-go/stele/agent/providers/genai"
	"github.com/stele-go/stele/agent/providers/mcp"
	"github.com/stele-go/stele/agent/providers/openai"
	"github.com/stele-go/stele/agent/providers/schema"
	"github.com/stele-go/stele/agent/tool"
	"github.com/stele-go/stele/message"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/memory"
)

// mails are the mails that the tool of that name has sent.
var mails []string

var weather = tool.Must(schema.Tool("weather", "", func(context.Context, struct {
	City string `json:"city"`
}) (string, error) {
	return "rain", nil
}))

var mail = tool.Must(mailer(func(_ context.Context, key string, l letter) error {
	if key == "" {
		return errors.New("no key")
	}
	mails = append(mails, l.To)
	return nil
}))

type letter struct {
	To   string `json:"to" jsonschema:"an address"`
	Text string `json:"text"`
}

func mailer(send func(ctx context.Context, key string, l letter) error) (tool.Tool, error) {
	return schema.Tool("mail", "Sends a mail.", func(ctx context.Context, l letter) (string, error) {
		key, err := tool.IdempotencyKey(ctx) // the same after a crash
		if err != nil {
			return "", err
		}
		return "sent", send(ctx, key, l)
	})
}

// TestMain lets this program be the MCP server of the page, under its name.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) != "mcp-files" {
		os.Exit(m.Run())
	}
	s := sdk.NewServer(&sdk.Implementation{Name: "files", Version: "1"}, nil)
	sdk.AddTool(s, &sdk.Tool{Name: "read"}, func(context.Context, *sdk.CallToolRequest, struct{ Name string }) (*sdk.CallToolResult, any, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: os.Args[1] + ": be kind"}}}, nil, nil
	})
	if err := s.Run(context.Background(), &sdk.StdioTransport{}); err != nil {
		log.Fatal(err)
	}
}

func travel(ctx context.Context, m model.Model, s saver.Saver, weather, mail tool.Tool) error {
	g, err := agent.New(m, agent.Options{
		System: "You are a travel agent.",
		Tools:  []tool.Tool{weather, mail},
		Graph:  graph.Options{Saver: s},
	})
	if err != nil {
		return err
	}
	res, err := g.Invoke(ctx, pregel.Thread("ada"), agent.Say("Will I need a coat in Oslo?"))
	if err != nil {
		return err
	}
	log.Print(res.Map()["messages"])
	return words(ctx, g)
}

func words(ctx context.Context, g *pregel.Graph) error {
	words := pregel.RunOptions{Modes: []pregel.Mode{pregel.ModeMessages}}
	for e, err := range g.Stream(ctx, pregel.Thread("ada"), agent.Say("And on Sunday?"), words) {
		if err != nil {
			return err
		}
		if part, ok := e.Data.(pregel.MessageEvent).Message.(message.Chunk); ok {
			fmt.Print(part.Text())
		}
	}
	return nil
}

// TestAgent: the agent of the page calls its tool, remembers, and is heard word by word.
func TestAgent(t *testing.T) {
	m := model.NewScripted(
		model.Calls(message.ToolCall{Name: "weather", ID: "1", Args: map[string]any{"city": "Oslo"}}),
		model.Text("It rains."),
		model.Text("On Sunday too."),
	)
	if err := travel(t.Context(), m, memory.New(memory.Options{}), weather, mail); err != nil {
		t.Fatal(err)
	}
	requests := m.Requests()
	if n := len(requests); n != 3 {
		t.Fatalf("%d requests", n)
	}
	var said []string
	for _, x := range requests[2].Messages {
		said = append(said, x.Text())
	}
	if want := []string{"You are a travel agent.", "Will I need a coat in Oslo?", "", "rain", "It rains.", "And on Sunday?"}; !slices.Equal(said, want) {
		t.Errorf("the model saw %q, want %q", said, want)
	}
}

func providers(ctx context.Context) error {
	claude, err := anthropic.New(anthropic.Options{Model: "claude-sonnet-4-5", MaxTokens: 8000})
	if err != nil {
		return err
	}
	local, err := openai.New(openai.Options{Model: "qwen3", BaseURL: "http://localhost:11434/v1", Settings: map[string]any{"temperature": 0.2}})
	if err != nil {
		return err
	}
	gemini, err := genai.New(ctx, genai.Options{Model: "gemini-2.5-flash", Retry: model.Retry{Retries: 5}})
	if err != nil {
		return err
	}
	for _, m := range []model.Model{claude, local, gemini} {
		answer, err := model.Call(ctx, m, model.Request{Messages: []message.Message{message.Human("Hi")}})
		var refused *model.ProviderError
		if errors.As(err, &refused) {
			log.Print(refused.Status, refused.Temporary, refused.RetryAfter())
			continue
		}
		if err != nil {
			return err
		}
		log.Print(answer.Text(), answer.Usage, answer.ResponseMetadata)
	}
	return nil
}

// redirect sends every request to one server, and says to which host it was to go.
type redirect struct {
	to http.RoundTripper
	at string
}

// RoundTrip implements http.RoundTripper.
func (r redirect) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Set("Meant-For", req.URL.Host)
	req.URL.Scheme, req.URL.Host = "http", r.at
	return r.to.RoundTrip(req)
}

// TestProviders: three providers are asked in their own languages. One of them refuses, which does
// not keep the next from being asked.
func TestProviders(t *testing.T) {
	answers := map[string]string{
		"localhost:11434": `data: {"id":"1","model":"qwen3","choices":[{"index":0,"delta":{"content":"Hello"},"finish_reason":null}]}` + "\n\n" +
			`data: {"id":"1","model":"qwen3","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n",
		"generativelanguage.googleapis.com": `data: {"candidates":[{"content":{"parts":[{"text":"Hello"}],"role":"model"},"index":0,"finishReason":"STOP"}],"modelVersion":"gemini-2.5-flash","responseId":"r1"}` + "\n\n",
	}
	var asked []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Header.Get("Meant-For")
		asked = append(asked, host)
		if answers[host] == "" {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, `{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}`)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, answers[host])
	}))
	defer s.Close()
	transport := http.DefaultTransport
	http.DefaultTransport = redirect{transport, strings.TrimPrefix(s.URL, "http://")}
	defer func() { http.DefaultTransport = transport }()
	for name, value := range map[string]string{"ANTHROPIC_API_KEY": "wrong", "ANTHROPIC_BASE_URL": "", "OPENAI_API_KEY": "", "OPENAI_BASE_URL": "", "GEMINI_API_KEY": "key", "GOOGLE_API_KEY": "", "GOOGLE_GEMINI_BASE_URL": ""} {
		if t.Setenv(name, value); value == "" {
			os.Unsetenv(name) // and is set again behind the test
		}
	}
	if err := providers(t.Context()); err != nil {
		t.Error(err)
	}
	if want := []string{"api.anthropic.com", "localhost:11434", "generativelanguage.googleapis.com"}; !slices.Equal(asked, want) {
		t.Errorf("asked %q, want %q", asked, want)
	}
}

func withoutProvider(ctx context.Context) error {
	m := model.NewScripted(
		model.Calls(message.ToolCall{Name: "weather", ID: "1", Args: map[string]any{"city": "Oslo"}}),
		model.Text("It rains."),
	)
	answer, err := model.Collect(ctx, m, model.Request{Messages: []message.Message{message.Human("Hi")}})
	if err != nil {
		return err
	}
	log.Print(answer.ToolCalls, len(m.Requests()))
	if len(answer.ToolCalls) != 1 || len(m.Requests()) != 1 {
		return fmt.Errorf("%v after %d requests", answer.ToolCalls, len(m.Requests()))
	}
	return nil
}

func TestWithoutProvider(t *testing.T) {
	if err := withoutProvider(t.Context()); err != nil {
		t.Error(err)
	}
}

func handbook(ctx context.Context, m model.Model) error {
	files, err := mcp.Connect(ctx, mcp.Command("mcp-files", "/srv/docs"), mcp.Options{Prefix: "files_"})
	if err != nil {
		return err
	}
	defer files.Close()
	tools, err := files.Tools(ctx)
	if err != nil {
		return err
	}
	g, err := agent.New(m, agent.Options{Tools: tools})
	if err != nil {
		return err
	}
	log.Print(g.Invoke(ctx, pregel.Address{}, agent.Say("What is in the handbook?")))
	return nil
}

// TestMCP: the page's server is this program, which finds it under its name.
func TestMCP(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Symlink(self, filepath.Join(dir, "mcp-files")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	m := model.NewScripted(
		model.Calls(message.ToolCall{Name: "files_read", ID: "1", Args: map[string]any{"Name": "handbook"}}),
		model.Text("Be kind."),
	)
	if err := handbook(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	requests := m.Requests()
	if n := len(requests); n != 2 {
		t.Fatalf("%d requests", n)
	}
	if last := requests[1].Messages[len(requests[1].Messages)-1]; !strings.Contains(last.Text(), "/srv/docs: be kind") {
		t.Errorf("the server said %q", last.Text())
	}
}

func person(ctx context.Context, m model.Model, s saver.Saver, weather, mail tool.Tool) error {
	g, err := agent.New(m, agent.Options{
		Tools: []tool.Tool{weather, mail},
		Middleware: []agent.Middleware{
			agent.AskPerson(agent.Review{Tools: map[string]agent.Gate{"mail": {}}}),
			agent.LimitModelCalls(agent.Limit{Run: 20}),
			agent.RetryModel(agent.Retry{Stop: true}),
		},
		Graph: graph.Options{Saver: s},
	})
	if err != nil {
		return err
	}
	res, err := g.Invoke(ctx, pregel.Thread("ada"), agent.Say("Mail the forecast to Bob."))
	if err != nil {
		return err
	}
	for _, q := range res.Interrupts {
		answer, err := agent.Decide(q, func(a agent.ActionRequest) agent.Decision { // for each call
			return agent.Decision{Type: agent.Approve} // show a.Name and a.Args to a person
		})
		if err != nil {
			return err
		}
		if _, err := g.Invoke(ctx, pregel.Thread("ada"), answer); err != nil {
			return err
		}
	}
	return nil
}

// TestPerson: the mail goes out after it was approved, once.
func TestPerson(t *testing.T) {
	m := model.NewScripted(
		model.Calls(message.ToolCall{Name: "mail", ID: "1", Args: map[string]any{"to": "Bob", "text": "Rain."}}),
		model.Text("Done."),
	)
	if err := person(t.Context(), m, memory.New(memory.Options{}), weather, mail); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(mails, []string{"Bob"}) {
		t.Errorf("mails to %q", mails)
	}
}

// short is an agent with the middleware of the page.
func short(ctx context.Context, m model.Model, input map[string]any) ([]message.Message, error) {
	brief := agent.Middleware{
		Name: "brief",
		WrapModel: func(ctx context.Context, r agent.ModelRequest, next agent.ModelHandler) (agent.ModelResponse, error) {
			r.System = message.System("Answer in one sentence.")
			return next(ctx, r)
		},
		Jumps: []agent.Jump{agent.JumpEnd},
		BeforeModel: func(_ context.Context, state map[string]any) (any, error) {
			list, err := agent.Messages(state)
			if err != nil || len(list) < 100 {
				return nil, err
			}
			return map[string]any{"jump_to": agent.JumpEnd, "messages": message.AI("Let us begin anew.")}, nil
		},
	}
	log.Print(brief.Name)
	g, err := agent.New(m, agent.Options{Middleware: []agent.Middleware{brief}})
	if err != nil {
		return nil, err
	}
	res, err := g.Invoke(ctx, pregel.Address{}, input)
	if err != nil {
		return nil, err
	}
	return agent.Messages(res.Map())
}

// TestMiddleware: the model is told to be brief, and a conversation of a hundred messages ends.
func TestMiddleware(t *testing.T) {
	m := model.NewScripted(model.Text("Yes."))
	list, err := short(t.Context(), m, agent.Say("Is it late?"))
	if err != nil || list[len(list)-1].Text() != "Yes." {
		t.Fatal(list, err)
	}
	if first := m.Requests()[0].Messages[0]; first.Text() != "Answer in one sentence." {
		t.Errorf("the model was told %q", first.Text())
	}
	var long []message.Message
	for range 100 {
		long = append(long, message.Human("Why?"))
	}
	list, err = short(t.Context(), m, map[string]any{"messages": long})
	if err != nil || list[len(list)-1].Text() != "Let us begin anew." || len(m.Requests()) != 1 {
		t.Errorf("%v after %d requests, %v", list[len(list)-1], len(m.Requests()), err)
	}
}

func handoff(to string) tool.Tool {
	return tool.Must(tool.New("give_to_"+to, "Hands over to "+to+".", tool.Unchecked(`{"type":"object"}`),
		func(ctx context.Context, _ struct{}) (pregel.Command, error) {
			call, _ := tool.CallOf(ctx)
			state, err := tool.State[message.State](ctx)
			messages := slices.Concat(message.List{message.Remove(message.RemoveAllID)}, state.Messages,
				message.List{message.ToolResult(call.ToolCall, to+" takes over")}) // in place of what the team has
			return pregel.Command{Graph: pregel.Parent, Goto: []any{to}, Update: map[string]any{"messages": messages}}, err
		}))
}

func team(models map[string]model.Model, add tool.Tool, s saver.Saver) (*pregel.Graph, error) {
	b := graph.New(graph.Key("messages", message.Channel(nil))).Edge(graph.Start, "supervisor")
	for _, o := range []agent.Options{
		{Name: "supervisor", System: "You decide who works next.", Tools: []tool.Tool{handoff("mathematician"), handoff("poet")}},
		{Name: "mathematician", System: "You compute.", Tools: []tool.Tool{add}},
		{Name: "poet", System: "You write verses."},
	} {
		member, err := agent.New(models[o.Name], o)
		if err != nil {
			return nil, err
		}
		if o.Name == "supervisor" { // its tools lead to the others, which the graph is told to check and to draw
			b.Subgraph(o.Name, member, graph.NodeOptions{Targets: []string{"mathematician", "poet"}})
		} else {
			b.Subgraph(o.Name, member).Edge(o.Name, "supervisor")
		}
	}
	return b.Compile(graph.Options{Name: "team", Saver: s})
}

// TestTeam: agents speak in the order in which they were handed the conversation, and each call of a tool
// is answered once.
func TestTeam(t *testing.T) {
	call := func(name string, args map[string]any) model.Answer {
		return model.Calls(message.ToolCall{Name: name, ID: name, Args: args})
	}
	models := map[string]model.Model{
		"supervisor":    model.NewScripted(call("give_to_mathematician", nil), call("give_to_poet", nil), model.Text("That was all.")),
		"mathematician": model.NewScripted(call("add", map[string]any{"a": 40, "b": 2}), model.Text("It is 42.")),
		"poet":          model.NewScripted(model.Text("Forty and two, the sum is true.")),
	}
	add := tool.Must(schema.Tool("add", "", func(_ context.Context, in struct {
		A int `json:"a"`
		B int `json:"b"`
	}) (int, error) {
		return in.A + in.B, nil
	}))
	g, err := team(models, add, memory.New(memory.Options{}))
	if err != nil {
		t.Fatal(err)
	}
	for _, to := range []string{"mathematician", "poet"} {
		if edges := g.Draw().Edges; !slices.Contains(edges, pregel.Edge{From: "supervisor", To: to, Conditional: true}) || !slices.Contains(edges, pregel.Edge{From: to, To: "supervisor"}) {
			t.Errorf("%s has no edges in %v", to, edges)
		}
	}
	res, err := g.Invoke(t.Context(), pregel.Thread("t"), agent.Say("Add 40 and 2, and make a verse of it."))
	if err != nil {
		t.Fatal(err)
	}
	list, err := agent.Messages(res.Map())
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	for _, m := range list {
		if text := m.Text(); text != "" {
			said = append(said, m.Name+": "+text)
		}
	}
	want := []string{
		": Add 40 and 2, and make a verse of it.",
		"give_to_mathematician: mathematician takes over", "add: 42", "mathematician: It is 42.",
		"give_to_poet: poet takes over", "poet: Forty and two, the sum is true.",
		"supervisor: That was all.",
	}
	if !slices.Equal(said, want) {
		t.Errorf("said:\n%s", strings.Join(said, "\n"))
	}
}

func delegate(m model.Model, refund tool.Tool) (tool.Tool, error) {
	clerk, err := agent.New(m, agent.Options{
		Name: "clerk", System: "You refund orders.", Tools: []tool.Tool{refund},
		Middleware: []agent.Middleware{agent.AskPerson(agent.Review{Tools: map[string]agent.Gate{"refund": {}}})},
	})
	if err != nil {
		return nil, err
	}
	return schema.Tool("delegate", "Gives the clerk a task.", func(ctx context.Context, in struct{ Task string }) (string, error) {
		res, err := clerk.Invoke(ctx, pregel.Inside(), agent.Say(in.Task))
		if err != nil {
			return "", err // it may ask: return what you get
		}
		list, err := agent.Messages(res.Map())
		if err != nil {
			return "", err
		}
		return list[len(list)-1].Text(), nil
	})
}

// TestDelegate: the question of an agent that a tool runs is answered from outside, in the form that the page has for HTTP,
// and no model is asked twice.
func TestDelegate(t *testing.T) {
	refunds := 0
	refund := tool.Must(schema.Tool("refund", "", func(context.Context, struct{ Order string }) (string, error) {
		refunds++
		return "refunded", nil
	}))
	inner := model.NewScripted(model.Calls(message.ToolCall{Name: "refund", ID: "1", Args: map[string]any{"Order": "7"}}), model.Text("Order 7 is refunded."))
	ask, err := delegate(inner, refund)
	if err != nil {
		t.Fatal(err)
	}
	outer := model.NewScripted(model.Calls(message.ToolCall{Name: "delegate", ID: "1", Args: map[string]any{"Task": "Refund order 7."}}), model.Text("Done."))
	g, err := agent.New(outer, agent.Options{Tools: []tool.Tool{ask}, Graph: graph.Options{Saver: memory.New(memory.Options{})}})
	if err != nil {
		t.Fatal(err)
	}
	res, err := g.Invoke(t.Context(), pregel.Thread("t"), agent.Say("It broke."))
	if err != nil || len(res.Interrupts) != 1 || refunds != 0 {
		t.Fatalf("%v, %v, %d refunds", res, err, refunds)
	}
	approved := map[string]any{"decisions": []any{map[string]any{"type": "approve"}}}
	if res, err = g.Invoke(t.Context(), pregel.Thread("t"), pregel.Command{Resume: approved}); err != nil {
		t.Fatal(err)
	}
	list, err := agent.Messages(res.Map())
	if err != nil || list[2].Text() != "Order 7 is refunded." || list[3].Text() != "Done." || refunds != 1 || len(inner.Requests()) != 2 || len(outer.Requests()) != 2 {
		t.Errorf("%v, %v, %d refunds, %d and %d requests", list, err, refunds, len(inner.Requests()), len(outer.Requests()))
	}
}
