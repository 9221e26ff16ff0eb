package backup

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/seal"
	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/engine"
	"github.com/stele-go/stele/engine/check"
	"github.com/stele-go/stele/segment"
	"github.com/stele-go/stele/snapshot"
	"github.com/stele-go/stele/wal"
)

// Options say how to make a backup, or to restore one.
type Options struct {
	// Engine says how the store is read: its file system and keys. The other fields do not matter for
	// what is backed up or restored.
	Engine engine.Options
	// Dest is the file system of the backup; nil means that of the store.
	Dest vfs.FS
	// Check reads the files of an earlier backup again before this one relies on them.
	Check bool
	// Release makes a restored store go on by itself; else it is held. See engine.Engine.HeldUpTo.
	Release bool
	// Progress, if not nil, is called as bytes are copied.
	Progress func(done, total int64)
}

// Report says what a backup holds and how many files were copied for it.
type Report struct {
	LSN         base.LSN
	StoreID     uint64
	Files       int
	Bytes       int64
	CopiedFiles int
	CopiedBytes int64
	Removed     []string // of an earlier backup, no longer needed
}

// source is one file of the store that the backup is to hold.
type source struct {
	name, stored string
	size         int64
	f            vfs.File
	check        func(context.Context) error // checks the bytes before they are copied
}

// Make backs the store in dir up to dest, which is made if need be. It takes no lock of the store and
// may run beside its writer: the backup is the store at one moment during the call, and everything
// acknowledged before the call is in it.
//
// Files that dest has from an earlier backup are not copied again. The earlier backup stays in force
// until this one is complete and durable, whatever happens; then files that only the earlier one needed
// are removed.
//
// Every file that is copied is checked first; damage is a *fault.CorruptionError, and the earlier
// backup stays. fault.ErrLocked: another backup to dest is under way.
func Make(ctx context.Context, dir, dest string, o Options) (*Report, error) {
	rep, err := run(ctx, dir, dest, o)
	if err != nil {
		return nil, fmt.Errorf("back up %s to %s: %w", dir, dest, err)
	}
	return rep, nil
}

func run(ctx context.Context, dir, dest string, o Options) (*Report, error) {
	if o.Engine.FS == nil {
		o.Engine.FS = vfs.OS{}
	}
	if o.Dest == nil {
		o.Dest = o.Engine.FS
	}
	m, err := check.Capture(o.Engine.FS, dir, o.Engine.Keys)
	if err != nil {
		return nil, err
	}
	defer m.Release()
	if m.ManifestErr != nil {
		return nil, m.ManifestErr
	}
	if len(m.Missing) > 0 {
		return nil, &fault.CorruptionError{File: m.Missing[0], Kind: "file", Offset: -1, Detail: "the manifest names it, and it is missing"}
	}
	files, lsn, err := sources(dir, m, o)
	if err != nil {
		return nil, err
	}
	m.State.Replica = nil // the backup is no directory of the lineage
	state, err := snapshot.EncodeManifest(m.State, snapshot.Options{Rand: o.Engine.Rand, Keys: seal.New(o.Engine.Keys, o.Engine.Entropy)})
	if err != nil {
		return nil, err
	}
	b := &maker{ctx: ctx, dest: dest, o: o, rep: &Report{LSN: lsn, StoreID: m.State.StoreID}}
	done, err := b.prepare()
	if err != nil {
		return nil, err
	}
	defer done()
	list := &Manifest{StoreID: m.State.StoreID, Created: now(o).UTC().Truncate(time.Second), LSN: lsn, State: state}
	if list.Files, err = b.files(files); err != nil {
		return nil, err
	}
	if err := b.to.SyncDir(dest); err != nil {
		return nil, err
	}
	if err := list.publish(b.to, dest); err != nil {
		return nil, err
	}
	return b.rep, b.sweep(list)
}

func now(o Options) time.Time {
	if o.Engine.Clock != nil {
		return o.Engine.Clock()
	}
	return time.Now()
}

