package admin

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/engine"
	"github.com/stele-go/stele/engine/backup"
	"github.com/stele-go/stele/engine/check"
	"github.com/stele-go/stele/engine/export"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/saver/layout"
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
	Threads int    `json:"threads"` // saved; this and the next two are counted as in StoreStats
	Runs    int    `json:"runs"`
	Other   int    `json:"other"`
	Entries int    `json:"entries"` // of the index: checkpoints, writes, items, …
	Values  int    `json:"values"`
	LastLSN uint64 `json:"last_lsn"` // the last commit found

	// Damage is the damage that was found.
	Damage []Finding `json:"damage"`
	// LostCheckpoints could not be read and are not in the new store.
	LostCheckpoints []LostCheckpoint `json:"lost_checkpoints"`
	// LostValues are channels and writes of checkpoints that are in the new store;
	// reading one gives disk.ErrLost.
	LostValues []LostValue `json:"lost_values"`
	// LostMore is the number of further uses of lost values. The lists end after a
	// million.
	LostMore int `json:"lost_more,omitempty"`
	// LostParts are lost parts of the index. Checkpoints of their threads may be missing
	// without being listed.
	LostParts []LostPart `json:"lost_parts"`
	// MayHoldDeleted: the damage may have destroyed records of deletions, so the new
	// store may hold deleted data.
	MayHoldDeleted bool `json:"may_hold_deleted"`
	// CutBytes is the number of bytes after the last valid record of the log, and CutAt
	// their place ("file:offset"). They were being written when the writer died, or they
	// are damaged records.
	CutBytes int64  `json:"cut_bytes,omitempty"`
	CutAt    string `json:"cut_at,omitempty"`
	// ManifestLost: the manifest could not be read, so all files of the directory were
	// used.
	ManifestLost bool `json:"manifest_lost"`
	// Held: what waits in the new store waits for a release. The old one was held, or may have been: its manifest says it.
	Held     bool          `json:"held,omitempty"`
	Verified *VerifyReport `json:"verified"` // of the new store
	Took     time.Duration `json:"took_ns"`
}

// Lost reports whether anything is known to be lost.
func (r *SalvageReport) Lost() bool {
	return len(r.LostCheckpoints)+len(r.LostValues)+len(r.LostParts) > 0
}

// Complete reports whether nothing is lost and no deleted data may be back. That is so if no
// loss is listed, and all damage is to derived data: images, and the header, footer and index
// of segments.
func (r *SalvageReport) Complete() bool {
	return !r.Lost() && !r.MayHoldDeleted && !slices.ContainsFunc(r.Damage, func(f Finding) bool { return !f.Derived() })
}

// Derived reports whether the damage is to data that are made of others: images, and the header, footer and index
// of segments. Nothing is lost by it. Other damage may have destroyed something that is not listed.
func (f Finding) Derived() bool {
	switch f.Kind {
	case "segment header", "segment footer", "segment family index":
		return true
	}
	return filepath.Ext(f.File) == ".img"
}

// LostPart is a part of the index that could not be read.
type LostPart struct {
	Threads []string `json:"threads"`
	Finding Finding  `json:"finding"`
}

