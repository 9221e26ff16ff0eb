package crash

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/stele-go/stele/base/seal"
	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/base/vfs/faultfs"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/snapshot"
)

// ring is the key provider of an encrypted store; nil stands for a store without
// encryption. Turning it makes another key the current one.
type ring struct {
	mu sync.Mutex
	n  int
}

func (r *ring) turn() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.n++
}

func ringID(n int) string { return fmt.Sprintf("key-%d", n) }

func (r *ring) CurrentKeyID() (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return ringID(r.n), nil
}

func (r *ring) Key(id string) ([]byte, error) {
	for n := range 100 {
		if ringID(n) == id {
			return bytes.Repeat([]byte{byte(n + 1)}, seal.KeySize), nil
		}
	}
	return nil, disk.ErrNoKey
}

// provider is r, or no provider at all.
func (r *ring) provider() disk.KeyProvider {
	if r == nil {
		return nil
	}
	return r
}

// entropy makes the bytes of an encrypted store follow from the seed as well.
func (r *ring) entropy(seed uint64) func([]byte) {
	if r == nil {
		return nil
	}
	next := source(seed ^ 0xe47)
	return func(b []byte) {
		var word [8]byte
		for len(b) > 0 {
			binary.LittleEndian.PutUint64(word[:], next())
			b = b[copy(b, word[:]):]
		}
	}
}

// load reads the manifest.
func (r *ring) load(fsys vfs.FS) (snapshot.State, snapshot.LoadReport, error) {
	return snapshot.Load(fsys, dir, snapshot.WithKeys(seal.New(r.provider(), nil)))
}

// rekey is a step that makes another key the current one.
func rekey() step { return step{what: "rekey", kind: kindManifest, life: "rekey"} }

// withRekeys puts changes of the key between the steps of a program.
func withRekeys(rng *rand.Rand, steps []step) []step {
	for range 1 + rng.IntN(4) {
		steps = slices.Insert(slices.Clone(steps), rng.IntN(len(steps)+1), rekey())
	}
	return steps
}

// TestSealedFaults is a share of TestFaults on an encrypted store.
//
// SEALED_FAULTS sets how many operations of each kind fail.
func TestSealedFaults(t *testing.T) {
	steps := faultProgram()
	model := newAnswers()
	dry := newFaultRun(noFault, model)
	dry.ring = new(ring)
	if err := dry.run(steps); err != nil {
		t.Fatalf("without a fault: %v\n%s", err, list(steps))
	}
	ops, most, seed := dry.inj.Ops(), envInt(t, "SEALED_FAULTS", defaultSealedFaults), seedFrom(t, "FAULT_SEED")
	rng := rand.New(rand.NewPCG(seed, 5))
	var all []faultfs.Rule
	for _, op := range faultfs.Kinds() {
		for _, rule := range variants(op) {
			stride := max(1, ops[op]/most)
			for n := 1 + rng.IntN(stride); n <= ops[op]; n += stride {
				rule.Op, rule.N = op, n
				all = append(all, rule)
			}
		}
	}
	err := parallel(all, func(rule faultfs.Rule) error {
		r := newFaultRun(rule, model)
		r.ring = new(ring)
		r.skip(dry.lives)
		if err := r.run(steps); err != nil {
			return fmt.Errorf("%+v, %v: %w\nreported: %w", rule, r.inj.Last(), err, errors.Join(r.errs...))
		}
		return nil
	})
	if err != nil {
		t.Fatalf("repeat with FAULT_SEED=%d SEALED_FAULTS=%d go test ./test/crash -run '^TestSealedFaults$'\n%v", seed, most, err)
	}
	t.Logf("%d runs with a fault each", len(all))
}

// TestSealedRot is a share of TestRot on encrypted stores.
//
// SEALED_ROT sets how many bytes of each file are flipped, ROT_BITS how many bits
// of each.
func TestSealedRot(t *testing.T) {
	t.Parallel()
	ctx, seed := context.Background(), seedFrom(t, "ROT_SEED")
	counts := map[bool]*[numVerdicts]int{true: {}, false: {}}
	total := 0
	var last *vfs.MemImage
	for i, s := range shapes() {
		sh, err := buildSealed(ctx, new(ring), s.clean, s.steps, uint64(i))
		if err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
		sh.name, sh.alien = s.name, last
		last = &sh.img
		r := &rotten{t: t, ctx: ctx, sh: sh, rng: rand.New(rand.NewPCG(seed, 3)), counts: counts,
			most: envInt(t, "SEALED_ROT", defaultSealedRot), bits: envInt(t, "ROT_BITS", 1)}
		for _, name := range slices.Sorted(maps.Keys(sh.img.Files)) {
			if filepath.Base(name) != "LOCK" {
				r.file(name)
			}
		}
		total += r.total
		if t.Failed() {
			t.Fatalf("repeat with ROT_SEED=%d go test ./test/crash -run '^TestSealedRot$'", seed)
		}
	}
	t.Logf("%d damages, 0 wrong; after a clean close %v, after a kill %v, in the order of %v", total, *counts[true], *counts[false], verdictNames)
}
