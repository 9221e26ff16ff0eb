package client

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"strconv"
)

// Assistants are graphs with a configuration. Most methods take the id of an assistant;
// those of runs, Graph and Schemas also take the name of a graph.
type Assistants struct{ c *Client }

// Assistant is a graph with a configuration.
type Assistant struct {
	AssistantID string         `json:"assistant_id"`
	GraphID     string         `json:"graph_id"`
	Name        string         `json:"name"`
	Description string         `json:"description"`
	Config      Config         `json:"config"`
	Context     map[string]any `json:"context"`
	Metadata    map[string]any `json:"metadata"`
	Version     int            `json:"version"`
	CreatedAt   Time           `json:"created_at"`
	UpdatedAt   Time           `json:"updated_at"`
}

// Config is the configuration of a run.
type Config struct {
	Tags           []string       `json:"tags,omitempty"`
	RecursionLimit int            `json:"recursion_limit,omitempty"`
	Configurable   map[string]any `json:"configurable,omitempty"`
	Metadata       map[string]any `json:"metadata,omitempty"`
}

// AssistantCreate is an assistant to make. Only GraphID is required.
type AssistantCreate struct {
	GraphID     string         `json:"graph_id"`
	AssistantID string         `json:"assistant_id,omitempty"` // a UUID
	Name        string         `json:"name,omitempty"`
	Description string         `json:"description,omitempty"`
	Config      *Config        `json:"config,omitempty"`
	Context     map[string]any `json:"context,omitempty"`
	Metadata    map[string]any `json:"metadata,omitempty"`
	// IfExists is "raise", the default, which is ErrConflict if there is one, or "do_nothing".
	IfExists string `json:"if_exists,omitempty"`
}

// Create makes an assistant.
func (a *Assistants) Create(ctx context.Context, in AssistantCreate) (*Assistant, error) {
	return ask[*Assistant](ctx, a.c, post(in, "assistants"))
}

// Get is the assistant of an id.
func (a *Assistants) Get(ctx context.Context, id string) (*Assistant, error) {
	return ask[*Assistant](ctx, a.c, get("assistants", id))
}

// AssistantUpdate changes an assistant. What is not set stays; Metadata is merged.
type AssistantUpdate struct {
	GraphID     string         `json:"graph_id,omitempty"`
	Name        string         `json:"name,omitempty"`
	Description *string        `json:"description,omitempty"`
	Config      *Config        `json:"config,omitempty"`
	Context     map[string]any `json:"context,omitempty"`
	Metadata    map[string]any `json:"metadata,omitempty"`
}

// Update makes a new version of an assistant.
func (a *Assistants) Update(ctx context.Context, id string, in AssistantUpdate) (*Assistant, error) {
	return ask[*Assistant](ctx, a.c, call{method: http.MethodPatch, path: []string{"assistants", id}, body: in})
}

// Delete removes an assistant, and if deleteThreads is set the threads that its runs made.
func (a *Assistants) Delete(ctx context.Context, id string, deleteThreads bool) error {
	req := call{method: http.MethodDelete, path: []string{"assistants", id}}
	if deleteThreads {
		req.query = params("delete_threads", "true")
	}
	return a.c.do(ctx, req, nil)
}

// AssistantQuery narrows a search. The zero value finds all, ten at a time.
type AssistantQuery struct {
	GraphID   string         `json:"graph_id,omitempty"`
	Name      string         `json:"name,omitempty"` // a part of it
	Metadata  map[string]any `json:"metadata,omitempty"`
	Limit     int            `json:"limit,omitempty"`
	Offset    int            `json:"offset,omitempty"`
	SortBy    string         `json:"sort_by,omitempty"`
	SortOrder string         `json:"sort_order,omitempty"` // "asc" or "desc"
	Select    []string       `json:"select,omitempty"`     // fields; nil is all
}

// Search is one page of assistants.
func (a *Assistants) Search(ctx context.Context, q AssistantQuery) ([]Assistant, error) {
	return ask[[]Assistant](ctx, a.c, read(q, "assistants", "search"))
}

