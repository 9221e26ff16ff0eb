package crash

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/store"
)

// keeper is a saver with items beside its checkpoints.
type keeper interface{ local() *store.Local }

func items(s full) *store.Local { return s.(keeper).local() }

var (
	_ keeper = (*opened)(nil)
	_ keeper = (*model)(nil)
)

// itemOptions are those of the stores of items. Expired ones are shown, so that
// what is stored depends on the calls alone and not on when it is looked at.
func itemOptions(clk *clock) store.Options {
	return store.Options{Clock: clk.now, ShowExpired: true, NoRefreshOnRead: true, Index: &store.Index{Dims: 2, Embed: func(_ context.Context, texts []string) ([][]float32, error) {
		out := make([][]float32, len(texts))
		for i, t := range texts {
			h := xxhash.Sum64String(t)
			out[i] = []float32{float32(h&0xff) + 1, float32(h >> 56)}
		}
		return out, nil
	}}}
}

// item is a random change of an item.
func (g *generator) item() store.PutOp {
	ns := []store.Namespace{{"a"}, {"a", "b"}, {"b"}}[g.rng.IntN(3)]
	op := store.PutOp{Namespace: ns, Key: fmt.Sprint("k", g.rng.IntN(4))}
	if g.rng.IntN(4) == 0 {
		return op
	}
	text := make([]byte, g.size()/2)
	for i := range text {
		text[i] = 'a' + byte(g.rng.Uint32()>>28)
	}
	op.Value = map[string]any{"text": string(text), "n": g.rng.IntN(3)}
	op.NoIndex = g.rng.IntN(2) == 0
	if g.rng.IntN(4) == 0 {
		op.TTL = time.Duration(1+g.rng.IntN(20)) * time.Second
	}
	return op
}

// items changes one item or several, sweeps, or lets some go along with a
// checkpoint.
func (g *generator) items() step {
	ops := []store.PutOp{g.item()}
	for range g.rng.IntN(3) {
		ops = append(ops, g.item())
	}
	switch g.rng.IntN(6) {
	case 0:
		return step{what: "sweep", kind: kindDelete, call: func(ctx context.Context, s full) error {
			_, err := items(s).Sweep(ctx)
			return err
		}}
	case 1, 2:
		thread := g.thread()
		id, parent := g.checkpointID(), g.parent(thread+"/")
		g.ids[thread+"/"] = append(g.ids[thread+"/"], id)
		req := saver.PutRequest{Config: saver.Config{ThreadID: thread, CheckpointID: parent}, Checkpoint: saver.Checkpoint{V: 4, ID: id}}
		return step{what: fmt.Sprintf("put %s %s on %q with %d items", thread, id, parent, len(ops)), kind: kindAppend,
			call: func(ctx context.Context, s full) error {
				along, err := items(s).Prepare(ctx, ops...)
				if err != nil {
					return err
				}
				with := req
				with.Changes = []saver.Change{along}
				_, err = s.PutRequest(ctx, with)
				return err
			}}
	}
	return step{what: fmt.Sprintf("put %d items", len(ops)), kind: kindAppend, call: func(ctx context.Context, s full) error {
		batch := make([]store.Op, len(ops))
		for i, op := range ops {
			batch[i] = op
		}
		_, err := items(s).Batch(ctx, batch...)
		return err
	}}
}

// items adds everything a store of items shows to the dump, each item also as it
// is found by its key and by its vector.
func (d *dumper) items(s *store.Local) error {
	spaces, err := s.ListNamespaces(d.ctx, store.NamespaceQuery{Limit: store.NoLimit})
	if err != nil {
		return fmt.Errorf("namespaces: %w", err)
	}
	for _, ns := range spaces {
		d.line("namespace %s", strings.Join(ns, "/"))
	}
	for f, err := range s.Scan(d.ctx, store.Query{ByKey: true}) {
		if err != nil {
			return fmt.Errorf("scan: %w", err)
		}
		d.line("item %s", itemLine(&f.Item))
		one, err := s.Get(d.ctx, f.Namespace, f.Key)
		if err != nil {
			return fmt.Errorf("get %v %s, which a scan showed: %w", f.Namespace, f.Key, err)
		}
		if got, want := itemLine(one), itemLine(&f.Item); got != want {
			return fmt.Errorf("get gives %s, a scan %s", got, want)
		}
	}
	for f, err := range s.Scan(d.ctx, store.Query{Vector: []float32{3, 4}}) {
		if err != nil {
			return fmt.Errorf("scan by vector: %w", err)
		}
		d.line("near %v %s %v %v", f.Namespace, f.Key, f.Scored, f.Score)
	}
	return nil
}

func itemLine(it *store.Item) string {
	text, _ := it.Value["text"].(string)
	return fmt.Sprintf("%v %s n %v text %d %016x created %d updated %d expires %d", it.Namespace, it.Key, it.Value["n"], len(text),
		xxhash.Sum64String(text), it.CreatedAt.UnixMicro(), it.UpdatedAt.UnixMicro(), it.ExpiresAt.UnixMicro())
}
