package schema_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/stele-go/stele/agent/providers/schema"
	"github.com/stele-go/stele/agent/tool"
	"github.com/stele-go/stele/message"
)

type weather struct {
	City string   `json:"city" jsonschema:"the city, in English"`
	Days int      `json:"days,omitempty"`
	Tags []string `json:"tags,omitempty"`
}

func forecast(_ context.Context, in weather) (string, error) {
	return in.City + strings.Repeat("!", in.Days), nil
}

func TestTool(t *testing.T) {
	w, err := schema.Tool("weather", "Tells the weather.", forecast)
	if err != nil {
		t.Fatal(err)
	}
	got := string(w.Definition().Parameters)
	for _, part := range []string{`"type":"object"`, `"required":["city"]`, `"description":"the city, in English"`, `"type":"integer"`} {
		if !strings.Contains(got, part) {
			t.Errorf("%s has no %s", got, part)
		}
	}
	n, err := tool.NewNode(tool.Options{}, w)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args   map[string]any
		answer string
		status message.Status
	}{
		{map[string]any{"city": "Rome"}, "Rome", message.StatusSuccess},
		{map[string]any{"city": "Rome", "days": int64(2)}, "Rome!!", message.StatusSuccess},
		{map[string]any{"city": "Rome", "days": 2.0, "tags": []any{"a"}}, "Rome!!", message.StatusSuccess},
		{map[string]any{"city": "Rome", "days": 2.5}, "", message.StatusError},
		{map[string]any{"city": "Rome", "tags": []any{1}}, "", message.StatusError},
		{map[string]any{"city": 7}, "", message.StatusError},
		{map[string]any{"city": "Rome", "unknown": 7}, "", message.StatusError},
		{map[string]any{}, "", message.StatusError},
		{nil, "", message.StatusError},
	} {
		out, err := n.Run(context.Background(), message.List{message.AI("", message.ToolCall{Name: "weather", ID: "1", Args: c.args})})
		if err != nil {
			t.Fatal(err)
		}
		m := out.(message.List)[0]
		if m.Status != c.status || c.status == message.StatusSuccess && m.Content != c.answer {
			t.Errorf("%v: %s %q", c.args, m.Status, m.Content)
		}
		if c.status == message.StatusError && !strings.HasPrefix(m.Content, "Error invoking tool 'weather' with kwargs ") {
			t.Errorf("%v: %q", c.args, m.Content)
		}
	}
}

func TestUnusable(t *testing.T) {
	type cycle struct {
		Next *cycle `json:"next"`
	}
	type odd struct {
		F func() `json:"f"`
	}
	_, err1 := schema.For[int]()
	_, err2 := schema.For[cycle]()
	_, err3 := schema.For[odd]()
	_, err4 := schema.Of(&jsonschema.Schema{Type: "object", Types: []string{"object"}})
	_, err5 := schema.Tool("", "", forecast)
	for i, err := range []error{err1, err2, err3, err4, err5} {
		if !errors.Is(err, tool.ErrDefinition) {
			t.Errorf("%d: %v", i+1, err)
		}
	}
}