// sources are the files of a captured store, with the place where each log file ends.
func sources(dir string, m *check.Captured, o Options) ([]source, base.LSN, error) {
	rec, err := wal.Recover(m.LogOptions(dir), nil)
	if err != nil {
		return nil, 0, err
	}
	var out []source
	for _, s := range m.State.Segments {
		src, err := segmentSource(dir, m, s)
		if err != nil {
			return nil, 0, err
		}
		out = append(out, src)
	}
	for _, im := range m.State.Images {
		src, err := imageSource(dir, m, im)
		if err != nil {
			return nil, 0, err
		}
		out = append(out, src)
	}
	for i, l := range m.State.Logs {
		end := rec.End.Offset
		if i+1 < len(rec.Files) {
			end = rec.Files[i+1].Prev.Offset
		} else if c := m.State.Clean; c != nil && c.LogNum == l.Num {
			end = c.LogEnd
		}
		f, err := m.FS.Open(filepath.Join(dir, base.LogFile.Name(l.Num)))
		if err != nil {
			return nil, 0, err
		}
		h, err := wal.Inspect(f, base.LogFile.Name(l.Num), nil)
		if err != nil {
			return nil, 0, err
		}
		out = append(out, source{name: base.LogFile.Name(l.Num), stored: storedName(l.Num, h.Salt, end, ".log"), size: end, f: f})
	}
	return out, max(rec.LastLSN, m.State.FloorLSN-1), nil
}

func segmentSource(dir string, m *check.Captured, s snapshot.SegmentInfo) (source, error) {
	name := base.SegmentFile.Name(s.Num)
	f, err := m.FS.Open(filepath.Join(dir, name))
	if err != nil {
		return source{}, err
	}
	size, err := f.Size()
	if err != nil {
		return source{}, err
	}
	r, err := segment.Open(f, name, size, segment.WithKeys(m.Keyring()))
	if err != nil {
		return source{}, err
	}
	p := r.Props()
	if p.Size != s.Size {
		return source{}, &fault.CorruptionError{File: name, Kind: "segment", Offset: -1, Detail: "it is not the segment that the manifest describes"}
	}
	return source{name: name, stored: storedName(s.Num, p.Salt, size, ".seg"), size: size, f: f,
		check: func(ctx context.Context) error { return r.Verify(ctx, nil) }}, nil
}

func imageSource(dir string, m *check.Captured, info snapshot.ImageInfo) (source, error) {
	name := base.ImageFile.Name(info.Num)
	f, err := m.FS.Open(filepath.Join(dir, name))
	if err != nil {
		return source{}, err
	}
	im, err := snapshot.OpenImage(f, name, info.Size, snapshot.WithKeyring(m.Keyring()))
	if err != nil {
		return source{}, err
	}
	check := func(ctx context.Context) error {
		return im.Inspect(func(fr snapshot.ImageFrame) error { return errors.Join(fr.Err, ctx.Err()) })
	}
	return source{name: name, stored: storedName(info.Num, im.Header().Salt, info.Size, ".img"), size: info.Size, f: f, check: check}, nil
}

// maker writes one backup.
type maker struct {
	ctx    context.Context
	dest   string
	o      Options
	to     vfs.Dir         // dest, held; it refuses to write when its lock is lost
	before map[string]File // by stored name: what the backup before holds
	rep    *Report
	done   int64
	total  int64
}

// prepare makes the directory, keeps it open, reads the list of the backup that is there, and locks it.
// done unlocks and closes it.
func (b *maker) prepare() (done func(), err error) {
	fsys := b.o.Dest
	if err := fsys.MkdirAll(b.dest); err != nil {
		return nil, err
	}
	held, err := vfs.Hold(fsys, b.dest)
	if err != nil {
		return nil, err
	}
	lock, err := b.readAndLock(fsys, held)
	if err != nil {
		_ = held.Close() // nothing was made in it
		return nil, err
	}
	b.to = vfs.Guarded(held, lock.Attached)
	return func() {
		_ = lock.Close() // nothing was written through it
		_ = held.Close()
	}, nil
}

