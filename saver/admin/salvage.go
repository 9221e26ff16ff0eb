package admin

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/stele-go/stele/internal/diskhook"
	"github.com/stele-go/stele/internal/engine"
	"github.com/stele-go/stele/internal/export"
	"github.com/stele-go/stele/internal/layout"
	"github.com/stele-go/stele/internal/lost"
	"github.com/stele-go/stele/saver/disk"
)

// SalvageOptions configure Salvage.
type SalvageOptions struct {
	Access   Access
	Progress func(Progress) // may be nil
}

// SalvageReport says what was saved and what was not.
type SalvageReport struct {
	Source  string `json:"source"`
	Output  string `json:"output"`
	Threads int    `json:"threads"` // saved: threads and runs
	Items   int    `json:"items"`   // checkpoints, writes, …
	Values  int    `json:"values"`
	LastLSN uint64 `json:"last_lsn"` // the last commit found

	// Damage is what had to be gone past.
	Damage []Finding `json:"damage"`
	// LostCheckpoints could not be read and are not in the new store.
	LostCheckpoints []LostCheckpoint `json:"lost_checkpoints"`
	// LostValues are channels and writes of checkpoints that are in the new store;
	// reading one gives disk.ErrLost.
	LostValues []LostValue `json:"lost_values"`
	// LostMore is how many uses of lost values there are beyond those that are listed:
	// the lists end after a million.
	LostMore int `json:"lost_more,omitempty"`
	// LostParts are parts of the index: of each of these threads, checkpoints may be
	// missing that nothing else tells of.
	LostParts []LostPart `json:"lost_parts"`
	// MayHoldDeleted: what was gone past may have held deletions, so that something
	// that was deleted may be back.
	MayHoldDeleted bool `json:"may_hold_deleted"`
	// CutBytes is how many bytes the log has behind its last record that are none,
	// CutAt where ("file:offset"): what was being written when the writer died, or
	// damage to the last of what was.
	CutBytes int64  `json:"cut_bytes,omitempty"`
	CutAt    string `json:"cut_at,omitempty"`
	// ManifestLost: the manifest could not be read, and the files of the directory
	// were taken as they are.
	ManifestLost bool          `json:"manifest_lost"`
	Verified     *VerifyReport `json:"verified"` // of the new store
	Took         time.Duration `json:"took_ns"`
}

// Lost reports whether anything is known to be lost.
func (r *SalvageReport) Lost() bool {
	return len(r.LostCheckpoints)+len(r.LostValues)+len(r.LostParts) > 0
}

// Complete reports whether nothing is lost or back: nothing is listed, and what was
// gone past was derived from what is there (images) or held nothing of its own (header,
// footer and index of a segment).
func (r *SalvageReport) Complete() bool {
	return !r.Lost() && !r.MayHoldDeleted && !slices.ContainsFunc(r.Damage, Finding.mayHide)
}

// mayHide reports whether damage may have cost something that is not listed.
func (f Finding) mayHide() bool {
	switch f.Kind {
	case "segment header", "segment footer", "segment family index":
		return false
	}
	return filepath.Ext(f.File) != ".img"
}

// LostPart is a part of the index that could not be read.
type LostPart struct {
	Threads []string `json:"threads"`
	Finding Finding  `json:"finding"`
}