// All are the assistants of a search, page by page; Limit is the size of a page. What is made
// or removed meanwhile may be missed, or come twice.
func (a *Assistants) All(ctx context.Context, q AssistantQuery) iter.Seq2[Assistant, error] {
	return pages(q.Limit, q.Offset, func(limit, offset int) ([]Assistant, error) {
		q.Limit, q.Offset = limit, offset
		return a.Search(ctx, q)
	})
}

// pageSize is the size of a page where the caller does not say.
const pageSize = 100

// pages are the elements of pages, from an offset on.
func pages[T any](limit, offset int, page func(limit, offset int) ([]T, error)) iter.Seq2[T, error] {
	if limit <= 0 {
		limit = pageSize
	}
	return func(yield func(T, error) bool) {
		for at := offset; ; {
			some, err := page(limit, at)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, e := range some {
				if !yield(e, nil) {
					return
				}
			}
			if len(some) < limit {
				return
			}
			at += len(some)
		}
	}
}

// Count is how many assistants a search finds.
func (a *Assistants) Count(ctx context.Context, q AssistantQuery) (int, error) {
	q.Limit, q.Offset, q.Select, q.SortBy, q.SortOrder = 0, 0, nil, "", ""
	return ask[int](ctx, a.c, read(q, "assistants", "count"))
}

// Versions are the versions of an assistant, newest first. Of q, Metadata, Limit and Offset
// count.
func (a *Assistants) Versions(ctx context.Context, id string, q AssistantQuery) ([]Assistant, error) {
	return ask[[]Assistant](ctx, a.c, read(AssistantQuery{Metadata: q.Metadata, Limit: q.Limit, Offset: q.Offset}, "assistants", id, "versions"))
}

// SetVersion makes a version the current one.
func (a *Assistants) SetVersion(ctx context.Context, id string, version int) (*Assistant, error) {
	return ask[*Assistant](ctx, a.c, post(map[string]int{"version": version}, "assistants", id, "latest"))
}

// Drawing is a graph for people.
type Drawing struct {
	Nodes []DrawingNode `json:"nodes"`
	Edges []DrawingEdge `json:"edges"`
}

// DrawingNode is a node of a Drawing. Data depends on the server.
type DrawingNode struct {
	ID       any             `json:"id"` // a name, or a number
	Type     string          `json:"type"`
	Data     json.RawMessage `json:"data"`
	Metadata map[string]any  `json:"metadata"`
}

// DrawingEdge is an edge of a Drawing.
type DrawingEdge struct {
	Source      any  `json:"source"`
	Target      any  `json:"target"`
	Data        any  `json:"data"` // what a condition says, or nil
	Conditional bool `json:"conditional"`
}

// Graph draws the graph of an assistant, with graphs inside to a depth of levels; negative is
// all the way.
func (a *Assistants) Graph(ctx context.Context, id string, levels int) (*Drawing, error) {
	req := get("assistants", id, "graph")
	if levels < 0 {
		req.query = params("xray", "true")
	} else if levels > 0 {
		req.query = params("xray", strconv.Itoa(levels))
	}
	return ask[*Drawing](ctx, a.c, req)
}

// Schemas are the JSON Schemas of a graph. One that the server does not know is null.
type Schemas struct {
	GraphID string          `json:"graph_id"`
	Input   json.RawMessage `json:"input_schema"`
	Output  json.RawMessage `json:"output_schema"`
	State   json.RawMessage `json:"state_schema"`
	Config  json.RawMessage `json:"config_schema"`
	Context json.RawMessage `json:"context_schema"`
}

// Schemas are the schemas of the graph of an assistant.
func (a *Assistants) Schemas(ctx context.Context, id string) (*Schemas, error) {
	return ask[*Schemas](ctx, a.c, get("assistants", id, "schemas"))
}

// Subgraphs are the schemas of graphs inside, by namespace: of all, or of namespace alone if
// that is not "". If recurse is set, graphs inside those are shown as well.
func (a *Assistants) Subgraphs(ctx context.Context, id, namespace string, recurse bool) (map[string]Schemas, error) {
	req := get("assistants", id, "subgraphs")
	if namespace != "" {
		req.path = append(req.path, namespace)
	}
	if recurse {
		req.query = params("recurse", "true")
	}
	return ask[map[string]Schemas](ctx, a.c, req)
}
