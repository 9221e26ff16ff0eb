package engine

import (
	"fmt"
	"syscall"
	"testing"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/metrics"
	"github.com/stele-go/stele/base/vfs"
)

// TestRefusalBesideCommits: a caller that notes its refusal late, when commits were made meanwhile, says nothing of the
// store as it is.
func TestRefusalBesideCommits(t *testing.T) {
	e := mustOpen(t, Options{FS: vfs.NewMem(vfs.MemOptions{}), LowSpace: -1, Reserve: -1})
	defer func() { _ = e.Close() }()
	want := func(status metrics.Status) {
		t.Helper()
		if h := e.Health(); h.Status != status {
			t.Errorf("%v %v, want %v", h.Status, h.Problems, status)
		}
	}
	quota := fmt.Errorf("write: %w: %w", fault.ErrDiskFull, syscall.EDQUOT)
	before := e.log.LastLSN()
	mustPut(t, e, "p", "k", "v")
	e.noteRefusal(quota, before)
	want(metrics.StatusOK)
	e.noteRefusal(quota, e.log.LastLSN())
	want(metrics.StatusDegraded)
	mustPut(t, e, "p", "k", "w")
	want(metrics.StatusOK)
}
