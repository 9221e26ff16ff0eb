package store

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/stele-go/stele/saver"
)

// Limits. Keys of the engine hold a namespace with every NUL doubled.
const (
	maxLabels    = 64
	maxNamespace = 2 << 10 // bytes of all labels
	maxKey       = 2 << 10
	// MaxBatch is the most operations of one Batch.
	MaxBatch = 10_000
	// MaxVectors is the most vectors of one item.
	MaxVectors = 1 << 12
	// maxComponent keeps the square of a distance within float32.
	maxComponent = 1e16
	// MaxDims is the largest dimension of an index.
	MaxDims = 1 << 14
)

// reserved may not be the first label: LangGraph keeps it for itself.
const reserved = "langgraph"

// NamespaceError says why a namespace cannot be put into. It matches
// ErrNamespace and ErrInvalid. Nothing was written.
type NamespaceError struct {
	Namespace Namespace
	Reason    string
}

// Error names the namespace and the rule it breaks.
func (e *NamespaceError) Error() string {
	return fmt.Sprintf("invalid namespace %q: %s", []string(e.Namespace), e.Reason)
}

// Is makes every NamespaceError match ErrNamespace and ErrInvalid.
func (e *NamespaceError) Is(target error) bool { return target == ErrNamespace || target == ErrInvalid }

// VectorError says why a vector from the embedder or a query cannot be used: it has another
// dimension than the index, or a component that is not finite or too large. It matches
// ErrVector. Nothing was written.
type VectorError struct {
	Reason string
}

// Error says what is wrong with the vector.
func (e *VectorError) Error() string { return "unusable vector: " + e.Reason }

// Is makes every VectorError match ErrVector.
func (e *VectorError) Is(target error) bool { return target == ErrVector }

func invalidf(field, format string, args ...any) error {
	return &saver.InvalidError{Field: field, Reason: fmt.Sprintf(format, args...)}
}

// CheckNamespace returns a NamespaceError for a namespace that Put refuses: no labels, an empty label,
// a label with a dot, "langgraph" as the first, or more than 64 labels or 2 KiB in all.
func CheckNamespace(ns Namespace) error {
	if len(ns) == 0 {
		return &NamespaceError{Namespace: ns, Reason: "it has no labels"}
	}
	for _, label := range ns {
		switch {
		case label == "":
			return &NamespaceError{Namespace: ns, Reason: "a label is empty"}
		case strings.Contains(label, "."):
			return &NamespaceError{Namespace: ns, Reason: fmt.Sprintf("label %q has a dot", label)}
		}
	}
	if ns[0] == reserved {
		return &NamespaceError{Namespace: ns, Reason: `the first label "langgraph" is reserved`}
	}
	return checkSize(ns)
}

// checkSize refuses namespaces that cannot be keys.
func checkSize(ns Namespace) error {
	n := 0
	for _, label := range ns {
		n += len(label)
	}
	if len(ns) > maxLabels || n > maxNamespace {
		return fmt.Errorf("namespace of %d labels and %d bytes, the limits are %d and %d: %w", len(ns), n, maxLabels, maxNamespace, saver.ErrTooLarge)
	}
	return nil
}

func checkKey(key string) error {
	if len(key) > maxKey {
		return fmt.Errorf("key of %d bytes, the limit is %d: %w", len(key), maxKey, saver.ErrTooLarge)
	}
	return nil
}

// Validate returns the error that Search would return for a query, except for its prefix and filter. ix
// is the index of the store, nil if it has none.
func (q *Query) Validate(ix *Index) error {
	if q.Limit < 0 {
		return invalidf("limit", "%d is negative; want 0, for the default of %d, or more", q.Limit, DefaultLimit)
	}
	if q.Offset < 0 {
		return invalidf("offset", "%d is negative", q.Offset)
	}
	if q.Text != "" && q.Vector != nil {
		return invalidf("query", "has both a text and a vector")
	}
	if (q.Text != "" || q.Vector != nil) && ix == nil {
		return ErrNoIndex
	}
	if q.Text != "" && ix.Embed == nil {
		return fmt.Errorf("query by text: %w", errNoEmbedder)
	}
	if q.Vector != nil {
		return ix.checkVector(q.Vector)
	}
	return nil
}

// Validate returns the error that ListNamespaces would return for the query.
func (q *NamespaceQuery) Validate() error {
	for name, n := range map[string]int{"limit": q.Limit, "offset": q.Offset, "max_depth": q.MaxDepth} {
		if n < 0 {
			return invalidf(name, "%d is negative", n)
		}
	}
	for i, m := range q.Match {
		if m.Kind != MatchPrefix && m.Kind != MatchSuffix {
			return invalidf(fmt.Sprintf("match[%d]", i), "kind %q is unknown; use %q or %q", m.Kind, MatchPrefix, MatchSuffix)
		}
	}
	return nil
}

// checkVector refuses a vector of another dimension, and one with a component that is not
// finite or too large.
func (ix *Index) checkVector(v []float32) error {
	if len(v) != ix.Dims {
		return &VectorError{Reason: fmt.Sprintf("it has %d dimensions, the index has %d", len(v), ix.Dims)}
	}
	for i, x := range v {
		if f := float64(x); math.IsNaN(f) || math.IsInf(f, 0) {
			return &VectorError{Reason: fmt.Sprintf("component %d is %v", i, x)}
		} else if math.Abs(f) > maxComponent {
			return &VectorError{Reason: fmt.Sprintf("component %d is %g, the limit is %g", i, x, maxComponent)}
		}
	}
	return nil
}

// Validate returns the error that On and NewMemory would return for the options.
func (o *Options) Validate() error {
	if o.TTL < 0 {
		return invalidf("ttl", "%v is negative", o.TTL)
	}
	if o.SweepEvery < 0 {
		return invalidf("sweep interval", "%v is negative", o.SweepEvery)
	}
	ix := o.Index
	if ix == nil {
		return nil
	}
	if ix.Dims < 1 || ix.Dims > MaxDims {
		return invalidf("index.dims", "%d; use 1 to %d", ix.Dims, MaxDims)
	}
	if !slices.Contains([]Metric{"", Cosine, Dot, L2}, ix.Metric) {
		return invalidf("index.metric", "%q is unknown; use %q, %q or %q", ix.Metric, Cosine, Dot, L2)
	}
	return nil
}
