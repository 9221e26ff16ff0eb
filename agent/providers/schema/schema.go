// Package schema makes the JSON Schema of a tool's arguments from the struct that they fill.
//
// It is in the module agent/providers because it needs a library for JSON Schema, which most
// programs with stele do not: github.com/google/jsonschema-go, which both makes schemas from Go types and checks
// values against them, and which the Go SDK of the Model Context Protocol uses.
//
//	type weather struct {
//		City string `json:"city" jsonschema:"the city, in English"`
//		Days int    `json:"days,omitempty" jsonschema:"how many days ahead"`
//	}
//
//	t, err := schema.Tool("weather", "Tells the weather.", func(ctx context.Context, in weather) (string, error) {
//		return forecast(ctx, in.City, in.Days)
//	})
//
// A field is required unless its json tag has omitempty or omitzero. Its description is in the tag
// jsonschema.
package schema

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/stele-go/stele/agent/tool"
)

// Tool makes a tool of a function, with the schema of In, a struct. See tool.New. The error is
// tool.ErrDefinition if name is empty, or if In is no struct or has a field that JSON Schema has
// no type for, such as a function, or that contains itself.
func Tool[In, Out any](name, description string, f func(ctx context.Context, in In) (Out, error)) (tool.Tool, error) {
	s, err := For[In]()
	if err != nil {
		return nil, fmt.Errorf("%q: %w", name, err)
	}
	return tool.New(name, description, s, f)
}

// For returns the schema of In, a struct. See Tool.
func For[In any]() (tool.Schema, error) {
	t := reflect.TypeFor[In]()
	if t.Kind() != reflect.Struct {
		return nil, fmt.Errorf("%w: the arguments: want a struct, got %v", tool.ErrDefinition, t)
	}
	s, err := jsonschema.For[In](nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", tool.ErrDefinition, err)
	}
	return Of(s)
}

// Of returns a schema made by hand, or read from somewhere, as the schema of a tool. It must not
// be changed afterwards. The error is tool.ErrDefinition if it contradicts itself.
func Of(s *jsonschema.Schema) (tool.Schema, error) {
	resolved, err := s.Resolve(nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", tool.ErrDefinition, err)
	}
	return &checked{resolved}, nil
}

type checked struct{ resolved *jsonschema.Resolved }

// MarshalJSON implements tool.Schema.
func (c *checked) MarshalJSON() ([]byte, error) { return json.Marshal(c.resolved.Schema()) }

// Validate implements tool.Schema.
func (c *checked) Validate(args map[string]any) error { return c.resolved.Validate(args) }
