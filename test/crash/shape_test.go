package crash

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/stele-go/stele/base/vfs"
)

// shape is a small store to be damaged, as it lies on disk.
type shape struct {
	name  string
	alien *vfs.MemImage // another store, whose files have the same names
	clean bool          // closed in order; else the process was killed
	img   vfs.MemImage
	model full
	dumps []string // of the model, after each call
	acked int      // calls
	older map[string][]byte
	ring  *ring // keys; nil: not encrypted

	patches int64 // values logged as patches
}

// shapes are stores with every kind of file, some closed, some killed.
func shapes() []struct {
	name  string
	clean bool
	steps []step
} {
	g := newGenerator(rand.New(rand.NewPCG(11, 3)))
	g.big = 600
	calls := func(n int) (out []step) {
		for range n {
			out = append(out, g.put())
		}
		return append(out, g.putWrites())
	}
	item := func() step {
		op := g.item()
		op.Value, op.NoIndex = map[string]any{"text": "short", "n": 1}, false
		return step{what: "put an item", kind: kindAppend, call: func(ctx context.Context, s full) error {
			_, err := items(s).Batch(ctx, op)
			return err
		}}
	}
	chat := func(n int) (out []step) { // one thread, whose values are mostly patches
		c := newGenerator(rand.New(rand.NewPCG(12, uint64(n))))
		c.big, c.names = 600, []string{"a"}
		for range n {
			out = append(out, c.put())
		}
		return out
	}
	deletion := func(thread string) step {
		return step{what: "delete", kind: kindDelete, call: func(ctx context.Context, s full) error { return s.DeleteThread(ctx, thread) }}
	}
	return []struct {
		name  string
		clean bool
		steps []step
	}{
		{"log, closed", true, calls(5)},
		{"log, killed", false, append(calls(4), item(), item())},
		{"segment, image, log, closed", true, slices.Concat(calls(2), []step{item(), flushStep()}, calls(2), []step{item(), imageStep()}, calls(1))},
		{"segment, image, log, killed", false, slices.Concat(calls(3), []step{flushStep()}, calls(2), []step{imageStep()}, calls(1))},
		{"compacted, with deletions, closed", true, slices.Concat(calls(3), []step{flushStep(), deletion("a")}, calls(2),
			[]step{flushStep(), deletion("b"), compactStep()}, calls(1), []step{deletion("c")}, calls(1))},
		{"patches, closed", true, slices.Concat(chat(6), []step{flushStep()}, chat(7))},
		{"patches, killed", false, slices.Concat(chat(4), []step{imageStep()}, chat(8))},
		{"two logs, killed", false, slices.Concat(calls(2), []step{lifeStep("close")}, calls(2), []step{deletion("a")}, calls(1))},
	}
}

// build makes the store of a shape.
func build(ctx context.Context, clean bool, steps []step, seed uint64) (*shape, error) {
	return buildSealed(ctx, nil, clean, steps, seed)
}

// buildSealed is build with keys.
func buildSealed(ctx context.Context, keys *ring, clean bool, steps []step, seed uint64) (*shape, error) {
	seed <<= 32
	mem, clk := vfs.NewMem(vfs.MemOptions{}), &clock{}
	sh := &shape{ring: keys, clean: clean, model: newModel(clk), older: map[string][]byte{}}
	d, err := config{seed: seed + 9, ring: keys}.open(mem, clk)
	if err != nil {
		return nil, err
	}
	note := func() error {
		text, err := dump(ctx, sh.model)
		sh.dumps = append(sh.dumps, text)
		return err
	}
	if err := note(); err != nil {
		return nil, err
	}
	for i, s := range steps {
		switch {
		case s.work != nil:
			err = s.work(ctx, d.Saver)
		case s.life != "":
			sh.patches += d.Metrics().Patches
			if err = d.Close(); err == nil {
				d, err = config{seed: seed + 9 + uint64(i), ring: keys}.open(mem, clk)
			}
		default:
			sh.acked++
			clk.set(sh.acked)
			if got, want := s.call(ctx, d), s.call(ctx, sh.model); class(got) != class(want) {
				err = fmt.Errorf("disk answers %v, model %v", got, want)
			}
			err = errors.Join(err, note())
		}
		if err != nil {
			return nil, fmt.Errorf("step %d, %s: %w", i, s.what, err)
		}
		if i == 2*len(steps)/3 {
			for name, f := range mem.Image().Files {
				sh.older[name] = contents(f)
			}
		}
	}
	if !clean {
		sh.img = mem.Image()
	}
	sh.patches += d.Metrics().Patches
	if err := d.Close(); err != nil {
		return nil, err
	}
	if clean {
		sh.img = mem.Image()
	}
	return sh, nil
}
