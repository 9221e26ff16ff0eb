package wal

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"testing"

	"github.com/stele-go/stele/base/fault"
)

// TestRefusedEverywhere: whatever file the system refuses to make, to rename or to open, twice in a row, the commit
// that needs it is refused with that error, nothing is poisoned, and the commits after it go on.
func TestRefusedEverywhere(t *testing.T) {
	for _, cause := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.EACCES, syscall.EPERM, syscall.EROFS} {
		refused := 0
		for n := 1; ; n++ {
			w, h := hooked(t)
			count, hit := 0, false
			h.set(func(op fsOp) error {
				if op.kind != "create" && op.kind != "rename" && op.kind != "open" && op.name != "manifest" {
					return nil
				}
				if count++; count != n && count != n+1 {
					return nil
				}
				hit = true
				return &fs.PathError{Op: op.kind, Path: op.name, Err: cause}
			})
			l := w.open(t, func(o *Options) {
				o.OnCreate = func(fi FileInfo) error {
					if err := h.ask(fsOp{kind: "edit", name: "manifest"}); err != nil {
						return fmt.Errorf("manifest edit: %w", err)
					}
					return w.created(fi)
				}
			})
			for i := 1; i <= 20; i++ {
				err := commit(l, payload(i, 9000))
				for ; err != nil; err = commit(l, payload(i, 9000)) {
					if !errors.Is(err, cause) || errors.Is(err, fault.ErrPoisoned) {
						t.Fatalf("refused at %d, commit %d: %v", n, i, err)
					}
					refused++
				}
			}
			w.closesWith(t, l, 20, 9000)
			if !hit {
				break
			}
		}
		if refused == 0 {
			t.Fatalf("%v did not reach a commit", cause)
		}
	}
}