// Salvage saves what can be read of the store in dir to a new store in out, which must be
// empty or missing. It continues after damage of every kind, and lists what it could not
// save. It only reads dir. It verifies the new store before it returns. The new store is an
// ordinary one, and held if the old one was, or if its manifest is lost, which says it. In place
// of a store dir may hold a backup of one that Restore refuses; then the new store is held.
//
// An error means that nothing was saved: the directory holds nothing of a store, the store
// has a newer format, or a device failed.
func Salvage(ctx context.Context, dir, out string, o SalvageOptions) (*SalvageReport, error) {
	start := time.Now()
	if dir == out {
		return nil, fmt.Errorf("salvage %s: the output must be another directory", dir)
	}
	o.Access.sim().Opening = ctx
	var damage []error // of a backup
	var files *vfs.Captured
	d, err := o.Access.Open(dir, true)
	if errors.Is(err, fault.ErrNotStore) {
		if files, damage, err = backupFiles(ctx, dir, o.Access, err); err == nil {
			defer func() { _ = files.Release() }() // only read from
			from := o.Access
			from.sim().FS = files
			d, err = from.Open(dir, true)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("salvage: %w", err)
	}
	defer func() { _ = d.Close() }() // read-only
	e := d.Inside().Engine
	held := e.Report().Guessed || e.HeldUpTo(layout.ReleasePartition) > 0 || files != nil
	exp, err := export.Run(ctx, e.Store, out, export.Options{FS: o.Access.fs(), Replace: replacement, Held: held, Progress: func(done, total int) {
		if o.Progress != nil {
			o.Progress(Progress{Step: "families", Done: int64(done), Total: int64(total)})
		}
	}})
	if err != nil {
		return nil, fmt.Errorf("salvage: %w", err)
	}
	rep := &SalvageReport{Source: dir, Output: out, Entries: exp.Entries, Values: exp.Values, LastLSN: uint64(exp.LastLSN),
		Damage: []Finding{}, LostCheckpoints: []LostCheckpoint{}, LostValues: []LostValue{}, LostParts: []LostPart{}, ManifestLost: e.Report().Guessed, Held: held}
	for _, d := range damage {
		rep.addDamage(findingOf(d))
	}
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

// backupFiles opens the backup in dir, which is no store. damage is where its files differ from its list.
func backupFiles(ctx context.Context, dir string, a Access, noStore error) (files *vfs.Captured, damage []error, err error) {
	files, err = backup.Files(a.fs(), dir)
	if err != nil {
		if errors.Is(err, fault.ErrNotStore) {
			err = noStore
		}
		return nil, nil, err
	}
	if _, damage, err = backup.Check(ctx, dir, backup.Options{Engine: a.engine()}); err != nil {
		return nil, nil, errors.Join(err, files.Release())
	}
	return files, damage, nil
}

// replacement is stored in place of a lost value: a mark that gives an error when it is read.
// It is nil for the record of a checkpoint, because without it there is no checkpoint.
func replacement(l check.Lost) []byte {
	_, kind := SplitThread(l.Partition)
	if _, ok := layout.ParseEntry(l.Key); kind != "thread" || !ok || l.Slot == 0 {
		return nil
	}
	return layout.LostValue(findingOf(l.Err).String())
}

// addDamage lists a finding, if its place is not listed yet.
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
	dropped := map[export.LostEntry]bool{}
	for _, it := range exp.Dropped {
		dropped[it] = true
		r.LostCheckpoints = append(r.LostCheckpoints, lostEntry(it))
	}
	for _, v := range exp.Lost {
		r.addDamage(findingOf(v.Err))
	}
	r.LostValues, r.LostMore = lostValues(exp.Lost, dropped), exp.LostAll-len(exp.Lost)
	for _, p := range exp.Parts {
		r.LostParts = append(r.LostParts, LostPart{Threads: threadNames(p.Partitions), Finding: findingOf(p.Err)})
	}
}

// finish opens the new store once, which gives it an index and the erasures of the old one,
// and verifies it.
func finish(ctx context.Context, from *disk.Saver, out string, o SalvageOptions, rep *SalvageReport) error {
	opts := o.Access.Options
	opts.ReadOnly, opts.AllowDamage, opts.ManualWork, opts.Replica = false, false, true, disk.Replica{}
	d, err := disk.Open(out, opts)
	if err != nil {
		return err
	}
	err = d.Inside().AdoptErasures(ctx, from)
	if err == nil {
		rep.Threads, rep.Runs, rep.Other, err = countKinds(ctx, d, func(ThreadRow) {})
	}
	if err := errors.Join(err, d.Close()); err != nil {
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
