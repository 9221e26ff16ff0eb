package store

import "math"

// A sketch is a row in a byte for each component, beside the row itself. It says
// what the score of the row cannot exceed; only rows that may be among the nearest
// by that are compared exactly. So a search reads a quarter of the memory, and
// finds what it would find without sketches, with the same scores.
//
// With row v ≈ v' = scale·codes and query q ≈ q' likewise
//
//	q·v ≤ q'·v' + |q|·|v-v'| + |q-q'|·|v'|
//
// where lengths are measured after rounding, so that the bound holds however bad
// the sketch is. What float32 arithmetic may add to any term is in probe.slack.

const (
	// Code products of MaxDims components fit in an int32.
	rowLevels   = 127
	queryLevels = 1023
	// leastScale is the largest component below which a vector has no sketch: its
	// products may leave the range of float32.
	leastScale = 1e-30
	// underflow is more than what is lost where products leave that range.
	underflow = 1e-36
	codeBlock = 32 // the length of codes is a multiple
)

// sketch is what is known of a row besides its codes: lengths are rounded up.
type sketch struct {
	scale float32
	norm  float32 // |v|
	err   float32 // |v-v'|
}

func codesOf(dims int) int { return (dims + codeBlock - 1) / codeBlock * codeBlock }

// appendSketch appends the codes of a row, and zeros up to a multiple of codeBlock.
func appendSketch(codes []int8, row []float32) ([]int8, sketch) {
	from := len(codes)
	for range codesOf(len(row)) {
		codes = append(codes, 0)
	}
	own := codes[from:]
	s := quantize(row, rowLevels, func(i int, code float64) { own[i] = int8(code) })
	return codes, s
}

// quantize gives the code of each component, from -levels to levels.
func quantize(v []float32, levels float64, put func(i int, code float64)) sketch {
	var largest float32
	for _, x := range v {
		largest = max(largest, x, -x)
	}
	switch {
	case largest == 0:
		return sketch{}
	case largest < leastScale:
		return sketch{err: float32(math.Inf(1))}
	}
	s := sketch{scale: float32(float64(largest) / levels)}
	scale, inverse := float64(s.scale), levels/float64(largest)
	var norm, err float64
	for i, x := range v {
		code := math.Trunc(float64(x)*inverse + math.Copysign(0.5, float64(x)))
		put(i, code)
		d := float64(x) - scale*code
		norm += float64(x) * float64(x)
		err += d * d
	}
	s.norm, s.err = above(math.Sqrt(norm)), above(math.Sqrt(err))
	return s
}

// above is a float32 that is not less than x.
func above(x float64) float32 {
	return math.Nextafter32(float32(x*(1+1e-6)), float32(math.Inf(1)))
}

// probe compares one query with sketches.
type probe struct {
	codes   []int16
	scale   float32
	perErr  float32 // what an error of length 1 in the row may add
	perNorm float32 // what a row of length 1 may add
	l2      bool
	norm2   float32 // |q|², of L2
	keep    float32 // of L2: what of |q|²+|v|² is surely subtracted
}

// newProbe is nil for a query that has no sketch.
func newProbe(s *scorer) *probe {
	p := &probe{codes: make([]int16, codesOf(s.dims)), l2: s.metric == L2}
	q := quantize(s.query, queryLevels, func(i int, code float64) { p.codes[i] = int16(code) })
	if q.scale == 0 {
		return nil
	}
	// Sums of n products in float32 are off by at most n·2⁻²⁴ of the lengths'
	// product; the rest is for the few operations of bound.
	slack := float64(s.dims+32) / (1 << 23)
	norm, err := float64(q.norm), float64(q.err)
	p.scale = q.scale
	p.perErr = above((norm + err) * (1 + 1e-5))
	p.perNorm = above(err + slack*norm)
	p.norm2, p.keep = q.norm*q.norm, float32(1-4*slack)
	return p
}

// bound is what the score of the row cannot exceed, given the product of the
// codes.
func (p *probe) bound(product int32, row *sketch) float32 {
	b := p.scale*float32(product)*row.scale + p.perErr*row.err + p.perNorm*row.norm + underflow
	if p.l2 {
		return 2*b - p.keep*(p.norm2+row.norm*row.norm)
	}
	return b
}

// codeProductsGeneric is codeProducts in plain Go.
func codeProductsGeneric(query []int16, codes []int8, out []int32) {
	for i := range len(codes) / len(query) {
		var sum int32
		for k, c := range codes[i*len(query):][:len(query)] {
			sum += int32(c) * int32(query[k])
		}
		out[i] = sum
	}
}
