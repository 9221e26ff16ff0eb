package backup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/stele-go/stele/base"
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

// compare reads a file of a backup, and compares it with the list.
func compare(ctx context.Context, d vfs.Dir, dir string, f File, step func(int64)) error {
	return compared(d, dir, f, func(file vfs.File) (string, error) { return sumFile(ctx, file, f.Stored, f.Size, nil, step) })
}

// compared opens a file of a backup, and compares the checksum that read returns with the list. A block that the device
// cannot read is damage.
func compared(d vfs.Dir, dir string, f File, read func(vfs.File) (sum string, err error)) error {
	var unread error // the first block
	all := func(string) bool { return true }
	file, err := openStored(vfs.PastUnreadable(d, all, func(err error) { unread = cmp.Or(unread, err) }), dir, f)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // only read from
	sum, err := read(file)
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

// Files returns the files of the backup in dir under the names that they have in the store, for salvage: those that
// are damaged as they are, and those that are missing or that the device cannot open not at all. Release it.
func Files(fsys vfs.FS, dir string) (*vfs.Captured, error) {
	d, err := holdBackup(fsys, dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = d.Close() }() // its files are open
	list, err := readList(d, dir)
	if err != nil {
		return nil, err
	}
	files := vfs.NewCaptured(dir)
	files.KeepBytes(snapshot.ManifestName(1), list.State)
	for _, f := range list.Files {
		if err := files.KeepAs(d, f.Stored, f.Name); err != nil && !errors.Is(err, fs.ErrNotExist) && !vfs.Unreadable(err) {
			return nil, errors.Join(err, files.Release())
		}
	}
	return files, nil
}

// Restore makes a store in dir, which must be empty or missing, of the backup in from. Every byte is
// checked on the way, and the complete store is verified by package engine/check, before the manifest
// is written: until then dir is no store. After an error the files that were written are removed; after
// a crash dir is refused by Open, and has to be removed.
//
// If an image of the index is damaged, the store is made without images, and Open makes the index of the
// other files. The report has the damage as a notice. Any other damage is an error: then nothing can be
// restored, and what can be read may be salvaged.
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
	o.Dest = to
	rep, err := restore(ctx, list, src, from, dir, o)
	if err != nil {
		for _, f := range list.Files {
			_ = o.Dest.Remove(filepath.Join(dir, f.Name)) // the first cause is what counts
		}
		if errors.Is(err, fault.ErrCorrupt) {
			err = fmt.Errorf("%w; salvage of the backup saves what can be read", err)
		}
		return rep, fmt.Errorf("restore %s to %s: %w", from, dir, err)
	}
	return rep, nil
}

func restore(ctx context.Context, list *Manifest, src vfs.Dir, from, dir string, o Options) (*check.Report, error) {
	p := &progress{o: o}
	p.sizes(list)
	badImage, err := p.restoreFiles(ctx, list.Files, src, from, dir)
	if err != nil {
		return nil, err
	}
	if err := o.Dest.SyncDir(dir); err != nil {
		return nil, err
	}
	state := list.State
	if badImage != nil {
		if state, err = withoutImages(state, o); err != nil {
			return nil, err
		}
	}
	m, err := check.Assemble(o.Dest, dir, state, o.Engine.Keys)
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
	if badImage != nil {
		rep.Findings = append(rep.Findings, check.Finding{File: badImage.File, Offset: badImage.Offset, Len: badImage.Len, Kind: badImage.Kind,
			Detail: badImage.Detail + "; the images of the backup were left out, and the next open makes the index", Notice: true, Err: badImage})
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

// restoreFiles copies the files of a backup. If an image is damaged it copies none, and returns the damage.
func (p *progress) restoreFiles(ctx context.Context, files []File, src vfs.Dir, from, dir string) (badImage *fault.CorruptionError, err error) {
	for _, f := range files {
		image := isImage(f)
		if image && badImage != nil {
			p.step(f.Size)
			continue
		}
		err := compared(src, from, f, func(file vfs.File) (string, error) {
			return copyFile(ctx, file, f.Stored, f.Size, p.o.Dest, filepath.Join(dir, f.Name), p.step)
		})
		if err != nil && !(image && errors.As(err, &badImage)) {
			return nil, err
		}
	}
	for _, f := range files {
		if badImage != nil && isImage(f) {
			if err := removeIfThere(p.o.Dest, filepath.Join(dir, f.Name)); err != nil {
				return nil, err
			}
		}
	}
	return badImage, nil
}

func isImage(f File) bool {
	_, ok := base.ImageFile.Parse(f.Name)
	return ok
}

// withoutImages is the manifest of a store without the images that it names: the index is made from segments and log.
func withoutImages(manifest []byte, o Options) ([]byte, error) {
	st, _, err := check.Manifest(manifest, o.Engine.Keys)
	if err != nil {
		return nil, err
	}
	st.Images = nil
	return snapshot.EncodeManifest(st, snapshot.Options{Rand: o.Engine.Rand, Keys: seal.New(o.Engine.Keys, o.Engine.Entropy)})
}
