// Package storehook gives stores in other modules of this repository the rules of package
// store that it does not export, so that every store has the same. The variables are filled
// in when package store is initialized. It imports this package, so this one cannot name its
// types: a parameter opts is a *store.Options, index a *store.Index, and q a *store.Query or
// a *store.NamespaceQuery.
package storehook

import "context"

// Limits of every store.
const (
	MaxBatch   = 10_000  // operations of one Batch
	MaxVectors = 1 << 12 // vectors of one item
)

// Scorer computes scores against one query.
type Scorer interface {
	// Score is the score of the nearest of vectors, which follow one another and are not
	// empty. It may change them.
	Score(vectors []float32) float64
}

var (
	// CheckOptions refuses what store.On refuses.
	CheckOptions func(opts any) error
	// CheckAddress refuses namespaces and keys that are too long.
	CheckAddress func(ns []string, key string) error
	// CheckQuery refuses what Search refuses, except for filters.
	CheckQuery func(q, index any) error
	// CheckNamespaceQuery refuses what ListNamespaces refuses.
	CheckNamespaceQuery func(q any) error
	// Restored checks items that are to be restored, a []store.Item, and makes the puts of
	// them, a []store.PutOp: one for each, in their order.
	Restored func(items any) (puts any, err error)
	// CompileFilter checks a filter, and returns a function that reports whether a value
	// passes it.
	CompileFilter func(filter map[string]any) (match func(value map[string]any) bool, err error)
	// Embed returns the checked vectors of texts.
	Embed func(ctx context.Context, index any, texts []string) ([][]float32, error)
	// NewScorer returns a Scorer for vectors of the index's dimension.
	NewScorer func(index any, query []float32) Scorer
	// Expiry is when an item that is put at now expires; 0 for never. Times are in µs.
	Expiry func(now, ttl int64) int64
	// Renewal is the expiry of an item that is read at now. It is not due if too little of
	// the item's life has passed, or if the item has expired.
	Renewal func(now, expires, ttl int64) (next int64, due bool)
)
