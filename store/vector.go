package store

import (
	"container/heap"
	"context"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/saver"
)

// Metric says how the nearness of vectors is measured.
type Metric string

// The metrics. A nearer vector has a greater score.
const (
	// Cosine is the cosine of the angle between two vectors: the default, and
	// what LangGraph's memory store computes. A vector of zeros has the score 0.
	Cosine Metric = "cosine"
	// Dot is the inner product.
	Dot Metric = "dot"
	// L2 is the Euclidean distance; the score is its negative.
	L2 Metric = "l2"
)

// Embedder turns texts into vectors, one for each. It is called outside all
// locks, concurrently, with at least one text. Its error fails the call that
// needed it.
type Embedder func(ctx context.Context, texts []string) ([][]float32, error)

// Index configures vector search. Scores are exact: a search compares every vector of the
// namespaces it covers.
type Index struct {
	// Dims is the number of dimensions of all vectors. Required. Items that were stored
	// with another number have no score.
	Dims int
	// Embed makes vectors from texts. It is required to put items and to query by
	// text.
	Embed Embedder
	// Fields are the paths whose texts are embedded; see TextAtPath. Nil is "$",
	// the whole value. Each text gives a vector, and the item's score is that of
	// its nearest.
	Fields []string
	// Metric is Cosine by default.
	Metric Metric
}

var errNoEmbedder = invalidf("index.embed", "missing; give Options.Index an Embedder")

// Vectors returns checked vectors of texts, one after the other.
func (ix *Index) Vectors(ctx context.Context, texts []string) ([][]float32, error) {
	if ix.Embed == nil {
		return nil, errNoEmbedder
	}
	vecs, err := ix.Embed(ctx, texts)
	if err != nil {
		return nil, fmt.Errorf("embed %d texts: %w", len(texts), err)
	}
	if len(vecs) != len(texts) {
		return nil, &VectorError{Reason: fmt.Sprintf("the embedder gave %d vectors for %d texts", len(vecs), len(texts))}
	}
	for _, v := range vecs {
		if err := ix.checkVector(v); err != nil {
			return nil, err
		}
	}
	return vecs, nil
}

// vectorFormat is the first byte of an item's vectors as they are stored.
const vectorFormat = 1

// encodeVectors lays vectors of one dimension out as they are stored:
// docs/format/item.md.
func encodeVectors(vecs [][]float32, dims int) []byte {
	b := make([]byte, 0, 12+4*dims*len(vecs))
	b = append(b, vectorFormat)
	b = binary.AppendUvarint(b, uint64(dims))
	b = binary.AppendUvarint(b, uint64(len(vecs)))
	for _, v := range vecs {
		for _, x := range v {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
		}
	}
	return b
}

// decodeVectors appends stored vectors to dst and returns their number. If they have not
// dims dimensions it appends none. What encodeVectors does not write is ErrCorrupt.
func decodeVectors(dst []float32, b []byte, dims int) ([]float32, int, error) {
	if len(b) == 0 {
		return dst, 0, errVectors
	}
	if b[0] != vectorFormat {
		return dst, 0, &fault.VersionError{File: "store vectors", Have: max(uint32(b[0]), vectorFormat+1), Supported: vectorFormat}
	}
	b = b[1:]
	d, w := binary.Uvarint(b)
	if w <= 0 || d == 0 || d > MaxDims {
		return dst, 0, errVectors
	}
	b = b[w:]
	n, w := binary.Uvarint(b)
	if w <= 0 || n == 0 || n > MaxVectors || uint64(len(b)-w) != 4*d*n {
		return dst, 0, errVectors
	}
	b = b[w:]
	for i := 0; i < len(b); i += 4 {
		if binary.LittleEndian.Uint32(b[i:])&0x7f800000 == 0x7f800000 {
			return dst, 0, errVectors // not finite: none such is stored
		}
	}
	if d != uint64(dims) {
		return dst, 0, nil
	}
	for ; len(b) > 0; b = b[4:] {
		dst = append(dst, math.Float32frombits(binary.LittleEndian.Uint32(b)))
	}
	return dst, int(n), nil
}

var errVectors = fmt.Errorf("store vectors: %w", saver.ErrCorrupt)

// scorer computes scores against one query.
type scorer struct {
	metric Metric
	dims   int
	query  []float32 // of length 1 under Cosine, unless it is zero
}

// Scorer returns a function that scores vectors against a query: with the score of the nearest of
// them. They follow one another, at least one, each of the index's dimension, and it may change
// them. It is for one goroutine at a time.
func (ix *Index) Scorer(query []float32) func(vectors []float32) float64 {
	s := ix.scorer(query)
	return func(vectors []float32) float64 {
		s.prepare(vectors)
		return s.public(s.best(vectors))
	}
}

func (ix *Index) scorer(query []float32) scorer {
	s := scorer{metric: ix.Metric, dims: ix.Dims, query: append([]float32(nil), query...)}
	if s.metric == "" {
		s.metric = Cosine
	}
	s.prepare(s.query)
	return s
}

