package backup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/seal"
	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/engine/check"
	"github.com/stele-go/stele/snapshot"
)

// Check reads every file of the backup in dir and compares it with the list. damage has the
// differences, each a *fault.CorruptionError, also where the device cannot read a block. err is for a list that
// cannot be read, and for other errors of the device.
func Check(ctx context.Context, dir string, o Options) (list *Manifest, damage []error, err error) {
	if o.Engine.FS == nil {
		o.Engine.FS = vfs.OS{}
	}
	d, err := holdBackup(o.Engine.FS, dir)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = d.Close() }() // only read from
	list, err = readList(d, dir)
	if err != nil {
		return nil, nil, err
	}
	p := &progress{o: o}
	p.sizes(list)
	for _, f := range list.Files {
		err := compare(ctx, d, dir, f, p.step)
		switch {
		case errors.Is(err, fault.ErrCorrupt):
			damage = append(damage, err)
		case err != nil:
			return list, damage, err
		}
	}
	return list, damage, nil
}

type progress struct {
	o           Options
	done, total int64
}

func (p *progress) sizes(list *Manifest) {
	for _, f := range list.Files {
		p.total += f.Size
	}
}

func (p *progress) step(n int64) {
	p.done += n
	if p.o.Progress != nil {
		p.o.Progress(p.done, p.total)
	}
}

// compare reads a file of a backup, and compares it with the list. A block that the device cannot read is damage.
func compare(ctx context.Context, d vfs.Dir, dir string, f File, step func(int64)) error {
	var unread error // the first block
	all := func(string) bool { return true }
	file, err := openStored(vfs.PastUnreadable(d, all, func(err error) { unread = cmp.Or(unread, err) }), dir, f)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // only read from
	sum, err := sumFile(ctx, file, f.Stored, f.Size, nil, step)
	if err == nil && unread == nil && sum != f.Sum {
		err = wrongSum(f, sum)
	}
	return cmp.Or(err, unread)
}

func wrongSum(f File, sum string) error {
	return &fault.CorruptionError{File: f.Stored, Kind: "backup file", Offset: -1, Len: f.Size,
		Detail: fmt.Sprintf("checksum is %s, the list says %s", sum, f.Sum)}
}

// openStored opens a file of a backup. It is damage if the file is missing or has another size.
func openStored(fsys vfs.FS, dir string, f File) (vfs.File, error) {
	file, err := fsys.Open(filepath.Join(dir, f.Stored))
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, &fault.CorruptionError{File: f.Stored, Kind: "backup file", Offset: -1, Detail: "missing", Err: err}
		}
		return nil, err
	}
	size, err := file.Size()
	if err == nil && size != f.Size {
		err = &fault.CorruptionError{File: f.Stored, Kind: "backup file", Offset: -1, Detail: fmt.Sprintf("it has %d bytes, the list says %d", size, f.Size)}
	}
	if err != nil {
		_ = file.Close() // only read from
		return nil, err
	}
	return file, nil
}

// Restore makes a store in dir, which must be empty or missing, of the backup in from. Every byte is
// checked on the way, and the complete store is verified by package engine/check, before the manifest
// is written: until then dir is no store. After an error the files that were written are removed; after
// a crash dir is refused by Open, and has to be removed.
//
// The new store has the id of the one that was backed up: write to only one of the two from then on. It is held from the
// moment when it is a store, unless Options.Release says otherwise.
func Restore(ctx context.Context, from, dir string, o Options) (*check.Report, error) {
	if o.Engine.FS == nil {
		o.Engine.FS = vfs.OS{}
	}
	if o.Dest == nil {
		o.Dest = o.Engine.FS
	}
	src, err := holdBackup(o.Engine.FS, from)
	if err != nil {
		return nil, fmt.Errorf("restore %s: %w", from, err)
	}
	defer func() { _ = src.Close() }() // only read from
	list, err := readList(src, from)
	if err != nil {
		return nil, fmt.Errorf("restore %s: %w", from, err)
	}
	to, err := vfs.HoldEmpty(o.Dest, dir)
	if err != nil {
		return nil, fmt.Errorf("restore to %s: %w", dir, err)
	}
	defer func() { _ = to.Close() }() // nothing is made any more
	o.Engine.FS, o.Dest = src, to
	rep, err := restore(ctx, list, from, dir, o)
	if err != nil {
		for _, f := range list.Files {
			_ = o.Dest.Remove(filepath.Join(dir, f.Name)) // the first cause is what counts
		}
		return rep, fmt.Errorf("restore %s to %s: %w", from, dir, err)
	}
	return rep, nil
}

func restore(ctx context.Context, list *Manifest, from, dir string, o Options) (*check.Report, error) {
	p := &progress{o: o}
	p.sizes(list)
	for _, f := range list.Files {
		if err := p.restoreFile(ctx, f, from, dir); err != nil {
			return nil, err
		}
	}
	if err := o.Dest.SyncDir(dir); err != nil {
		return nil, err
	}
	m, err := check.Assemble(o.Dest, dir, list.State, o.Engine.Keys)
	if err != nil {
		return nil, err
	}
	defer m.Release()
	opts := o.Engine
	opts.FS = o.Dest
	rep, err := check.RunCaptured(ctx, dir, m, opts, nil)
	if err != nil {
		return nil, err
	}
	if rep.Damaged() {
		return rep, fmt.Errorf("what was backed up does not verify: %w", rep.Err())
	}
	st := m.State.Clone()
	if st.Held = list.LSN; o.Release {
		st.Held = 0
	}
	mf, err := snapshot.Create(o.Dest, dir, st, snapshot.Options{Rand: o.Engine.Rand, Keys: seal.New(o.Engine.Keys, o.Engine.Entropy)})
	if err != nil {
		return rep, err
	}
	return rep, mf.Close()
}

func (p *progress) restoreFile(ctx context.Context, f File, from, dir string) error {
	file, err := openStored(p.o.Engine.FS, from, f)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // only read from
	sum, err := copyFile(ctx, file, f.Stored, f.Size, p.o.Dest, filepath.Join(dir, f.Name), p.step)
	if err == nil && sum != f.Sum {
		err = wrongSum(f, sum)
	}
	return err
}
