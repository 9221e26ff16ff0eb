package tool_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stele-go/stele/agent/tool"
)

func taking[In any]() error {
	_, err := tool.New("look", "", tool.Unchecked("{}"), func(context.Context, In) (string, error) { return "", nil })
	return err
}

// TestArgumentsAreAnObject: a tool whose function takes what no object can be read into is refused when it is made.
func TestArgumentsAreAnObject(t *testing.T) {
	for name, err := range map[string]error{"string": taking[string](), "int": taking[int](), "[]string": taking[[]string](), "*string": taking[*string]()} {
		if !errors.Is(err, tool.ErrDefinition) || !strings.Contains(err.Error(), `"look" takes a `+name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, err := range map[string]error{"struct": taking[struct{ Where string }](), "pointer": taking[*struct{}](), "map": taking[map[string]any](),
		"any": taking[any](), "raw": taking[json.RawMessage]()} {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
