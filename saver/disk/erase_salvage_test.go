package disk_test

import (
	"errors"
	"testing"

	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/admin"
	"github.com/stele-go/stele/saver/disk"
)

// TestSalvageRemembersErasures: a thread that was erased stays so in the store that is
// saved of the one it was in, and in the one saved of that, until it is copied to.
func TestSalvageRemembersErasures(t *testing.T) {
	mem := vfs.NewMem(vfs.MemOptions{})
	sim := disk.Simulation{FS: mem, Inline: true}
	s := openFor(t, "store", eraseOptions(), sim)
	v := fill(t, s)
	must(t, s.Erase(t.Context(), v.id), s.Close())
	for _, dir := range [][2]string{{"store", "saved"}, {"saved", "again"}} {
		rep, err := admin.Salvage(t.Context(), dir[0], dir[1], admin.SalvageOptions{Access: admin.Access{Options: disk.Options{Simulation: sim}}})
		if err != nil || !rep.Complete() {
			t.Fatalf("salvage %v: %+v, %v", dir, rep, err)
		}
		s = openFor(t, dir[1], eraseOptions(), sim)
		late := s.PutWrites(t.Context(), saver.Config{ThreadID: v.id, CheckpointID: "0003"}, []saver.Write{{Channel: "c", Value: saver.ValueOf("late")}}, "task", "")
		if !errors.Is(late, saver.ErrThreadDeleted) {
			t.Fatalf("%s: a late write to an erased thread: %v", dir[1], late)
		}
		must(t, s.Close())
	}
	s = openFor(t, "again", eraseOptions(), sim)
	must(t, s.CopyThread(t.Context(), "copy", v.id))
	must(t, s.PutWrites(t.Context(), saver.Config{ThreadID: v.id, CheckpointID: "0002"}, []saver.Write{{Channel: "c", Value: saver.ValueOf("late")}}, "task", ""))
	must(t, s.Close())
}
