package runs_test

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"testing"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/store"
)

// TestCancelledEndsOnAFullDisk: while a disk is full, a run that was cancelled ends, so that its thread can be deleted.
func TestCancelledEndsOnAFullDisk(t *testing.T) {
	ctx := t.Context()
	s := must(disk.Open("store", disk.Options{NoPatches: true}.In(disk.Simulation{FS: vfs.NewMem(vfs.MemOptions{Capacity: 40 << 20})})))
	t.Cleanup(func() { _ = s.Close() })
	items := must(store.On(s, store.Options{}))
	q := must(runs.NewLocal(ctx, items, runs.LocalOptions{}))
	var claims []runs.Claim
	for i := range 2 {
		must(q.Submit(ctx, runs.Request{Spec: runs.Spec{ThreadID: fmt.Sprint(i), Graph: "g"}}))
		c, _, err := q.Claim(ctx, "w", []string{"g"})
		if err != nil || c == nil {
			t.Fatal(c, err)
		}
		claims = append(claims, *c)
	}
	must(q.Submit(ctx, runs.Request{Spec: runs.Spec{ThreadID: "next", Graph: "g"}}))
	b := make([]byte, 768<<10)
	for n := 0; ; n++ {
		_, _ = rand.Read(b)
		err := items.Put(ctx, []string{"a"}, fmt.Sprint(n), map[string]any{"text": base64.StdEncoding.EncodeToString(b)})
		if errors.Is(err, fault.ErrDiskFull) {
			break
		}
		if err != nil || n == 100 {
			t.Fatal(n, err)
		}
	}
	for _, c := range claims[:2] {
		if r, err := q.Cancel(ctx, c.ID, runs.Interrupt); err != nil || r.Cancel != runs.Interrupt {
			t.Fatal(r, err)
		}
	}
	over := runs.Outcome{Status: runs.Interrupted}
	if err := q.Finish(ctx, claims[0], over); err != nil {
		t.Errorf("the end: %v", err)
	}
	if _, err := q.FinishAndClaim(ctx, claims[1], over, "w", []string{"g"}); err != nil {
		t.Errorf("the end alone: %v", err)
	}
}
