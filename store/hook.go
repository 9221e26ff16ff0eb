package store

import (
	"context"

	"github.com/stele-go/stele/internal/storehook"
)

func init() {
	storehook.CheckOptions = func(opts any) error { return opts.(*Options).validate() }
	storehook.CheckAddress = func(ns []string, key string) error { return checkAddress(ns, key) }
	storehook.CheckQuery = func(q, index any) error { return q.(*Query).check(index.(*Index)) }
	storehook.CheckNamespaceQuery = func(q any) error { return q.(*NamespaceQuery).check() }
	storehook.CompileFilter = func(f map[string]any) (func(map[string]any) bool, error) {
		compiled, err := compileFilter(f)
		return compiled.match, err
	}
	storehook.Embed = func(ctx context.Context, index any, texts []string) ([][]float32, error) {
		return index.(*Index).embed(ctx, texts)
	}
	storehook.NewScorer = func(index any, query []float32) storehook.Scorer {
		return hookScorer{index.(*Index).scorer(query)}
	}
	storehook.Expiry = expiry
	storehook.Renewal = func(now, expires, ttl int64) (int64, bool) {
		m := meta{expires: expires, ttl: ttl}
		if !m.live(now) {
			return expires, false
		}
		next, due := m.renewed(now)
		return next.expires, due
	}
}

type hookScorer struct{ scorer }

// Score implements storehook.Scorer.
func (s hookScorer) Score(vectors []float32) float64 {
	s.prepare(vectors)
	return s.public(s.best(vectors))
}
