package client

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Store is the long-term memory of the server's graphs.
type Store struct{ c *Client }

// Item is what the store keeps under a namespace and a key.
type Item struct {
	Namespace []string        `json:"namespace"`
	Key       string          `json:"key"`
	Value     json.RawMessage `json:"value"`
	CreatedAt Time            `json:"created_at"`
	UpdatedAt Time            `json:"updated_at"`
	// Score is how well an item fits the text of a search; nil if there was none.
	Score *float64 `json:"score"`
}

// PutOptions say how an item is kept. The zero value is a good default.
type PutOptions struct {
	// Index are the fields that searches by text look at; nil is those of the server.
	Index   []string
	NoIndex bool          // no search by text finds it
	TTL     time.Duration // how long it lives; 0 is what the server says
}

// Put stores an object under a key.
func (s *Store) Put(ctx context.Context, namespace []string, key string, value any, o PutOptions) error {
	in := map[string]any{"namespace": namespace, "key": key, "value": value}
	if o.NoIndex {
		in["index"] = false
	} else if o.Index != nil {
		in["index"] = o.Index
	}
	if o.TTL > 0 {
		in["ttl"] = o.TTL.Minutes()
	}
	return s.c.do(ctx, call{method: http.MethodPut, path: []string{"store", "items"}, body: in}, nil)
}

// Get is the item of a key. If there is none, the error is ErrNotFound.
func (s *Store) Get(ctx context.Context, namespace []string, key string) (*Item, error) {
	for _, label := range namespace {
		if strings.Contains(label, ".") {
			return nil, fmt.Errorf("client: label %q of a namespace has a period", label)
		}
	}
	req := get("store", "items")
	req.query = params("key", key, "namespace", strings.Join(namespace, "."))
	it, err := ask[*Item](ctx, s.c, req)
	if err == nil && it == nil {
		err = &Error{Method: req.method, Path: "/store/items", Status: http.StatusNotFound, Detail: "no item has this key"}
	}
	return it, err
}

// Delete removes the item of a key, if there is one.
func (s *Store) Delete(ctx context.Context, namespace []string, key string) error {
	return s.c.do(ctx, call{method: http.MethodDelete, path: []string{"store", "items"}, body: map[string]any{"namespace": namespace, "key": key}}, nil)
}

// ItemQuery narrows a search. The zero value finds all, ten at a time.
type ItemQuery struct {
	Prefix []string       // of namespaces
	Filter map[string]any // of values
	Query  string         // a text, where the server has an index
	Limit  int
	Offset int
	// NoRefresh leaves the lives of what is found as they are.
	NoRefresh bool
}

// Search is one page of items.
func (s *Store) Search(ctx context.Context, q ItemQuery) ([]Item, error) {
	if q.Prefix == nil {
		q.Prefix = []string{}
	}
	in := map[string]any{"namespace_prefix": q.Prefix, "offset": q.Offset}
	if q.Limit > 0 {
		in["limit"] = q.Limit
	}
	if q.Filter != nil {
		in["filter"] = q.Filter
	}
	if q.Query != "" {
		in["query"] = q.Query
	}
	if q.NoRefresh {
		in["refresh_ttl"] = false
	}
	var out struct {
		Items []Item `json:"items"`
	}
	err := s.c.do(ctx, read(in, "store", "items", "search"), &out)
	return out.Items, err
}

// All are the items of a search, page by page; Limit is the size of a page. What is put or
// removed meanwhile may be missed, or come twice.
func (s *Store) All(ctx context.Context, q ItemQuery) iter.Seq2[Item, error] {
	return pages(q.Limit, q.Offset, func(limit, offset int) ([]Item, error) {
		q.Limit, q.Offset = limit, offset
		return s.Search(ctx, q)
	})
}

// NamespaceQuery narrows Namespaces. The zero value is the first hundred.
type NamespaceQuery struct {
	Prefix   []string `json:"prefix,omitempty"`
	Suffix   []string `json:"suffix,omitempty"`
	MaxDepth int      `json:"max_depth,omitempty"` // longer ones are cut to it
	Limit    int      `json:"limit,omitempty"`
	Offset   int      `json:"offset,omitempty"`
}

// Namespaces are the namespaces that have items.
func (s *Store) Namespaces(ctx context.Context, q NamespaceQuery) ([][]string, error) {
	var out struct {
		Namespaces [][]string `json:"namespaces"`
	}
	err := s.c.do(ctx, read(q, "store", "namespaces"), &out)
	return out.Namespaces, err
}

// flag is "true", or "" which leaves a parameter out.
func flag(on bool) string {
	if !on {
		return ""
	}
	return strconv.FormatBool(on)
}
