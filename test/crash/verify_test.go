package crash

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stele-go/stele/internal/engine"
	"github.com/stele-go/stele/internal/vfs"
	"github.com/stele-go/stele/internal/vfs/rot"
)

func verify(t *testing.T, mem *vfs.Mem) (*engine.VerifyReport, error) {
	t.Helper()
	return engine.Verify(context.Background(), dir, engine.Options{FS: mem, CacheBytes: -1}, nil)
}

// TestVerifyRotX
func TestVerifyRotX(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, s := range shapes() {
		sh, err := build(context.Background(), s.clean, s.steps, 0)
		if err != nil {
			t.Fatal(err)
		}
		mem := vfs.NewMemFrom(sh.img, vfs.MemOptions{})
		rep, err := verify(t, mem)
		if err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
		t.Logf("%s: %+v", s.name, rep)
		for name, f := range sh.img.Files {
			if filepath.Base(name) == "LOCK" {
				continue
			}
			undet := 0
			for range 150 {
				off, bit := rng.Int64N(f.Size()), rng.IntN(8)
				mem := vfs.NewMemFrom(sh.img, vfs.MemOptions{})
				if err := rot.FlipBit(mem, name, off, bit); err != nil {
					t.Fatal(err)
				}
				rep2, err := verify(t, mem)
				if err != nil {
					t.Logf("%s %s %d: error %v", s.name, name, off, err)
					continue
				}
				if len(rep2.Findings) <= len(rep.Findings) && slices.EqualFunc(rep.Findings, rep2.Findings, func(a, b engine.Finding) bool { return fmt.Sprint(a) == fmt.Sprint(b) }) {
					undet++
					t.Logf("UNDETECTED %s %s off %d of %d: %v", s.name, name, off, f.Size(), rep2.Findings)
				}
			}
			_ = undet
		}
	}
}
