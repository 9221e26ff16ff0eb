package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/engine/backup"
	"github.com/stele-go/stele/engine/check"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
)

// VerifyOptions configure Verify.
type VerifyOptions struct {
	Access   Access
	Progress func(Progress) // called often, from one goroutine; may be nil
}

// VerifyReport is what Verify looked at and found.
type VerifyReport struct {
	Dir           string `json:"dir"`
	Backup        bool   `json:"backup"` // the directory is a backup, not a store
	Manifest      string `json:"manifest,omitempty"`
	StoreID       string `json:"store_id"`
	FormatVersion uint32 `json:"format_version,omitempty"`
	LastLSN       uint64 `json:"last_lsn"`
	Files         int    `json:"files"`
	Bytes         int64  `json:"bytes"`
	Records       int64  `json:"records"` // of the log
	Threads       int    `json:"threads"` // of the engine: threads, runs
	Entries       int    `json:"entries"` // of the index: checkpoints, writes, items, …
	Values        int    `json:"values"`
	Checkpoints   int    `json:"checkpoints"`
	// LostCheckpoints and LostValues are what cannot be read because of the damage: values
	// whose bytes are damaged, and every version that is a patch against one of them.
	// LostMore is the number of further uses of lost values; the lists end after a
	// million. What damage to the index hides is not listed; see Finding.Threads.
	LostCheckpoints []LostCheckpoint `json:"lost_checkpoints,omitempty"`
	LostValues      []LostValue      `json:"lost_values,omitempty"`
	LostMore        int              `json:"lost_more,omitempty"`
	// Compared: the saved index was compared with one made from segments and log.
	Compared bool          `json:"index_compared"`
	Damage   []Finding     `json:"damage"`
	Notices  []Finding     `json:"notices"` // no damage: a crash or a writer at work may leave it
	Took     time.Duration `json:"took_ns"`
}

// Clean reports whether nothing is damaged.
func (r *VerifyReport) Clean() bool { return len(r.Damage) == 0 }

// Verify checks every byte of the store in dir. It also checks that its files agree, that every
// checkpoint can be read and every value is right, and that the saved index is the same as
// one made from segments and log. It takes no lock and writes nothing, and a writer may be at
// work. If dir holds a backup, it checks the backup.
//
// Damage is in the report. Errors: fault.ErrNotStore, fault.VersionError, those of the
// device and of ctx.
func Verify(ctx context.Context, dir string, o VerifyOptions) (*VerifyReport, error) {
	start := time.Now()
	var done func()
	var err error
	if o.Access, done, err = o.Access.in(dir); err != nil {
		return nil, fmt.Errorf("verify %s: %w", dir, err)
	}
	defer done()
	rep, err := check.Run(ctx, dir, o.Access.engine(), engineProgress(o.Progress))
	if errors.Is(err, fault.ErrNotStore) {
		if b, berr := verifyBackup(ctx, dir, o); !errors.Is(berr, fault.ErrNotStore) {
			return b, berr
		}
	}
	if err != nil {
		return nil, err
	}
	out := verifyReport(dir, rep)
	if err := checkpoints(ctx, dir, o, out); err != nil {
		return nil, fmt.Errorf("verify %s: %w", dir, err)
	}
	out.Took = time.Since(start)
	return out, nil
}

// VerifyOpen is Verify for a store that this process has open. It reads the open directory itself,
// because the path may lead to another directory by now. If o.Access has no keys, it uses those of
// the store.
func VerifyOpen(ctx context.Context, s *disk.Saver, o VerifyOptions) (*VerifyReport, error) {
	e := s.Inside().Engine
	o.Access.sim().FS = e.Held
	if o.Access.Options.Keys == nil {
		o.Access.Options.Keys = e.Opts.Keys
	}
	return Verify(ctx, e.Dir, o)
}

func engineProgress(fn func(Progress)) func(check.Progress) {
	if fn == nil {
		return nil
	}
	return func(p check.Progress) { fn(Progress(p)) }
}

func verifyReport(dir string, rep *check.Report) *VerifyReport {
	out := &VerifyReport{Dir: dir, Manifest: rep.Manifest, StoreID: hexID(rep.State.StoreID), FormatVersion: rep.State.FormatVersion,
		Files: rep.Files, Bytes: rep.Bytes, Records: rep.Records, Threads: rep.Partitions, Entries: rep.Entries, Values: rep.Values,
		LastLSN: uint64(rep.LastLSN), Compared: rep.Compared, Took: rep.Took, Damage: []Finding{}, Notices: []Finding{}}
	out.LostCheckpoints, out.LostValues = losses(rep.Lost)
	out.LostMore = rep.LostAll - len(rep.Lost)
	for i := range rep.Findings {
		f := &rep.Findings[i]
		g := Finding{File: f.File, Offset: f.Offset, Length: f.Len, Kind: f.Kind, Detail: f.Detail}
		if g.Detail == "" {
			g.Detail = "damaged"
		}
		if len(f.Partitions) > 0 {
			g.Threads = threadNames(f.Partitions)
		}
		if f.Notice {
			out.Notices = append(out.Notices, g)
		} else {
			out.Damage = append(out.Damage, g)
		}
	}
	return out
}

func hexID(id uint64) string { return fmt.Sprintf("%016x", id) }

// checkpoints reads the record, metadata and versions of every checkpoint, as a saver does.
func checkpoints(ctx context.Context, dir string, o VerifyOptions, out *VerifyReport) error {
	d, err := o.Access.Open(dir, true)
	if err != nil {
		if len(out.Damage) > 0 || errors.Is(err, fault.ErrCorrupt) {
			return nil // nothing is left to be read, and that is noted
		}
		return err
	}
	defer func() { _ = d.Close() }() // read-only
	done := int64(0)
	for th, err := range d.Threads(ctx, saver.ThreadQuery{}) {
		if err != nil {
			return err
		}
		if done++; o.Progress != nil {
			o.Progress(Progress{Step: "checkpoints", Done: done, Total: int64(out.Threads)})
		}
		for _, err := range d.List(ctx, saver.Query{ThreadID: th.ThreadID}) {
			if err == nil {
				out.Checkpoints++
				continue
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
			f := findingOf(err)
			f.Threads = []string{th.ThreadID}
			if !slices.ContainsFunc(out.Damage, f.within) {
				out.Damage = append(out.Damage, f)
			}
		}
	}
	return ctx.Err()
}

// verifyBackup checks the files of a backup against its list.
func verifyBackup(ctx context.Context, dir string, o VerifyOptions) (*VerifyReport, error) {
	start := time.Now()
	list, damage, err := backup.Check(ctx, dir, backup.Options{Engine: o.Access.engine(), Progress: func(done, total int64) {
		if o.Progress != nil {
			o.Progress(Progress{Step: "backup", Done: done, Total: total})
		}
	}})
	out := &VerifyReport{Dir: dir, Backup: true, Damage: []Finding{}, Notices: []Finding{}}
	if errors.Is(err, fault.ErrCorrupt) {
		out.Damage = append(out.Damage, findingOf(err))
		return out, nil
	}
	if err != nil {
		return nil, fmt.Errorf("verify backup %s: %w", dir, err)
	}
	out.StoreID, out.LastLSN, out.Files = hexID(list.StoreID), uint64(list.LSN), len(list.Files)
	for _, f := range list.Files {
		out.Bytes += f.Size
	}
	for _, d := range damage {
		out.Damage = append(out.Damage, findingOf(d))
	}
	out.Took = time.Since(start)
	return out, nil
}
