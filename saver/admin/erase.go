package admin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/stele-go/stele/fault"
	"github.com/stele-go/stele/internal/diskhook"
	"github.com/stele-go/stele/internal/rules"
	"github.com/stele-go/stele/monitor"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
)

// EraseOptions say what Erase and EraseOpen erase: the threads that Threads names, those
// that Metadata selects, and the items below the prefixes. Nothing at all is an
// InvalidError.
type EraseOptions struct {
	Access   Access         // for Erase alone
	Threads  []string       // ids; one that is not there is erased all the same
	Metadata map[string]any // threads of which a checkpoint matches it all; empty: none. See saver.ThreadQuery
	Items    [][]string     // namespace prefixes of the long-term store
	DryRun   bool           // only say what would be erased
	Progress func(Progress) // may be nil
}

// EraseReport says what was erased, or would be.
type EraseReport struct {
	Dir    string `json:"dir"`
	DryRun bool   `json:"dry_run"`
	disk.ErasePlan
	// Pending are the erasures of earlier calls that were not finished when this one
	// began: what they were to erase is deleted, but files may hold bytes of it. A call
	// that erases finishes them, also if it finds nothing else.
	Pending     int           `json:"pending"`
	BytesBefore int64         `json:"bytes_before"` // of all files
	BytesAfter  int64         `json:"bytes_after"`  // the same in a dry run
	FreeBytes   int64         `json:"free_bytes"`   // of the device, before; -1 if it is not known
	Took        time.Duration `json:"took_ns"`
}

// Tight reports whether the device may be too full for the rewrite, which takes at most
// as much as the store does. What is erased by a call that then fails stays deleted.
func (r *EraseReport) Tight() bool { return r.FreeBytes >= 0 && r.FreeBytes < r.BytesBefore }

// Nothing reports whether there was nothing to erase.
func (r *EraseReport) Nothing() bool { return len(r.Threads)+len(r.Items)+r.Pending == 0 }

// Erase erases threads and items of the store in dir, with one rewrite of its files;
// saver.Eraser says what is gone then and what is not reached. It opens the store for
// writing; a dry run opens it for reading, beside a writer.
//
// Errors are those of disk.Open and EraseOpen. With fault.LockedError another process
// has the store open, which can call EraseOpen itself.
func Erase(ctx context.Context, dir string, o EraseOptions) (*EraseReport, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	o.Access.sim().Opening = ctx
	if o.DryRun {
		d, err := o.Access.Open(dir, false)
		if err != nil {
			return nil, err
		}
		defer func() { _ = d.Close() }() // read-only
		return EraseOpen(ctx, d, o)
	}
	d, err := o.Access.openToRewrite(dir)
	if errors.Is(err, fault.ErrLocked) {
		return nil, fmt.Errorf("%w. The process that holds it can erase: admin.EraseOpen, or disk.Saver.EraseRequest", err)
	}
	if err != nil {
		return nil, err
	}
	rep, err := EraseOpen(ctx, d, o)
	if err := errors.Join(err, d.Close()); err != nil {
		return nil, err
	}
	if rep.BytesAfter, err = dirBytes(o.Access.fs(), dir); err != nil {
		return nil, err
	}
	return rep, nil
}

// EraseOpen is Erase in a store that this process has open. It finds the threads that
// match, as they are when it begins, and calls disk.Saver.EraseRequest for all of them: a thread
// or an item that is made meanwhile may stay, so end what a user runs first. The files are
// rewritten at Options.CompactRate.
//
// Errors: saver.InvalidError and saver.ErrTooLarge for what cannot be asked, before
// anything is deleted, and those of disk.Saver.EraseRequest: with saver.ErrEraseUnfinished the
// threads and items are deleted, or some of them, and the same call again goes on.
func EraseOpen(ctx context.Context, d *disk.Saver, o EraseOptions) (*EraseReport, error) {
	start := time.Now()
	if err := o.validate(); err != nil {
		return nil, err
	}
	dir, held := diskhook.Engine(d).Dir, diskhook.Engine(d).Held
	req, err := o.request(ctx, d)
	if err != nil {
		return nil, err
	}
	rep := &EraseReport{Dir: dir, DryRun: o.DryRun}
	if rep.ErasePlan, err = d.PlanErase(ctx, req); err != nil {
		return nil, err
	}
	if rep.Pending, err = d.PendingErasures(); err != nil {
		return nil, err
	}
	if rep.BytesBefore, err = dirBytes(held, dir); err != nil {
		return nil, err
	}
	if rep.FreeBytes, err = held.FreeSpace(dir); err != nil {
		rep.FreeBytes = -1
	}
	if !o.DryRun {
		if err := d.EraseRequest(ctx, req); err != nil {
			return nil, err
		}
	}
	if rep.BytesAfter, err = dirBytes(held, dir); err != nil {
		return nil, err
	}
	rep.Took = time.Since(start)
	return rep, nil
}

func (o *EraseOptions) validate() error {
	if len(o.Threads)+len(o.Metadata)+len(o.Items) == 0 {
		return &saver.InvalidError{Field: "erase", Reason: "name threads, metadata of threads, or prefixes of items"}
	}
	if err := rules.ValidateThreadQuery(saver.ThreadQuery{Metadata: o.Metadata}); err != nil {
		return err
	}
	return rules.ValidateErase(o.Threads, o.Items)
}

// request is what the options come to in the store as it is now.
func (o *EraseOptions) request(ctx context.Context, d *disk.Saver) (disk.EraseRequest, error) {
	ids := map[string]bool{}
	for _, id := range o.Threads {
		ids[id] = true
	}
	if len(o.Metadata) > 0 { // without it every thread would match
		for info, err := range d.Threads(ctx, saver.ThreadQuery{Metadata: o.Metadata}) {
			if err != nil {
				return disk.EraseRequest{}, err
			}
			ids[info.ThreadID] = true
		}
	}
	req := disk.EraseRequest{Threads: slices.Sorted(maps.Keys(ids)), Items: o.Items}
	if tell := o.Progress; tell != nil {
		req.Progress = func(p monitor.EraseProgress) {
			if p.Files == 0 {
				tell(Progress{Step: "rewrite", Done: p.BytesOut, Total: p.BytesIn})
			} else {
				tell(Progress{Step: "old files", Done: int64(p.FilesGone), Total: int64(p.Files)})
			}
		}
	}
	return req, nil
}
