package crash

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/admin"
	"github.com/stele-go/stele/saver/disk"
)

var salvageDir = filepath.Join("home", "salvaged")

// salvaged compares a salvaged store with the model of the one it came from.
type salvaged struct {
	saved   int
	listed  int // lost, and the report says so
	skipped int // lost with a record of the log that was gone past
	extra   int // back, though deleted
}

// explain says why a checkpoint may be missing or other than it was: "" if it may not.
func explain(rep *admin.SalvageReport, cfg saver.Config, err error) string {
	for _, l := range rep.LostCheckpoints {
		if l.Thread == cfg.ThreadID && l.Namespace == cfg.Namespace && l.Checkpoint == cfg.CheckpointID {
			return "listed"
		}
	}
	for _, l := range rep.LostValues {
		if l.Thread == cfg.ThreadID && l.Namespace == cfg.Namespace && l.Checkpoint == cfg.CheckpointID && !errors.Is(err, saver.ErrNotFound) {
			return "listed"
		}
	}
	for _, l := range rep.LostParts {
		if slices.Contains(l.Threads, cfg.ThreadID) {
			return "listed"
		}
	}
	for _, f := range rep.Damage {
		switch filepath.Ext(f.File) {
		case ".log":
			return "skipped"
		case ".seg":
			if f.Kind == "file" || strings.Contains(f.Kind, "directory") || strings.Contains(f.Kind, "frame") || strings.Contains(f.Kind, "footer") || strings.Contains(f.Kind, "index") {
				return "listed" // with the directory, nobody knows of whom
			}
		}
	}
	return ""
}

func compareSalvaged(ctx context.Context, sh *shape, rep *admin.SalvageReport, d *disk.Saver) (out salvaged, err error) {
	have := map[string]bool{}
	for tup, err := range sh.model.List(ctx, saver.Query{}) {
		if err != nil {
			return out, err
		}
		want, err := one(tup)
		if err != nil {
			return out, err
		}
		have[fmt.Sprint(tup.Config.ThreadID, "/", tup.Config.Namespace, "/", tup.Config.CheckpointID)] = true
		got := ""
		gotTup, gerr := d.GetTuple(ctx, tup.Config)
		if gerr == nil {
			got, gerr = one(gotTup)
		}
		if gerr == nil && got == want {
			out.saved++
			continue
		}
		if gerr != nil && !errors.Is(gerr, saver.ErrNotFound) && !errors.Is(gerr, disk.ErrLost) {
			return out, fmt.Errorf("read %v: %w", tup.Config, gerr)
		}
		switch why := explain(rep, tup.Config, gerr); {
		case why == "listed":
			out.listed++
		case why == "skipped" || !sh.clean:
			out.skipped++
		default:
			return out, fmt.Errorf("%v is lost, and the report does not say so: %v; %s", tup.Config, gerr, difference(got, want))
		}
	}
	for tup, err := range d.List(ctx, saver.Query{}) {
		if err != nil {
			return out, err
		}
		if !have[fmt.Sprint(tup.Config.ThreadID, "/", tup.Config.Namespace, "/", tup.Config.CheckpointID)] {
			out.extra++
		}
	}
	if out.extra > 0 && !rep.MayHoldDeleted {
		return out, fmt.Errorf("%d deleted checkpoints are back, and the report does not say that they may be", out.extra)
	}
	return out, nil
}

// TestSalvageRot damages every file of small stores in every way: Salvage saves what
// was not hit, lists what was, says when something deleted may be back, leaves the
// source as it is, and makes a store that verifies. SALVAGE_BYTES sets how many bytes
// of each file are flipped.
func TestSalvageRot(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	seed := seedFrom(t, "ROT_SEED")
	defer func() {
		if t.Failed() {
			t.Logf("repeat with ROT_SEED=%d go test ./test/crash -run '^TestSalvageRot$'", seed)
		}
	}()
	var sum salvaged
	refused := 0
	total := eachRot(t, seed, envInt(t, "SALVAGE_BYTES", defaultSalvageBytes), func(sh *shape, what string, mem *vfs.Mem) {
		before := mem.Image()
		rep, err := admin.Salvage(ctx, dir, salvageDir, admin.SalvageOptions{Access: access(mem)})
		if err := untouched(before, mem.Image()); err != nil {
			t.Fatalf("store %q: %s: Salvage wrote to its source: %v", sh.name, what, err)
		}
		if err != nil {
			names, _ := mem.List(salvageDir)
			if (errors.Is(err, fault.ErrVersion) || strings.HasPrefix(what, "lose") || strings.HasPrefix(what, "empty") || strings.HasPrefix(what, "cut")) && len(names) == 0 {
				refused++
				return
			}
			t.Fatalf("store %q: %s: %v; left behind %v", sh.name, what, err, names)
		}
		d, err := disk.Open(salvageDir, disk.Options{ManualWork: true, CacheBytes: -1, Simulation: disk.Simulation{FS: mem, Rand: source(3), Inline: true}})
		if err != nil {
			t.Fatalf("store %q: %s: open what was saved: %v", sh.name, what, err)
		}
		got, err := compareSalvaged(ctx, sh, rep, d)
		if err = errors.Join(err, d.Close()); err != nil {
			t.Fatalf("store %q: %s: %v\n%+v", sh.name, what, err, rep)
		}
		if strings.HasPrefix(what, "flip") && got.skipped > 1 && sh.clean {
			t.Fatalf("store %q: %s: %d checkpoints lost by one bit of the log", sh.name, what, got.skipped)
		}
		onlyImages := !slices.ContainsFunc(rep.Damage, func(f admin.Finding) bool { return filepath.Ext(f.File) != ".img" })
		if onlyImages && got.listed+got.skipped+got.extra > 0 && sh.clean {
			t.Fatalf("store %q: %s: an image is derived, and %+v", sh.name, what, got)
		}
		sum.saved += got.saved
		sum.listed += got.listed
		sum.skipped += got.skipped
		sum.extra += got.extra
	})
	t.Logf("salvage: %d damages, %d refused; of their checkpoints %d saved, %d listed as lost, %d lost with records of the log, %d back though deleted; 0 unsaid",
		total, refused, sum.saved, sum.listed, sum.skipped, sum.extra)
}
