package server

import (
	"reflect"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/stele-go/stele/message"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
)

// graphSet has the graphs that the server runs, by name.
type graphSet struct {
	by       map[string]*pregel.Graph
	names    []string // sorted
	contexts map[string]any
}

// named is a graph by name. An assistant may name one that the server no longer has.
func (s *graphSet) named(name string) (*pregel.Graph, error) {
	if g, ok := s.by[name]; ok {
		return g, nil
	}
	names := strings.Join(s.names, "', '")
	if names != "" {
		names = "'" + names + "'"
	}
	return nil, fail(404, "Graph '%s' not found. Expected one of: [%s]", name, names)
}

// schemas are the JSON Schemas of a graph.
type schemas struct {
	GraphID string `json:"graph_id,omitempty"`
	Input   any    `json:"input_schema"`
	Output  any    `json:"output_schema"`
	State   any    `json:"state_schema"`
	Config  any    `json:"config_schema"`
	Context any    `json:"context_schema"`
}

// schemasOf are the schemas of a graph under a name.
func (s *graphSet) schemasOf(name string, g *pregel.Graph) schemas {
	context := s.contexts[name]
	config := context
	if config == nil {
		config = map[string]any{}
	}
	return schemas{Input: schemaOf(name+"_input", g.InputKeys()), Output: schemaOf(name+"_output", g.OutputKeys()),
		State: schemaOf(name+"_state", g.StateKeys()), Config: config, Context: context}
}

// aMessage is the schema of a message. Clients look for it to offer a chat.
var aMessage = &jsonschema.Schema{
	Type: "object", Title: "Message", Required: []string{"type", "content"},
	Properties: map[string]*jsonschema.Schema{
		"type":    {Type: "string", Enum: []any{"human", "ai", "system", "tool", "function", "remove"}},
		"content": {Types: []string{"string", "array"}},
		"id":      {Types: []string{"string", "null"}},
		"name":    {Types: []string{"string", "null"}},
	},
}

var schemaOptions = jsonschema.ForOptions{IgnoreInvalidTypes: true, TypeSchemas: map[reflect.Type]*jsonschema.Schema{
	reflect.TypeFor[message.Message](): aMessage,
	reflect.TypeFor[channel.Message](): aMessage,
}}

// schemaOf returns the JSON Schema of an object with keys. A key without a Go type may have any value.
func schemaOf(title string, keys []pregel.StateKey) any {
	properties := map[string]any{}
	for _, k := range keys {
		if k.Name == pregel.RootKey && len(keys) == 1 {
			return valueSchema(k.Type)
		}
		properties[k.Name] = valueSchema(k.Type)
	}
	return map[string]any{"title": title, "type": "object", "properties": properties}
}

func valueSchema(t reflect.Type) any {
	if t != nil && t.Kind() != reflect.Interface {
		if s, err := jsonschema.ForType(t, &schemaOptions); err == nil && s != nil {
			return s
		}
	}
	return map[string]any{}
}
