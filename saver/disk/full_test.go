package disk_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
)

func count(t *testing.T, s saver.Saver) int {
	t.Helper()
	n := 0
	for _, err := range s.List(context.Background(), saver.Query{}) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}

// A full device refuses puts, keeps what was acknowledged, lets itself be dug out
// of, and takes puts again.
func TestFullDiskCanBeDugOut(t *testing.T) {
	ctx := context.Background()
	mem := vfs.NewMem(vfs.MemOptions{Capacity: 24 << 20})
	opts := disk.Options{FlushBytes: 8 << 20, NoPatches: true}
	s, err := disk.Open("store", opts.In(disk.Simulation{FS: mem}))
	if err != nil {
		t.Fatal(err)
	}
	parent := ""
	put := func(i int) error {
		id, v := fmt.Sprintf("c%06d", i), saver.IntVersion(int64(i+1))
		_, err := s.Put(ctx, saver.Config{ThreadID: "t", CheckpointID: parent}, saver.Checkpoint{V: 4, ID: id,
			Versions: map[string]saver.Version{"m": v}, Values: map[string]saver.Value{"m": saver.ValueOf(strings.Repeat(id, 3000))}},
			nil, map[string]saver.Version{"m": v})
		if err == nil {
			parent = id
		}
		return err
	}
	acked := 0
	for err = put(0); err == nil && acked < 10_000; err = put(acked) {
		acked++
	}
	if !errors.Is(err, fault.ErrDiskFull) || errors.Is(err, fault.ErrPoisoned) {
		t.Fatalf("after %d puts: %v, want a clean ErrDiskFull", acked, err)
	}
	if n := count(t, s); n != acked {
		t.Errorf("%d checkpoints listed, %d acknowledged", n, acked)
	}
	if _, err := s.Prune(ctx, []string{"t"}, saver.KeepLatest); err != nil {
		t.Fatalf("prune on a full disk: %v", err)
	}
	if err := s.Compact(ctx); err != nil {
		t.Fatalf("compact on a full disk: %v", err)
	}
	for i := range 20 {
		if err := put(acked + i); err != nil {
			t.Fatalf("put with room again: %v", err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = disk.Open("store", opts.In(disk.Simulation{FS: mem})); err != nil {
		t.Fatal(err)
	}
	if n := count(t, s); n != 21 {
		t.Errorf("%d checkpoints after reopening, want the one kept and 20 new ones", n)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// Where what was deleted is less than a compaction goes by, of a segment whose live part there is
// room for, it is given back all the same while the device is full: also if it was deleted before
// that.
func TestLittleIsFreedOnAFullDisk(t *testing.T) {
	t.Parallel()
	for _, before := range []bool{false, true} {
		t.Run(fmt.Sprint("before ", before), func(t *testing.T) { littleIsFreed(t, before) })
	}
}

func littleIsFreed(t *testing.T, before bool) {
	ctx := context.Background()
	mem := vfs.NewMem(vfs.MemOptions{Capacity: 40 << 20})
	s := openFor(t, "store", disk.Options{NoPatches: true}, disk.Simulation{FS: mem})
	random := rand.NewChaCha8([32]byte{})
	put := func(n int) error {
		b := make([]byte, 1<<20)
		_, _ = random.Read(b) // it does not fail
		_, err := s.Put(ctx, saver.Config{ThreadID: fmt.Sprintf("thread %d", n)}, saver.Checkpoint{V: 4, ID: "c",
			Versions: map[string]saver.Version{"m": saver.IntVersion(1)}, Values: map[string]saver.Value{"m": saver.ValueOf(b)}},
			nil, map[string]saver.Version{"m": saver.IntVersion(1)})
		return err
	}
	for n := range 8 {
		if err := put(n); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Compact(ctx); err != nil {
		t.Fatal(err)
	}
	remove := func() {
		for n := range 3 {
			if err := s.DeleteThread(ctx, fmt.Sprintf("thread %d", n)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if before {
		remove()
	}
	free, err := mem.FreeSpace("store")
	if err != nil {
		t.Fatal(err)
	}
	if err := mem.MkdirAll("other"); err != nil {
		t.Fatal(err)
	}
	f, err := mem.Create("other/ballast")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(make([]byte, free-7<<20), 0); err != nil {
		t.Fatal(err)
	}
	next := 8
	for err = put(next); err == nil && next < 16; err = put(next) { // the log may have room yet
		next++
	}
	if !errors.Is(err, fault.ErrDiskFull) {
		t.Fatalf("put %d on a full device: %v", next, err)
	}
	if !before {
		remove()
	}
	for tries := 0; ; tries++ { // as long as the work takes
		err := put(next)
		if err == nil {
			break
		}
		if !errors.Is(err, fault.ErrDiskFull) || tries == 1_000 {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond)
	}
	if n := count(t, s); n != next-2 {
		t.Errorf("%d checkpoints, want %d", n, next-2)
	}
	if err := errors.Join(f.Close(), s.Close()); err != nil {
		t.Fatal(err)
	}
}
