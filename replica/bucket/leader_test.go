package bucket_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/replica"
	"github.com/stele-go/stele/replica/bucket"
)

// empty is a local log without records.
type empty struct{}

func (empty) End() base.LSN { return 0 }

func (empty) Chain(base.LSN) (replica.Chain, error) { return replica.Chain{}, nil }

// afterLoss is the bucket that a power loss leaves.
func afterLoss(t *testing.T, lose func(at string) error) bucket.Bucket {
	t.Helper()
	at := t.TempDir()
	if err := lose(at); err != nil {
		t.Fatal(err)
	}
	left, err := bucket.Dir(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	return left
}

// TestFencePowerLoss: the fence of a take-over is not durable, and the next take-over finds it. Once that
// one leads, a power loss does not take the fence.
func TestFencePowerLoss(t *testing.T) {
	b, err := bucket.Dir(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	bad := false
	lose := bucket.PowerLoss(t, b, func(path string) bool { return bad && filepath.Base(path) == "e0000000001" })
	o := replica.Options{Bucket: b, Store: 7, Dir: "a"}
	l, err := replica.Begin(t.Context(), o, empty{}, replica.Sync, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.CreatePoint(t.Context(), 0, nil); err != nil {
		t.Fatal(err)
	}
	takeOver := func(dir string) error {
		o := o
		o.Dir = dir
		f, err := replica.Follow(t.Context(), o, empty{}, replica.Position{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = f.TakeOver(t.Context(), replica.TakeOver{Mode: replica.Sync, Force: true}, nil)
		return err
	}
	bad = true
	if err := takeOver("b"); !errors.Is(err, syscall.EIO) {
		t.Fatalf("took over: %v", err)
	}
	bad = false
	if err := takeOver("c"); err != nil {
		t.Fatal(err)
	}
	if _, err := get(t, afterLoss(t, lose), "e0000000001/000000000000"); err != nil {
		t.Errorf("another leads, and the fence is gone: %v", err)
	}
}

// TestLeaderPowerLoss: syncs of directories fail under a leader. What it acknowledges all the same, of a
// record and of HEAD, is there after a power loss.
func TestLeaderPowerLoss(t *testing.T) {
	for fails := range 12 {
		t.Run(fmt.Sprint(fails, " syncs fail"), func(t *testing.T) {
			b, err := bucket.Dir(t.Context(), t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			left := 0
			lose := bucket.PowerLoss(t, b, func(string) bool { left--; return left >= 0 })
			lost := func() *replica.Follower {
				t.Helper()
				f, err := replica.Follow(t.Context(), replica.Options{Bucket: afterLoss(t, lose), Store: 7, Dir: "b"}, empty{}, replica.Position{})
				if err != nil {
					t.Fatal(err)
				}
				return f
			}
			l, err := replica.Begin(t.Context(), replica.Options{Bucket: b, Store: 7, Dir: "a"}, empty{}, replica.Async, 0)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := l.CreatePoint(t.Context(), 0, nil); err != nil {
				t.Fatal(err)
			}
			if err := l.Append(replica.Batch{First: 1, Records: [][]byte{[]byte("one")}}); err != nil {
				t.Fatal(err)
			}
			left = fails
			for try := 0; l.Synced() == 0; try++ {
				if _, err := l.Upload(t.Context()); err != nil && (try > fails || errors.Is(err, replica.ErrFenced)) {
					t.Fatal(err)
				}
			}
			if batches, err := lost().Next(t.Context()); err != nil || len(batches) != 1 {
				t.Errorf("the record is acknowledged, and %d batches are there after a power loss; %v", len(batches), err)
			}
			left = fails
			for try := 0; ; try++ {
				err := l.SetMode(t.Context(), replica.Bounded)
				if err == nil {
					break
				}
				if try > fails || errors.Is(err, replica.ErrFenced) {
					t.Fatal(err)
				}
			}
			if mode := lost().Mode(); mode != replica.Bounded {
				t.Errorf("HEAD has the mode, and is %s after a power loss", mode)
			}
		})
	}
}
