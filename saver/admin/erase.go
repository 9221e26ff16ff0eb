package admin

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/stele-go/stele/base/metrics"
	"github.com/stele-go/stele/engine"
	"github.com/stele-go/stele/replica/bucket"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/saver/rules"
)

// EraseOptions say what Erase and EraseOpen erase: the threads that Threads names, those
// that Metadata selects, and the items below the prefixes. Nothing at all is an
// InvalidError.
type EraseOptions struct {
	Access   Access         // for Erase only
	Threads  []string       // ids; they need not exist
	Metadata map[string]any // threads with a checkpoint that matches all of it; empty: none. See saver.ThreadQuery
	Items    [][]string     // namespace prefixes of the long-term store
	DryRun   bool           // only report what would be erased
	Progress func(Progress) // may be nil
	// Beside, unless it is nil, removes what others keep of the threads in the store beside their checkpoints, such as runs,
	// before these are erased; with dry it only looks. It gets all threads that were found. It returns further threads that
	// go with them, and before them, in that order, and namespace prefixes of its own notes on that, which go between: by the
	// threads that were found a call that is repeated finds what is left of both.
	Beside func(ctx context.Context, d *disk.Saver, threads []string, dry bool) (more []string, notes [][]string, err error)
}

// EraseReport says what was erased, or would be.
type EraseReport struct {
	Dir    string `json:"dir"`
	DryRun bool   `json:"dry_run"`
	disk.ErasePlan
	// Pending is the number of erasures that earlier calls did not finish. Their threads and items are
	// deleted, but files may still hold bytes of them. A call that is not a dry run finishes them, even
	// if it has nothing else to erase.
	Pending     int           `json:"pending"`
	BytesBefore int64         `json:"bytes_before"` // of all files
	BytesAfter  int64         `json:"bytes_after"`  // the same in a dry run
	FreeBytes   int64         `json:"free_bytes"`   // of the device, before; -1 if it is not known
	Took        time.Duration `json:"took_ns"`
	// Bucket: the log is kept in a bucket, which was erased too: no moment before this one can be restored.
	Bucket bool `json:"bucket,omitempty"`
	// Left says, in sentences, what the bucket says it keeps all the same, and what else of its store lies elsewhere; see
	// LeftOf.
	Left []string `json:"left,omitempty"`
	// Tails are files of the directory that are not erased: each has records that another leader's lineage has not.
	Tails []string `json:"tails,omitempty"`
}

// Tight reports whether the device may be too full for the rewrite, which needs at most the
// size of the store. If a call fails for that reason, the data stay deleted.
func (r *EraseReport) Tight() bool { return r.FreeBytes >= 0 && r.FreeBytes < r.BytesBefore }

// Nothing reports whether there was nothing to erase.
func (r *EraseReport) Nothing() bool { return len(r.Threads)+len(r.Items)+r.Pending == 0 }

// Missing returns the threads that were named and are not in the store, sorted. All files were written anew all
// the same: they may have held bytes of one that was deleted.
func (r *EraseReport) Missing() []string {
	var missing []string
	for _, t := range r.Threads {
		if !t.There() {
			missing = append(missing, t.ThreadID)
		}
	}
	return missing
}

// Matched reports whether the store has anything of what was named.
func (r *EraseReport) Matched() bool {
	items := 0
	for _, i := range r.Items {
		items += i.Items
	}
	return len(r.Threads) > len(r.Missing()) || items > 0
}

// Erase erases threads and items of the store in dir, with one rewrite of its files. See
// saver.Eraser for what is erased and what is not. It opens the store for writing. A dry run
// opens it for reading, so a writer may be at work.
//
// Errors are those of disk.Open and EraseOpen. After fault.LockedError, the process that has
// the store open can call EraseOpen, or disk.Saver.EraseRequest.
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

