//go:build unix

package changes

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/stele-go/stele/agent"
	"github.com/stele-go/stele/agent/model"
	"github.com/stele-go/stele/agent/tool"
	"github.com/stele-go/stele/message"
	"github.com/stele-go/stele/postgres"
	"github.com/stele-go/stele/postgres/pgtest"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// home is a saver that a program closes when it ends.
type home interface {
	saver.Saver
	Close() error
}

// homes are where threads outlive a program: each opens it, for one program after the other.
var homes = map[string]func(t *testing.T) func() home{
	"disk": func(t *testing.T) func() home {
		dir := t.TempDir()
		return func() home { return must(disk.Open(dir, disk.Options{Sync: disk.SyncNever})) }
	},
	"postgres": func(t *testing.T) func() home {
		url := pgtest.Shared(t).Database(t)
		if err := postgres.Setup(t.Context(), url, postgres.Options{}); err != nil {
			t.Fatal(err)
		}
		return func() home { return must(postgres.Open(t.Context(), url, postgres.Options{})) }
	},
}

// mailTool is a tool whose arguments are an In.
func mailTool[In any](name string) tool.Tool {
	return must(tool.New(name, "", tool.Unchecked(`{"type":"object"}`), func(_ context.Context, _ In) (string, error) { return "sent", nil }))
}

// TestChangedAgent: a call waits for approval while the agent is deployed anew. Arguments that do not fit the tool
// any more, or a tool that is gone, are told to the model, as those of a model that calls wrongly are.
// Another model goes on.
func TestChangedAgent(t *testing.T) {
	type was struct{ To string }
	type more struct{ To, Subject string }
	type other struct{ To []int }
	for where, begin := range homes {
		for name, c := range map[string]struct {
			now  tool.Tool
			want string // what the model is told
		}{
			"nothing":          {mailTool[was]("mail"), "sent"},
			"an argument more": {mailTool[more]("mail"), "sent"},
			"another type":     {mailTool[other]("mail"), "To"},
			"a renamed tool":   {mailTool[was]("post"), "mail"},
		} {
			t.Run(where+"/"+name, func(t *testing.T) {
				open := begin(t)
				build := func(m model.Model, mail tool.Tool) (*pregel.Graph, home) {
					s := open()
					review := agent.AskPerson(agent.Review{NoNotice: true, Tools: map[string]agent.Gate{mail.Definition().Name: {}}})
					return must(agent.New(m, agent.Options{Tools: []tool.Tool{mail}, Middleware: []agent.Middleware{review}, Graph: graph.Options{Saver: s}})), s
				}
				invoke := func(g *pregel.Graph, input any) {
					t.Helper()
					if _, err := g.Invoke(t.Context(), pregel.Thread("1"), input); err != nil {
						t.Fatal(err)
					}
				}
				g, s := build(model.NewScripted(model.Calls(message.ToolCall{ID: "c0", Name: "mail", Args: map[string]any{"To": "Ada"}})), mailTool[was]("mail"))
				invoke(g, agent.Say("write to Ada"))
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}

				g, s = build(model.NewScripted(model.Text("another model is done")), c.now)
				defer s.Close()
				if r := must(g.Preflight(t.Context(), nil, saver.ThreadQuery{})); len(r.Broken) != 0 || r.Begun != 1 {
					t.Errorf("%s", r)
				}
				invoke(g, pregel.Command{Resume: agent.ReviewAnswer{Decisions: []agent.Decision{{Type: agent.Approve}}}})
				state := must(g.GetState(t.Context(), pregel.Thread("1")))
				said := must(channel.Convert[message.List](state.Values.(map[string]any)["messages"]))
				at := slices.IndexFunc(said, func(m message.Message) bool { return m.ToolCallID == "c0" })
				if at < 0 || !strings.Contains(said[at].Text(), c.want) || said[len(said)-1].Text() != "another model is done" {
					t.Errorf("%+v", said)
				}
			})
		}
	}
}
