package runs

import (
	"cmp"
	"context"
	"strings"
	"sync"

	"github.com/stele-go/stele/message"
	"github.com/stele-go/stele/pregel"
)

// Use is what a call of a model took, in tokens: none if its answer does not tell.
type Use struct {
	ID     string `json:"id,omitempty"` // of the answer, by which who reads its message too counts it once
	Model  string `json:"model"`        // as the answer names it; "" is not known
	Input  int64  `json:"input"`
	Output int64  `json:"output"`
	Total  int64  `json:"total"`
}

// meter lists what the calls of models took in an attempt, by the task that called.
type meter struct {
	mu   sync.Mutex
	uses map[string][]Use // by the id of the task
}

// add counts an answer of a model that was called with ctx.
func (m *meter) add(ctx context.Context, answer message.Message) {
	task, ok := pregel.Task(ctx)
	if !ok {
		return
	}
	model, _ := answer.ResponseMetadata["model_name"].(string)
	other, _ := answer.ResponseMetadata["model"].(string)
	use := Use{ID: answer.ID, Model: cmp.Or(model, other)}
	if u := answer.Usage; u != nil {
		use.Input, use.Output, use.Total = u.InputTokens, u.OutputTokens, cmp.Or(u.TotalTokens, u.InputTokens+u.OutputTokens)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.uses == nil {
		m.uses = map[string][]Use{}
	}
	id := task.NS[strings.LastIndexByte(task.NS, ':')+1:] // the namespace is the path of tasks, each its name and its id
	m.uses[id] = append(m.uses[id], use)
}

// take returns what was counted for a task, and forgets it.
func (m *meter) take(task string) []Use {
	m.mu.Lock()
	defer m.mu.Unlock()
	uses := m.uses[task]
	delete(m.uses, task)
	return uses
}
