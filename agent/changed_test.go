package agent_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/stele-go/stele/agent"
	"github.com/stele-go/stele/agent/model"
	"github.com/stele-go/stele/agent/tool"
	"github.com/stele-go/stele/message"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
)

// mailTool is a tool whose arguments are an In.
func mailTool[In any](name string) tool.Tool {
	return must(tool.New(name, "", object, func(_ context.Context, _ In) (string, error) { return "sent", nil }))
}

// A call that waits for approval while the agent is deployed anew: arguments that do not fit the tool
// any more, or a tool that is gone, are told to the model, as those of a model that calls wrongly are.
// Another model goes on.
func TestChangedAgent(t *testing.T) {
	type was struct{ To string }
	type more struct{ To, Subject string }
	type other struct{ To []int }
	for name, c := range map[string]struct {
		now  tool.Tool
		want string // what the model is told
	}{
		"nothing":          {mailTool[was]("mail"), "sent"},
		"an argument more": {mailTool[more]("mail"), "sent"},
		"another type":     {mailTool[other]("mail"), "To"},
		"a renamed tool":   {mailTool[was]("post"), "mail"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			build := func(m model.Model, mail tool.Tool) (*pregel.Graph, *disk.Saver) {
				s := must(disk.Open(dir, disk.Options{Sync: disk.SyncNever}))
				return reviewed(s, agent.Review{NoNotice: true, Tools: map[string]agent.Gate{mail.Definition().Name: {}}}, m, []tool.Tool{mail}), s
			}
			g, s := build(model.NewScripted(model.Calls(message.ToolCall{ID: "c0", Name: "mail", Args: map[string]any{"To": "Ada"}})), mailTool[was]("mail"))
			must(0, invoke(g, agent.Say("write to Ada")))
			must(0, s.Close())

			m := model.NewScripted(model.Text("another model is done"))
			g, s = build(m, c.now)
			defer s.Close()
			r := must(g.Preflight(ctx, nil, saver.ThreadQuery{}))
			if len(r.Broken) != 0 || r.Begun != 1 {
				t.Errorf("%s", r)
			}
			must(0, invoke(g, pregel.Command{Resume: agent.ReviewAnswer{Decisions: []agent.Decision{{Type: agent.Approve}}}}))
			got := stored(g)
			i := slices.IndexFunc(got, func(m string) bool { return strings.HasPrefix(m, "tool c0: ") })
			if i < 0 || !strings.Contains(strings.TrimPrefix(got[i], "tool c0: "), c.want) || got[len(got)-1] != "ai another model is done" {
				t.Errorf("%q", got)
			}
		})
	}
}