// prepare normalizes stored vectors under Cosine, so that their dot product with the query
// is the score.
func (s *scorer) prepare(vecs []float32) { prepareVectors(s.metric, s.dims, vecs) }

func prepareVectors(m Metric, dims int, vecs []float32) {
	if m != Cosine && m != "" {
		return
	}
	for ; len(vecs) > 0; vecs = vecs[dims:] {
		v := vecs[:dims]
		var sum float64
		for _, x := range v {
			sum += float64(x) * float64(x)
		}
		if sum == 0 {
			continue
		}
		norm := 1 / math.Sqrt(sum)
		for i, x := range v {
			v[i] = float32(float64(x) * norm)
		}
	}
}

// best is the score of the nearest vector. vecs are prepared and not empty.
func (s *scorer) best(vecs []float32) float32 {
	best := float32(math.Inf(-1))
	for ; len(vecs) >= s.dims; vecs = vecs[s.dims:] {
		v := vecs[:s.dims]
		var score float32
		if s.metric == L2 {
			score = -squaredDistance(s.query, v)
		} else {
			score = dot(s.query, v)
		}
		best = max(best, score)
	}
	return best
}

// public is the score as callers see it.
func (s *scorer) public(score float32) float64 {
	if s.metric == L2 {
		return -math.Sqrt(math.Max(0, -float64(score)))
	}
	return float64(score)
}

// dot is the inner product of two vectors of the same length. It keeps four sums, so that
// no addition waits for the previous one. It handles eight components per iteration, as
// arrays, because their indexes need no bounds checks. Eight sums would be slower: with
// their products they need more registers than the processor has.
func dot(a, b []float32) float32 {
	var s0, s1, s2, s3 float32
	for len(a) >= 8 && len(b) >= 8 {
		x, y := (*[8]float32)(a), (*[8]float32)(b)
		s0 += x[0]*y[0] + x[4]*y[4]
		s1 += x[1]*y[1] + x[5]*y[5]
		s2 += x[2]*y[2] + x[6]*y[6]
		s3 += x[3]*y[3] + x[7]*y[7]
		a, b = a[8:], b[8:]
	}
	for i := range min(len(a), len(b)) {
		s0 += a[i] * b[i]
	}
	return (s0 + s2) + (s1 + s3)
}

// squaredDistance is the squared Euclidean distance of two vectors of the same length. It
// sums as dot does.
func squaredDistance(a, b []float32) float32 {
	var s0, s1, s2, s3 float32
	for len(a) >= 8 && len(b) >= 8 {
		x, y := (*[8]float32)(a), (*[8]float32)(b)
		d0, d1, d2, d3 := x[0]-y[0], x[1]-y[1], x[2]-y[2], x[3]-y[3]
		d4, d5, d6, d7 := x[4]-y[4], x[5]-y[5], x[6]-y[6], x[7]-y[7]
		s0 += d0*d0 + d4*d4
		s1 += d1*d1 + d5*d5
		s2 += d2*d2 + d6*d6
		s3 += d3*d3 + d7*d7
		a, b = a[8:], b[8:]
	}
	for i := range min(len(a), len(b)) {
		d := a[i] - b[i]
		s0 += d * d
	}
	return (s0 + s2) + (s1 + s3)
}

// best keeps the first n of the elements it is offered, in the order of before.
type best[T any] struct {
	n      int
	before func(a, b T) bool
	list   []T // a heap with the last element on top
}

// offer adds x, if it is among the first n.
func (h *best[T]) offer(x T) {
	switch {
	case h.n <= 0:
	case len(h.list) < h.n:
		heap.Push((*bestHeap[T])(h), x)
	case h.before(x, h.list[0]):
		h.list[0] = x
		heap.Fix((*bestHeap[T])(h), 0)
	}
}

// wants reports whether offer would keep x.
func (h *best[T]) wants(x T) bool {
	return h.n > 0 && (len(h.list) < h.n || h.before(x, h.list[0]))
}

// sorted empties the heap and returns its elements, first to last.
func (h *best[T]) sorted() []T {
	out := make([]T, len(h.list))
	for i := len(out) - 1; i >= 0; i-- {
		out[i] = heap.Pop((*bestHeap[T])(h)).(T)
	}
	return out
}

// bestHeap implements heap.Interface for best, so that best itself does not export it.
type bestHeap[T any] best[T]

// Len implements heap.Interface.
func (h *bestHeap[T]) Len() int { return len(h.list) }

// Less implements heap.Interface. The last element is on top.
func (h *bestHeap[T]) Less(i, j int) bool { return h.before(h.list[j], h.list[i]) }

// Swap implements heap.Interface.
func (h *bestHeap[T]) Swap(i, j int) { h.list[i], h.list[j] = h.list[j], h.list[i] }

// Push implements heap.Interface.
func (h *bestHeap[T]) Push(x any) { h.list = append(h.list, x.(T)) }

// Pop implements heap.Interface.
func (h *bestHeap[T]) Pop() any {
	last := h.list[len(h.list)-1]
	h.list = h.list[:len(h.list)-1]
	return last
}