// Salvage saves what can be read of the store in dir into a new store in out, which
// must be empty or missing. It goes past damage of every kind and lists what it could
// not save; dir is only read. The new store is verified before Salvage returns, and
// may be opened like any other.
//
// An error means that nothing was saved: the directory holds nothing of a store, is of
// a newer format, or a device failed.
func Salvage(ctx context.Context, dir, out string, o SalvageOptions) (*SalvageReport, error) {
	start := time.Now()
	if dir == out {
		return nil, fmt.Errorf("salvage %s: the output must be another directory", dir)
	}
	o.Access.sim().Opening = ctx
	d, err := o.Access.Open(dir, true)
	if err != nil {
		return nil, fmt.Errorf("salvage: %w", err)
	}
	defer func() { _ = d.Close() }() // read-only
	e := diskhook.Engine(d)
	exp, err := export.Run(ctx, e, out, export.Options{Replace: replacement, Progress: func(done, total int) {
		if o.Progress != nil {
			o.Progress(Progress{Step: "families", Done: int64(done), Total: int64(total)})
		}
	}})
	if err != nil {
		return nil, fmt.Errorf("salvage: %w", err)
	}
	rep := &SalvageReport{Source: dir, Output: out, Threads: exp.Partitions, Items: exp.Items, Values: exp.Values, LastLSN: uint64(exp.LastLSN),
		Damage: []Finding{}, LostCheckpoints: []LostCheckpoint{}, LostValues: []LostValue{}, LostParts: []LostPart{}, ManifestLost: e.Report().Guessed}
	rep.fill(e, exp)
	if r := e.Report(); r.DroppedBytes > 0 {
		rep.CutBytes, rep.CutAt = r.DroppedBytes, fmt.Sprintf("%s:%d", r.DroppedFile, r.DroppedAt)
	}
	if err := finish(ctx, d, out, o, rep); err != nil {
		return nil, fmt.Errorf("salvage: %w", err)
	}
	rep.Took = time.Since(start)
	return rep, nil
}

// replacement is what stands for a lost value: a mark that is an error to read, or
// nothing for the record of a checkpoint, without which there is no checkpoint.
func replacement(l lost.Value) []byte {
	_, kind := SplitThread(l.Partition)
	if _, ok := layout.ParseItem(l.Key); kind != "thread" || !ok || l.Slot == 0 {
		return nil
	}
	return layout.LostValue(findingOf(l.Err).String())
}

// addDamage lists a place once, whatever led to it.
func (r *SalvageReport) addDamage(f Finding) {
	same := func(g Finding) bool {
		return g.File == f.File && g.Offset == f.Offset && (g.Offset >= 0 || g.Detail == f.Detail)
	}
	if !slices.ContainsFunc(r.Damage, same) {
		r.Damage = append(r.Damage, f)
	}
}

func (r *SalvageReport) fill(e *engine.Engine, exp *export.Report) {
	damage, deletions := e.Skipped()
	for _, d := range damage {
		r.addDamage(findingOf(d))
	}
	r.MayHoldDeleted = deletions
	dropped := map[export.LostItem]bool{}
	for _, it := range exp.Dropped {
		dropped[it] = true
		r.LostCheckpoints = append(r.LostCheckpoints, lostItem(it))
	}
	for _, v := range exp.Lost {
		r.addDamage(findingOf(v.Err))
	}
	r.LostValues, r.LostMore = lostValues(exp.Lost, dropped), exp.LostAll-len(exp.Lost)
	for _, p := range exp.Parts {
		r.LostParts = append(r.LostParts, LostPart{Threads: threadNames(p.Partitions), Finding: findingOf(p.Err)})
	}
}

// finish opens the new store once, so that it has an index of its own and knows what
// was erased in the old one, and verifies it.
func finish(ctx context.Context, from *disk.Saver, out string, o SalvageOptions, rep *SalvageReport) error {
	opts := o.Access.Options
	opts.ReadOnly, opts.AllowDamage, opts.ManualWork = false, false, true
	d, err := disk.Open(out, opts)
	if err != nil {
		return err
	}
	if err := errors.Join(diskhook.AdoptErasures(ctx, d, from), d.Close()); err != nil {
		return err
	}
	if rep.Verified, err = Verify(ctx, out, VerifyOptions(o)); err != nil {
		return err
	}
	if !rep.Verified.Clean() {
		return errors.New("the new store does not verify: " + rep.Verified.Damage[0].String())
	}
	return nil
}
