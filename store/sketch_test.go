package store

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/stele-go/stele/internal/vfs"
	"github.com/stele-go/stele/saver/disk"
)

// component draws numbers of every size that a vector may have.
func component(t *rapid.T, label string) float32 {
	switch rapid.IntRange(0, 5).Draw(t, label+" kind") {
	case 0:
		return 0
	case 1:
		return float32(math.Ldexp(rapid.Float64Range(-1, 1).Draw(t, label), rapid.IntRange(-149, 53).Draw(t, label+" exponent")))
	}
	return rapid.Float32Range(-1, 1).Draw(t, label)
}

// TestSketchesNeverSayTooLittle: no score exceeds the bound of the row's sketch.
func TestSketchesNeverSayTooLittle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dims := rapid.IntRange(1, 70).Draw(t, "dims")
		vector := func(label string) []float32 {
			v := make([]float32, dims)
			for i := range v {
				v[i] = component(t, label)
			}
			return v
		}
		ix := &Index{Dims: dims, Metric: rapid.SampledFrom([]Metric{Cosine, Dot, L2}).Draw(t, "metric")}
		query, n := vector("query"), rapid.IntRange(1, 5).Draw(t, "rows")
		var r rows
		for range n {
			row := vector("row")
			switch rapid.IntRange(0, 3).Draw(t, "like the query") {
			case 0:
				copy(row, query)
			case 1:
				for i := range row {
					row[i] = max(-maxComponent, min(maxComponent, 2*query[i]))
				}
			}
			r.floats = append(r.floats, row...)
		}
		sc := ix.scorer(query)
		sc.prepare(r.floats)
		r.sketch(dims, 0)
		p := newProbe(&sc)
		if p == nil {
			return
		}
		products, plain := make([]int32, n), make([]int32, n)
		codeProductsGeneric(p.codes, r.codes, plain)
		if canSketch() {
			if codeProducts(p.codes, r.codes, products); !reflect.DeepEqual(products, plain) {
				t.Fatalf("products of codes are %v, and %v in plain Go", products, plain)
			}
		}
		for i := range n {
			score := sc.best(r.floats[i*dims : (i+1)*dims])
			if bound := p.bound(plain[i], &r.sketches[i]); !(bound >= score) {
				t.Fatalf("the bound of row %d is %g, its score %g", i, bound, score)
			}
		}
	})
}

// TestLargestProducts: the products of the largest vectors fit.
func TestLargestProducts(t *testing.T) {
	const most = rowLevels * queryLevels * MaxDims
	if most > math.MaxInt32 {
		t.Fatalf("%d", most)
	}
	query, codes, out := make([]int16, MaxDims), make([]int8, 2*MaxDims), make([]int32, 2)
	for i := range query {
		query[i], codes[i], codes[i+MaxDims] = -queryLevels, rowLevels, -rowLevels
	}
	for name, products := range map[string]func([]int16, []int8, []int32){"chosen": codeProducts, "generic": codeProductsGeneric} {
		if products(query, codes, out); out[0] != -most || out[1] != most {
			t.Errorf("%s: %v", name, out)
		}
	}
}

// TestSketchesFindTheSame searches with sketches and without them, over vectors
// that are spread, in clusters, or all alike, and changes some in between.
func TestSketchesFindTheSame(t *testing.T) {
	ctx, ns := context.Background(), Namespace{"a"}
	const dims, items = 40, 6000
	for name, noise := range map[string]float32{"spread": 100, "clusters": 0.05, "alike": 1e-4, "equal": 0} {
		for _, metric := range []Metric{Cosine, Dot, L2} {
			t.Run(fmt.Sprint(name, " ", metric), func(t *testing.T) {
				rng := rand.New(rand.NewPCG(1, 2))
				near := func(c int) []float32 {
					v := make([]float32, dims)
					for i := range v {
						v[i] = float32(math.Sin(float64(c*i))) + noise*(rng.Float32()-0.5)
					}
					return v
				}
				embed := func(_ context.Context, texts []string) ([][]float32, error) {
					out := make([][]float32, len(texts))
					for i := range out {
						out[i] = near(1 + rng.IntN(7))
					}
					return out, nil
				}
				d, err := disk.OpenSimulated("store", disk.Options{Sync: disk.SyncNever}, disk.Simulation{FS: vfs.NewMem(vfs.MemOptions{})})
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = d.Close() }()
				var stores [2]*Local
				for i := range stores {
					if stores[i], err = On(d, Options{Index: &Index{Dims: dims, Embed: embed, Fields: []string{"t[*]"}, Metric: metric}}); err != nil {
						t.Fatal(err)
					}
				}
				stores[0].disk.sketches, stores[1].disk.sketches = true, false
				put := func(n int) {
					var ops []Op
					for range n {
						texts := make([]any, rng.IntN(3))
						for i := range texts {
							texts[i] = "x"
						}
						if rng.IntN(1000) == 0 {
							for range 2 * rowsAtOnce {
								texts = append(texts, "x")
							}
						}
						ops = append(ops, PutOp{Namespace: ns, Key: fmt.Sprint(rng.IntN(items)), Value: map[string]any{"t": texts, "n": rng.IntN(3)}})
					}
					if _, err := stores[0].Batch(ctx, ops...); err != nil {
						t.Fatal(err)
					}
				}
				put(items)
				for range 6 {
					put(50)
					q := Query{Vector: near(1 + rng.IntN(7)), Limit: 1 + rng.IntN(40)}
					if rng.IntN(2) == 0 {
						q.Filter = map[string]any{"n": 1}
					}
					var got [2][]Found
					for i, s := range stores {
						if got[i], err = s.Search(ctx, q); err != nil {
							t.Fatal(err)
						}
					}
					if !reflect.DeepEqual(got[0], got[1]) {
						t.Fatalf("with sketches\n%v\nwithout\n%v", got[0], got[1])
					}
				}
			})
		}
	}
}

// TestBoundsAreTight: a query along what the sketch of a row lost is the worst
// there is, and the bound no more than it takes.
func TestBoundsAreTight(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for _, dims := range []int{2, 31, 32, 384} {
		ix := &Index{Dims: dims, Metric: Dot}
		for range 50 {
			row, lost := make([]float32, dims), make([]float32, dims)
			for i := range row {
				row[i] = rng.Float32() - 0.5
			}
			codes, s := appendSketch(nil, row)
			for i := range row {
				lost[i] = float32(float64(row[i]) - float64(s.scale)*float64(codes[i]))
			}
			sc := ix.scorer(lost)
			p := newProbe(&sc)
			product := make([]int32, 1)
			codeProductsGeneric(p.codes, codes, product)
			score, bound := sc.best(row), p.bound(product[0], &s)
			// The sketch of the query may lose as much again as its codes are coarse.
			if room := p.perNorm * s.norm; bound < score || bound > score+2*room+1e-3*p.perErr*s.err {
				t.Fatalf("%d dimensions: bound %g, score %g, room %g", dims, bound, score, room)
			}
			if without := bound - 0.3*p.perErr*s.err - 2*p.perNorm*s.norm; without >= score {
				t.Fatalf("%d dimensions: score %g, and without a third of what is lost %g", dims, score, without)
			}
		}
	}
}