// EraseOpen is Erase for a store that this process has open. It finds the threads that match
// when it begins, and calls disk.Saver.EraseRequest for all of them. A thread or item that is
// made during the call may stay, so end the runs of a user first. The files are rewritten at
// Options.CompactRate.
//
// Errors are those of disk.Saver.EraseRequest and of Beside, and saver.InvalidError and saver.ErrTooLarge
// for invalid options, before anything is deleted. After saver.ErrEraseUnfinished the threads
// and items, or some of them, are deleted. Make the same call again to continue.
func EraseOpen(ctx context.Context, d *disk.Saver, o EraseOptions) (*EraseReport, error) {
	start := time.Now()
	if err := o.validate(); err != nil {
		return nil, err
	}
	dir, held := d.Inside().Engine.Dir, d.Inside().Engine.Held
	req, err := o.request(ctx, d)
	if err != nil {
		return nil, err
	}
	var before disk.EraseRequest
	if o.Beside != nil && len(req.Threads) > 0 {
		if before.Threads, before.Items, err = o.Beside(ctx, d, req.Threads, o.DryRun); err != nil {
			return nil, err
		}
		req.Before = &before
	}
	rep := &EraseReport{Dir: dir, DryRun: o.DryRun}
	told := disk.EraseRequest{Threads: slices.Concat(before.Threads, req.Threads), Items: req.Items} // no notes
	if rep.ErasePlan, err = d.PlanErase(ctx, told); err != nil {
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
	if rep.Tails, err = tails(d); err != nil {
		return nil, err
	}
	rep.Bucket = d.Health().Replica != nil && !o.DryRun
	if !o.DryRun {
		if err := d.EraseRequest(ctx, req); err != nil {
			return nil, err
		}
		rep.Left = LeftOf(ctx, d)
	}
	if rep.BytesAfter, err = dirBytes(held, dir); err != nil {
		return nil, err
	}
	rep.Took = time.Since(start)
	return rep, nil
}

// askTime bounds how long a bucket is asked what it keeps.
const askTime = 10 * time.Second

// tails are the files of the directory with records that another leader's lineage has not.
func tails(d *disk.Saver) (tails []string, err error) {
	e := d.Inside().Engine
	names, err := e.Held.List(e.Dir)
	for _, name := range names {
		if strings.HasSuffix(name, engine.TailSuffix) {
			tails = append(tails, name)
		}
	}
	return tails, err
}

// LeftOf says, in sentences, what an erasure of the store, which was made just now, does not reach because its log is kept in a
// bucket: the directories of other machines; what the bucket says of versions that it keeps, within 10 s; and tails. It is nil for a
// store without a bucket and tails.
func LeftOf(ctx context.Context, d *disk.Saver) (left []string) {
	switch names, err := tails(d); {
	case err != nil:
		left = append(left, "files diverged-*.tail, if there are any: "+err.Error())
	case len(names) > 0:
		left = append(left, "what a bucket has not: "+strings.Join(names, ", "))
	}
	b := d.Inside().Engine.Opts.Replica.Bucket
	if b == nil {
		return left
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	left = append(left, "directories of other machines, until their program has followed the log and compacted, or they are removed")
	if said := bucket.KeptBy(ctx, b).Words(time.Now()); said != "" {
		left = append(left, said)
	}
	return left
}

func (o *EraseOptions) validate() error {
	if len(o.Threads)+len(o.Metadata)+len(o.Items) == 0 {
		return &saver.InvalidError{Field: "erase", Reason: "name threads, metadata of threads, or prefixes of items"}
	}
	if err := (saver.ThreadQuery{Metadata: o.Metadata}).Validate(); err != nil {
		return err
	}
	return rules.ValidateErase(o.Threads, o.Items)
}

// request resolves the options into a request, for the store as it is now.
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
		req.Progress = func(p metrics.EraseProgress) {
			if p.Files == 0 {
				tell(Progress{Step: "rewrite", Done: p.BytesOut, Total: p.BytesIn})
			} else {
				tell(Progress{Step: "old files", Done: int64(p.FilesGone), Total: int64(p.Files)})
			}
		}
	}
	return req, nil
}
