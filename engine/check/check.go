package check

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/metrics"
	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/engine"

	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/segment"
	"github.com/stele-go/stele/snapshot"
)

// Finding is something Run found.
type Finding struct {
	File   string
	Offset int64 // -1 if the file as a whole is meant
	Len    int64 // 0 if unknown
	Kind   string
	Detail string
	// Notice is set if a crash, or a writer at work, may have left this: nothing acknowledged is
	// missing because of it.
	Notice bool
	// Partitions are some of the partitions that lose data by it.
	Partitions []string
	Err        error
}

// Progress says how far Run is.
type Progress struct {
	Step  string // "manifest", "images", "segments", "log", "index"
	File  string
	Done  int64 // bytes of the files, then values of the index
	Total int64
}

// Report is what Run found and how much it looked at.
type Report struct {
	State      snapshot.State
	Manifest   string
	Findings   []Finding
	Files      int
	Bytes      int64
	LastLSN    base.LSN
	Records    int64 // of the log
	Partitions int   // of the index
	Entries    int
	Values     int
	Lost       []Lost // each use of each value that cannot be read; the first million
	LostAll    int    // how many there are
	Compared   bool   // the saved index was compared with one made from segments and log
	Took       time.Duration
}

// Damaged reports whether anything but notices was found.
func (r *Report) Damaged() bool {
	for i := range r.Findings {
		if !r.Findings[i].Notice {
			return true
		}
	}
	return false
}

// Err is the first damage as an error, nil if there is none.
func (r *Report) Err() error {
	for i := range r.Findings {
		if f := &r.Findings[i]; !f.Notice {
			return f.error()
		}
	}
	return nil
}

func (f *Finding) error() error {
	if f.Err != nil {
		return f.Err
	}
	return &fault.CorruptionError{File: f.File, Kind: f.Kind, Offset: f.Offset, Len: f.Len, Detail: f.Detail}
}

// Run checks the store in dir: every byte of manifest, log, segments and images;
// that they agree with one another; that every entry of every partition can be read and
// every value that one refers to is there and right; and that the saved index is the
// one segments and log make. It takes no lock, writes nothing, and may run beside a
// writer; opts says how to read (file system, keys, cache), its other fields are
// ignored.
//
// Damage is in the report. An error means that the check could not be made: the
// directory holds no store, it is of a newer format, the device fails, or ctx ended.
func Run(ctx context.Context, dir string, opts engine.Options, progress func(Progress)) (*Report, error) {
	opts = opts.WithDefaults()
	d, err := Hold(opts.FS, dir)
	if err != nil {
		return nil, fmt.Errorf("verify %s: %w", dir, err)
	}
	defer func() { _ = d.Close() }() // only read from
	bad := new(unreadable)
	opts.FS = vfs.PastUnreadable(d, func(string) bool { return true }, bad.note)
	m, err := Capture(opts.FS, dir, opts.Keys)
	if err != nil {
		return nil, fmt.Errorf("verify %s: %w", dir, err)
	}
	defer m.Release()
	m.unreadable = bad
	return RunCaptured(ctx, dir, m, opts, progress)
}

// RunCaptured is Run for a store that was captured, or put together, before.
func RunCaptured(ctx context.Context, dir string, m *Captured, opts engine.Options, progress func(Progress)) (*Report, error) {
	start := time.Now()
	opts = opts.WithDefaults()
	v := &verifier{ctx: ctx, dir: dir, fsys: opts.FS, m: m, st: m.State, progress: progress, seen: map[findingKey]int{}}
	v.rep.State, v.rep.Manifest = m.State, m.Manifest
	opts.FS, opts.ReadOnly, opts.AllowDamage, opts.ManualWork, opts.Events = m.FS, true, true, true, metrics.Events{}
	if err := v.run(opts); err != nil {
		return nil, fmt.Errorf("verify %s: %w", dir, err)
	}
	v.addUnreadable()
	v.rep.Lost, v.rep.LostAll = v.lost.Values, v.lost.All
	v.rep.Took = time.Since(start)
	return &v.rep, nil
}

// findingKey is the place of a finding and, if it has no offset, its text as well.
type findingKey struct {
	file   string
	off    int64
	detail string
}

type verifier struct {
	ctx      context.Context
	dir      string
	fsys     vfs.FS // the directory as it is, for what the manifest does not name
	m        *Captured
	st       snapshot.State
	e        *engine.Engine // over the captured files, past damage
	rep      Report
	lost     LostList
	seen     map[findingKey]int // findings by place
	progress func(Progress)
	total    int64
}

