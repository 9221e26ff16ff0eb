package server

import (
	"fmt"
	"html"
	"net/http"
	"regexp"
	"strings"
)

// The server's description of itself is made of the table of operations, so that it cannot
// say something else.

var pathParameter = regexp.MustCompile(`\{(\w+)\}`)

// openAPI answers with an OpenAPI 3.1 document.
func (s *operatorAPI) openAPI(c *call) error {
	paths := map[string]map[string]any{}
	for _, rt := range s.routes {
		path := strings.ReplaceAll(rt.path, "{$}", "")
		op := map[string]any{"operationId": strings.Trim(strings.NewReplacer("/", "_", "{", "", "}", "", "-", "_").Replace(strings.ToLower(rt.method)+path), "_"),
			"responses": map[string]any{"default": map[string]any{"description": "The answer, or {\"detail\": \"…\"}."}}}
		if rt.resource != "" {
			op["tags"] = []string{rt.resource}
			op["summary"] = rt.resource + ": " + strings.ReplaceAll(rt.action, "_", " ")
		}
		var parameters []any
		for _, m := range pathParameter.FindAllStringSubmatch(path, -1) {
			parameters = append(parameters, map[string]any{"name": m[1], "in": "path", "required": true, "schema": map[string]any{"type": "string"}})
		}
		if parameters != nil {
			op["parameters"] = parameters
		}
		if rt.in != nil {
			op["requestBody"] = map[string]any{"required": !rt.optional, "content": map[string]any{"application/json": map[string]any{"schema": rt.in.schema()}}}
		}
		if paths[path] == nil {
			paths[path] = map[string]any{}
		}
		paths[path][strings.ToLower(rt.method)] = op
	}
	return c.json(map[string]any{"openapi": "3.1.0", "info": map[string]any{"title": "LangGraph's server API, served by stele",
		"version": Version}, "paths": paths})
}

// schema is a shape as JSON Schema.
func (s *shape) schema() map[string]any {
	out := map[string]any{}
	if len(s.anyOf) > 0 {
		list := make([]any, len(s.anyOf))
		for i, a := range s.anyOf {
			list[i] = a.schema()
		}
		out["anyOf"] = list
	}
	switch {
	case len(s.enum) > 0:
		out["type"], out["enum"] = "string", s.enum
	case len(s.types) == 1:
		out["type"] = s.types[0]
	case len(s.types) > 1:
		out["type"] = s.types
	}
	if s.id != "" {
		out["format"] = "uuid"
	}
	if s.max > 0 {
		out["minimum"], out["maximum"] = s.min, s.max
	}
	if s.least > 0 {
		out["minItems"] = s.least
	}
	if s.most > 0 {
		out["maxItems"] = s.most
	}
	if s.items != nil {
		out["items"] = s.items.schema()
	}
	if len(s.fields) > 0 {
		properties, required := map[string]any{}, []string{}
		for _, f := range s.fields {
			properties[f.name] = f.shape.schema()
			if f.required {
				required = append(required, f.name)
			}
		}
		out["properties"] = properties
		if len(required) > 0 {
			out["required"] = required
		}
	}
	return out
}

// docs answers with a page that lists the operations. It loads nothing from elsewhere.
func (s *operatorAPI) docs(c *call) error {
	var b strings.Builder
	b.WriteString("<!doctype html><meta charset=utf-8><title>stele: LangGraph's server API</title><style>body{font:16px sans-serif;max-width:60em;margin:2em auto}td{padding:.2em 1em;font-family:monospace}</style>")
	b.WriteString("<h1>LangGraph's server API</h1><p>As <a href=openapi.json>OpenAPI</a>.</p><table>")
	for _, rt := range s.routes {
		path := strings.ReplaceAll(rt.path, "{$}", "")
		fmt.Fprintf(&b, "<tr><td>%s<td>%s<td>%s %s", rt.method, html.EscapeString(path), rt.resource, strings.ReplaceAll(rt.action, "_", " "))
	}
	b.WriteString("</table>")
	h := c.w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
	c.w.WriteHeader(http.StatusOK)
	_, _ = c.w.Write([]byte(b.String())) // the client may be gone
	return nil
}
