package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/segment"
	"github.com/stele-go/stele/snapshot"
	"github.com/stele-go/stele/wal"
)

// placed has the places of the page and the values of one family in the output.
type placed struct {
	fam    uint64
	part   index.Part
	values []index.ValueLoc
}

// segmentOutput is a segment that is being written, or was.
type segmentOutput struct {
	*Store
	num  base.FileNum
	f    vfs.File
	b    *segment.Builder
	done []placed
	from map[base.FileNum]bool // files whose values are taken

	quick  bool    // see segmentOutputs.quick
	reader *Reader // of the values
	values int64   // bytes of them that were written, whole
	page   []byte  // the last page that was encoded, if it was small

	limit func(n int) // called with the bytes read; the builder calls it with those written, and with 0 in between; may be nil
}

// startSegment creates the file.
func (o *segmentOutputs) startSegment() (*segmentOutput, error) {
	num, err := o.newFileNum()
	if err != nil {
		return nil, err
	}
	f, err := o.Opts.FS.Create(o.Files.path(base.SegmentFile, num))
	if err != nil {
		return nil, fmt.Errorf("create %s: %w", base.SegmentFile.Name(num), err)
	}
	b, err := segment.NewBuilder(f, segment.BuilderOptions{FileNum: num, Salt: o.Opts.Rand(), Limiter: o.limit, Syncs: o.logSyncs,
		SyncEvery: syncEvery(o.Opts.Sync), Keys: o.Files.Keys, Quick: o.quick})
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &segmentOutput{Store: o.Store, num: num, f: f, b: b, from: o.from, quick: o.quick, reader: o.reads, limit: o.limit}, nil
}

// keptPage bounds the memory that is kept to encode the next page in.
const keptPage = 64 << 10

// syncEvery is how many bytes of a segment may be unsynced. Where no commit waits for the disk,
// that bounds what Finish has left to sync, and nothing else.
func syncEvery(mode wal.Mode) int64 {
	if mode == wal.SyncNever {
		return 1 << 20
	}
	return 0 // the default of the builder
}

// add writes one family: the values that p names, and the page.
func (j *segmentOutput) add(ctx context.Context, w Family, p rewritePlan, page *index.Page, minLSN, maxLSN base.LSN) error {
	if err := j.b.BeginFamily(w.Fam.ID); err != nil {
		return err
	}
	if len(p.hot)+len(p.history) == len(p.values) { // a part of a large family has fewer, and is read value by value
		j.reader.Ahead(p.values)
	}
	for _, at := range p.hot {
		r := p.values[at].Ref
		b, err := j.read(ctx, w.Fam, p.values[at])
		if err != nil {
			return err
		}
		j.values += int64(len(b))
		if err := j.b.AddHot(segment.ValueID{LSN: r.LSN, Ord: r.Ord}, b); err != nil {
			return err
		}
	}
	if err := j.history(ctx, w.Fam, p); err != nil {
		return err
	}
	dir := index.AppendPage(j.page[:0], page)
	if len(dir) <= keptPage {
		j.page = dir
	}
	if err := j.b.EndFamily(dir); err != nil {
		return err
	}
	info, values := j.b.Family()
	pl := placed{fam: w.Fam.ID, part: index.Part{File: j.num, Off: info.DirOff, Len: info.DirStored, MinLSN: minLSN, MaxLSN: maxLSN},
		values: make([]index.ValueLoc, 0, len(values))}
	for _, v := range values {
		vl, _ := placeOf(j.num, v) // the builder was given no other bases
		pl.values = append(pl.values, vl)
	}
	j.done = append(j.done, pl)
	return nil
}

// read returns a value that is about to be written. Others may hold its bytes.
func (j *segmentOutput) read(ctx context.Context, fam *index.Family, v index.ValueLoc) ([]byte, error) {
	b, err := j.reader.readPlaced(ctx, fam, v)
	if err == nil && j.limit != nil {
		j.limit(len(b))
	}
	return b, err
}

// finish completes the file and makes its name durable.
func (j *segmentOutput) finish(tombstones []index.Tombstone) (snapshot.SegmentInfo, error) {
	j.b.SetTombstones(EncodeTombstones(tombstones))
	p, err := j.b.Finish()
	if err == nil {
		err = j.f.Close()
	}
	if err != nil {
		return snapshot.SegmentInfo{}, err
	}
	if err := j.Opts.FS.SyncDir(j.Dir); err != nil {
		return snapshot.SegmentInfo{}, fmt.Errorf("sync directory of %s: %w", base.SegmentFile.Name(j.num), err)
	}
	return snapshot.SegmentInfo{Num: j.num, Size: p.Size, Raw: p.RawBytes, MinLSN: p.MinLSN, MaxLSN: p.MaxLSN,
		Families: uint64(p.Families), Values: uint64(p.Values)}, nil
}

// abandon removes the file after a failure.
func (j *segmentOutput) abandon() {
	j.b.Abort()
	if err := j.f.Close(); err != nil {
		j.Opts.Logger.Debug("close abandoned segment", "file_num", j.num, "error", err)
	}
	j.removeQuietly(base.SegmentFile, j.num)
}

// removeUnlessApplied removes the complete segment if err shows that it did not become part of the
// store, for example for lack of space. The next try makes another.
func (j *segmentOutput) removeUnlessApplied(err error) {
	if notApplied(err) {
		j.Store.withdraw(base.SegmentFile, j.num)
	}
}

// discard removes the complete segment, which was never published.
func (j *segmentOutput) discard() { j.removeQuietly(base.SegmentFile, j.num) }

// install tells the families where the values of a published segment lie now. A family that nobody
// holds is not in memory; whoever loads it from now on reads the new pages.
func (j *segmentOutput) install() {
	for _, pl := range j.done {
		if fam := j.Index.HeldFamily(pl.fam); fam != nil {
			fam.Move(pl.values, j.from)
		}
	}
}

// replaceParts returns parts without those that drop selects, and with added in front: segments first,
// the newest first.
func replaceParts(parts, added []index.Part, drop func(index.Part) bool) []index.Part {
	out := append([]index.Part{}, added...)
	for _, p := range parts {
		if !drop(p) {
			out = append(out, p)
		}
	}
	return out
}