// readAndLock reads the list of the backup that is there into before, and locks the directory.
func (b *maker) readAndLock(around vfs.FS, held vfs.Dir) (vfs.Lock, error) {
	names, err := held.List(b.dest)
	if err != nil {
		return nil, err
	}
	readable := vfs.PastUnreadable(held, func(name string) bool { return name == Name }, func(error) {}) // a list that is not is lost
	old, err := readList(readable, b.dest)
	switch {
	case err == nil:
		b.before = map[string]File{}
		for _, f := range old.Files {
			b.before[f.Stored] = f
		}
	case errors.Is(err, fault.ErrCorrupt):
		// The list is lost; what it named is copied again and replaced.
	case errors.Is(err, fault.ErrNotStore):
		for _, n := range names {
			if n != lockName && !isOurs(n) {
				return nil, fmt.Errorf("%w: it holds %q and no backup; choose another", fault.ErrNotEmpty, n)
			}
		}
	default:
		return nil, err
	}
	if err := around.SyncDir(filepath.Dir(b.dest)); err != nil {
		return nil, err
	}
	lock, err := held.Lock(filepath.Join(b.dest, lockName), fmt.Sprintf("backup since %s\n", now(b.o).UTC().Format(time.RFC3339)))
	if errors.Is(err, vfs.ErrLockHeld) {
		return nil, &fault.LockedError{Dir: b.dest, Holder: "another backup"}
	}
	return lock, err
}

// lockName keeps two backups from writing to one directory.
const lockName = "LOCK"

// isOurs reports whether a backup made the file.
func isOurs(name string) bool {
	name = strings.TrimSuffix(name, tempSuffix)
	return name == Name || isStored(name)
}

// files copies the files that are not there yet and returns the list of all.
func (b *maker) files(list []source) ([]File, error) {
	for _, s := range list {
		b.total += s.size
	}
	out := make([]File, 0, len(list))
	for _, s := range list {
		f, err := b.file(s)
		if err != nil {
			return nil, err
		}
		out = append(out, f)
		b.rep.Files++
		b.rep.Bytes += s.size
	}
	return out, nil
}

func (b *maker) file(s source) (File, error) {
	if f, ok := b.before[s.stored]; ok {
		same, err := b.there(f)
		if err != nil {
			return File{}, err
		}
		if same {
			b.step(s.size)
			f.Name = s.name
			return f, nil
		}
	}
	if s.check != nil {
		if err := s.check(b.ctx); err != nil {
			return File{}, err
		}
	}
	temp := filepath.Join(b.dest, s.stored+tempSuffix)
	if err := removeIfThere(b.to, temp); err != nil {
		return File{}, err
	}
	sum, err := copyFile(b.ctx, s.f, s.name, s.size, b.to, temp, b.step)
	if err != nil {
		return File{}, err
	}
	if err := b.to.Rename(temp, filepath.Join(b.dest, s.stored)); err != nil {
		return File{}, err
	}
	b.rep.CopiedFiles++
	b.rep.CopiedBytes += s.size
	return File{Name: s.name, Stored: s.stored, Size: s.size, Sum: sum}, nil
}

// there reports whether a file of the earlier backup still has the size that its list says, and with
// Options.Check the bytes.
func (b *maker) there(f File) (bool, error) {
	if b.o.Check {
		err := compare(b.ctx, b.to, b.dest, f, nil)
		if errors.Is(err, fault.ErrCorrupt) {
			return false, nil
		}
		return err == nil, err
	}
	file, err := openStored(b.to, b.dest, f)
	if errors.Is(err, fault.ErrCorrupt) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, file.Close()
}

func (b *maker) step(n int64) {
	b.done += n
	if b.o.Progress != nil {
		b.o.Progress(b.done, b.total)
	}
}

// sweep removes files that the new list does not name. The list is durable by now.
func (b *maker) sweep(list *Manifest) error {
	names, err := b.to.List(b.dest)
	if err != nil {
		return err
	}
	for _, n := range names {
		named := n == Name || slices.ContainsFunc(list.Files, func(f File) bool { return f.Stored == n })
		if named || !isOurs(n) {
			continue
		}
		if err := b.to.Remove(filepath.Join(b.dest, n)); err != nil {
			return fmt.Errorf("the backup is complete; remove %s of an earlier one: %w", n, err)
		}
		b.rep.Removed = append(b.rep.Removed, n)
	}
	return nil
}