func (v *verifier) run(opts engine.Options) error {
	v.manifest()
	for _, n := range v.m.Missing {
		v.note(&fault.CorruptionError{File: n, Kind: "file", Offset: -1, Detail: "the manifest names it, and it is missing"}, false)
	}
	opts.Opening = v.ctx
	e, err := engine.Open(v.dir, opts)
	if err != nil {
		if errors.Is(err, fault.ErrCorrupt) && v.rep.Damaged() {
			return nil // nothing is left that could be looked at
		}
		return err
	}
	defer func() { _ = e.Close() }() // read-only
	v.e, v.st, v.rep.LastLSN = e, e.Found, e.Index.LSN()
	for _, step := range []func() error{v.sizes, v.images, v.segments, v.logs, v.index, v.compare, v.leftovers} {
		if err := v.ctx.Err(); err != nil {
			return err
		}
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func (v *verifier) tell(step, file string, done int64) {
	if v.progress != nil {
		v.progress(Progress{Step: step, File: file, Done: done, Total: v.total})
	}
}

// note adds findings for an error that is damage or a newer format. Any other error is the device's and
// is returned.
func (v *verifier) note(err error, notice bool, partitions ...string) error {
	if err == nil {
		return nil
	}
	if many, ok := err.(interface{ Unwrap() []error }); ok && !isFinding(err) {
		for _, one := range many.Unwrap() {
			if err := v.note(one, notice, partitions...); err != nil {
				return err
			}
		}
		return nil
	}
	f := Finding{Offset: -1, Detail: err.Error(), Notice: notice, Partitions: partitions, Err: err}
	var c *fault.CorruptionError
	var ver *fault.VersionError
	switch {
	case errors.As(err, &c):
		f.File, f.Offset, f.Len, f.Kind, f.Detail = c.File, c.Offset, c.Len, c.Kind, c.Detail
		if c.Err != nil {
			f.Detail = joinDetail(c.Detail, c.Err.Error())
		}
	case errors.As(err, &ver):
		f.File, f.Kind = ver.File, "format version"
	default:
		return err
	}
	v.add(f)
	return nil
}

// isFinding reports whether err itself, not one of several it joins, is a finding.
func isFinding(err error) bool {
	switch err.(type) {
	case *fault.CorruptionError, *fault.VersionError:
		return true
	}
	return false
}

func joinDetail(a, b string) string {
	if a == "" {
		return b
	}
	return a + ": " + b
}

// add adds a finding. A place is one finding, however often it is found.
func (v *verifier) add(f Finding) {
	v.addUnreadable() // a finding may lie in such a block
	key := findingKey{file: f.File, off: f.Offset}
	if f.Offset < 0 && f.Kind != "file" {
		key.detail = f.Detail
	}
	i, known := v.seen[key]
	if !known {
		i, known = v.within(f)
	}
	if !known {
		v.seen[key] = len(v.rep.Findings)
		v.rep.Findings = append(v.rep.Findings, f)
		return
	}
	old := &v.rep.Findings[i]
	old.Notice = old.Notice && f.Notice
	for _, t := range f.Partitions {
		if len(old.Partitions) < maxNamed && !slices.Contains(old.Partitions, t) {
			old.Partitions = append(old.Partitions, t)
		}
	}
}

// unreadable are the blocks that the device could not read, until they are findings.
type unreadable struct {
	mu     sync.Mutex
	blocks []error
}

func (u *unreadable) note(block error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.blocks = append(u.blocks, block)
}

func (u *unreadable) take() []error {
	if u == nil {
		return nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	blocks := u.blocks
	u.blocks = nil
	return blocks
}

// addUnreadable makes findings of the blocks that could not be read since the last call.
func (v *verifier) addUnreadable() {
	for _, block := range v.m.unreadable.take() {
		_ = v.note(block, false) // each is damage
	}
}

// within returns the finding whose range contains the place of f: a value in a damaged frame is not
// reported again.
func (v *verifier) within(f Finding) (int, bool) {
	for i := range v.rep.Findings {
		g := &v.rep.Findings[i]
		if g.File == f.File && g.Offset >= 0 && f.Offset > g.Offset && f.Offset < g.Offset+g.Len {
			return i, true
		}
	}
	return 0, false
}

// maxNamed bounds the partitions a finding names.
const maxNamed = 100

// manifest checks the bytes of the manifest.
func (v *verifier) manifest() {
	v.rep.Files++
	v.rep.Bytes += int64(len(v.m.Raw))
	if v.m.ManifestErr != nil {
		_ = v.note(v.m.ManifestErr, false) // damage by construction
		return
	}
	damage, notes := snapshot.CheckManifest(v.m.Manifest, v.m.Raw, snapshot.WithKeys(v.m.Keys()))
	for _, d := range damage {
		_ = v.note(d, false)
	}
	for _, n := range notes {
		_ = v.note(n, true)
	}
}

// sizes adds up the sizes of the files to be read.
func (v *verifier) sizes() error {
	for _, n := range engine.FileNames(v.st) {
		f, err := v.m.FS.Open(filepath.Join(v.dir, n))
		if err != nil {
			continue // missing, and noted
		}
		size, err := f.Size()
		if err != nil {
			return err
		}
		v.total += size
		v.rep.Files++
	}
	return nil
}

// images reads every frame of every image, and every page.
func (v *verifier) images() error {
	var prev base.FileNum
	for _, info := range v.st.Images {
		h, err := v.e.Files.Acquire(info.Num)
		if err != nil {
			err = v.note(err, false)
		} else {
			err = v.image(h, info, prev)
			v.e.Files.Release(h)
		}
		if err != nil {
			return err
		}
		prev = info.Num
	}
	return nil
}

func (v *verifier) image(h *engine.FileHandle, info snapshot.ImageInfo, prev base.FileNum) error {
	if err := v.note(h.Image.Check(info, v.st.StoreID, prev), false); err != nil {
		return err
	}
	base0 := v.rep.Bytes
	err := h.Image.Inspect(func(fr snapshot.ImageFrame) error {
		v.tell("images", h.Kind.Name(h.Num), base0+fr.Offset)
		err := fr.Err
		if err == nil && fr.Type == "page" {
			_, err = engine.DecodePage(h, index.Part{Off: uint64(fr.Offset), Len: uint32(fr.Size)}, fr.Raw)
		}
		if err := v.note(err, false); err != nil {
			return err
		}
		return v.ctx.Err()
	})
	if err != nil {
		return err
	}
	v.rep.Bytes += info.Size
	return v.note(h.Image.Table(snapshot.Visitor{
		Partition: func(snapshot.ImagePartition) error { return nil }, Family: func(snapshot.ImageFamily) error { return nil },
		RemovedFamily: func(uint64) error { return nil }, Tombstone: func(snapshot.Tombstone) error { return nil },
		RemovedTombstone: func(string) error { return nil },
	}), false)
}

// segments reads every byte of every segment, and every directory as the index
// reads it.
func (v *verifier) segments() error {
	for _, s := range v.st.Segments {
		h, err := v.e.Files.Acquire(s.Num)
		if err != nil {
			if err := v.note(err, false); err != nil {
				return err
			}
			continue
		}
		err = v.segment(h, s)
		v.e.Files.Release(h)
		if err != nil {
			return err
		}
	}
	return nil
}

func (v *verifier) segment(h *engine.FileHandle, s snapshot.SegmentInfo) error {
	name, before := h.Kind.Name(h.Num), v.rep.Bytes
	err := h.Segment.Verify(v.ctx, func(done, _ int64) { v.tell("segments", name, before+done) })
	if err := v.ctx.Err(); err != nil {
		return err
	}
	if err := v.note(err, false); err != nil {
		return err
	}
	p := h.Segment.Props()
	v.rep.Bytes += p.Size
	if v.m.ManifestErr == nil && !agrees(p, s) && err == nil {
		v.add(Finding{File: name, Offset: -1, Kind: "segment", Detail: "it is not the segment that the manifest describes"})
	}
	if _, err := v.e.SegmentTombstones(h.Num); err != nil {
		if err := v.note(err, false); err != nil {
			return err
		}
	}
	fams, err := h.Segment.Families()
	if err != nil {
		return v.note(err, false)
	}
	for _, f := range fams {
		part := index.Part{File: h.Num, Off: f.DirOff, Len: f.DirStored}
		if _, err := engine.ReadSegmentPage(h, f.ID, part); err != nil {
			if err := v.note(err, false); err != nil {
				return err
			}
		}
	}
	return nil
}

// agrees reports whether a segment is the one that the manifest describes. Raw bytes are not compared:
// the first builds with patches stored in the manifest the lengths that values had before they became
// patches.
func agrees(p segment.Props, s snapshot.SegmentInfo) bool {
	return p.FileNum == s.Num && p.Size == s.Size && p.MinLSN == s.MinLSN && p.MaxLSN == s.MaxLSN &&
		uint64(p.Families) == s.Families && uint64(p.Values) == s.Values
}
