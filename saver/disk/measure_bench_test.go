package disk_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
)

// BenchmarkPutMeasured is a save of one small value without a device, the worst case
// for what measuring costs.
func BenchmarkPutMeasured(b *testing.B) {
	s, err := disk.Open("store", disk.Options{Sync: disk.SyncNever, Simulation: disk.Simulation{FS: vfs.NewMem(vfs.MemOptions{})}})
	if err != nil {
		b.Fatal(err)
	}
	ctx := context.Background()
	v := map[string]saver.Version{"m": saver.IntVersion(1)}
	for n := 0; b.Loop(); n++ {
		cp := saver.Checkpoint{V: 4, ID: "c", Versions: v, Values: map[string]saver.Value{"m": saver.ValueOf(n)}}
		if _, err := s.Put(ctx, saver.Config{ThreadID: fmt.Sprint(n % 1000)}, cp, nil, v); err != nil {
			b.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
}
