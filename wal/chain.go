package wal

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/vfs"
)

// findFiles finds the files of the log, reads their headers and checks that each follows
// the one before it.
func (rv *recoverer) findFiles() error {
	var err error
	if rv.o.Files == nil {
		err = rv.discover()
	} else {
		err = rv.listed()
	}
	if err != nil {
		return err
	}
	for i, f := range rv.files {
		if err := rv.checkSalt(f); err != nil {
			return err
		}
		if f.err == nil {
			rv.res.Files = append(rv.res.Files, FileInfo{Num: f.num, BaseLSN: f.hdr.baseLSN, Salt: f.hdr.salt, Prev: f.hdr.prev, KeyID: f.keyID})
		}
		if i == 0 {
			if err := rv.checkOrigin(f); err != nil {
				return err
			}
		}
		if i == 0 || f.err != nil || rv.files[i-1].err != nil {
			continue
		}
		if err := rv.checkLink(rv.files[i-1], f); err != nil {
			return err
		}
	}
	return nil
}

// checkOrigin checks that the first file of a whole log is the one this log began with.
// Without it, the first file of another log could stand in its place. Older builds gave
// logs no origin and left zero.
func (rv *recoverer) checkOrigin(f logHeader) error {
	at := f.hdr.prev
	if f.err != nil || rv.o.Origin == 0 || at.File != 0 || at.Chain == 0 || at.Chain == rv.o.Origin {
		return nil
	}
	return rv.damage(&fault.CorruptionError{
		File: base.LogFile.Name(f.num), Kind: "log file header", Len: fileHeaderSize, Detail: "it begins the log of another store",
	})
}

// checkSalt checks that a file is the one that was made under its number, by the salt
// that the manifest, or else the mark, knows it by.
func (rv *recoverer) checkSalt(f logHeader) error {
	if f.err != nil {
		return nil
	}
	want, says := rv.o.Salts[f.num], "the manifest"
	marked := rv.mark.File == f.num && rv.mark.Salt != f.hdr.salt
	if marked && want == f.hdr.salt {
		rv.mark = Mark{} // of another log
		return nil
	}
	if marked && want == 0 {
		want, says = rv.mark.Salt, MarkName
	}
	if want == 0 || want == f.hdr.salt {
		return nil
	}
	return rv.damage(&fault.CorruptionError{
		File: base.LogFile.Name(f.num), Kind: "log file header", Len: fileHeaderSize,
		Detail: fmt.Sprintf("it has the salt %#016x, %s knows the file by %#016x: it was replaced by another", f.hdr.salt, says, want),
	})
}

// checkLink checks the link from next to the file before it. The end of that file in the link is
// checked when the file is read.
func (rv *recoverer) checkLink(prev, next logHeader) error {
	switch {
	case next.hdr.prev.File != prev.num:
		return rv.damage(&fault.CorruptionError{
			File: base.LogFile.Name(next.hdr.prev.File), Kind: "log", Offset: -1,
			Detail: fmt.Sprintf("the file is missing: %s follows it, and %s is the one found before", base.LogFile.Name(next.num), base.LogFile.Name(prev.num)),
		})
	case next.hdr.baseLSN < prev.hdr.baseLSN:
		return rv.damage(&fault.CorruptionError{
			File: base.LogFile.Name(next.num), Kind: "log file header", Len: fileHeaderSize,
			Detail: fmt.Sprintf("it begins with record %d, the file before it with %d", next.hdr.baseLSN, prev.hdr.baseLSN),
		})
	}
	return nil
}

// listed reads the headers of the files the manifest names.
func (rv *recoverer) listed() error {
	for _, num := range rv.o.Files {
		f, err := rv.readHeader(num)
		if err != nil {
			return err
		}
		rv.files = append(rv.files, f)
	}
	if rv.o.ReadOnly {
		return nil
	}
	names, err := rv.o.FS.List(rv.o.Dir)
	if err != nil {
		return fmt.Errorf("list log directory: %w", err)
	}
	for _, name := range names {
		num, ok := base.LogFile.Parse(name)
		if ok && !slices.Contains(rv.o.Files, num) || isTemp(name) {
			rv.res.Strays = append(rv.res.Strays, name)
		}
	}
	return nil
}

func isTemp(name string) bool {
	_, ok := base.LogTempFile.Parse(name)
	return ok
}

// readHeader reads the header of a file that must be there.
func (rv *recoverer) readHeader(num base.FileNum) (logHeader, error) {
	f := logHeader{num: num}
	r, err := openFrames(rv.o.FS, rv.o.Dir, num, rv.o.MaxRecord, rv.access())
	if err != nil {
		f.err = err
		return f, rv.openError(num, err)
	}
	f.hdr, f.keyID = r.hdr, r.seal.KeyID()
	r.close()
	return f, nil
}

func (rv *recoverer) access() access { return access{keys: rv.o.Keys} }

// discover finds the files without a manifest. The newest is the one with the highest
// number that has a header; the others are reached from it by the numbers in the
// headers. A file that is not reached is a stray if it holds no record, and else a sign
// that a file is missing.
func (rv *recoverer) discover() error {
	names, err := rv.o.FS.List(rv.o.Dir)
	if err != nil {
		return fmt.Errorf("list log directory: %w", err)
	}
	byNum := map[base.FileNum]logHeader{}
	var nums []base.FileNum
	for _, name := range names {
		num, ok := base.LogFile.Parse(name)
		if !ok {
			if isTemp(name) {
				rv.res.Strays = append(rv.res.Strays, name)
			}
			continue
		}
		f, stray, err := rv.candidate(num)
		if err != nil {
			return err
		}
		if stray {
			rv.res.Strays = append(rv.res.Strays, name)
			continue
		}
		byNum[num] = f
		nums = append(nums, num)
	}
	slices.Sort(nums)
	if rv.o.AllowDamage {
		// The chain may be broken, but numbers grow along it.
		for _, num := range nums {
			rv.files = append(rv.files, byNum[num])
		}
		return nil
	}
	return rv.walk(nums, byNum)
}

// walk follows the chain from the newest file backwards.
func (rv *recoverer) walk(nums []base.FileNum, byNum map[base.FileNum]logHeader) error {
	if len(nums) == 0 {
		return nil
	}
	for num := nums[len(nums)-1]; ; {
		f, ok := byNum[num]
		if !ok {
			break
		}
		rv.files = append(rv.files, f)
		delete(byNum, num)
		// Numbers grow along the chain, so this ends.
		if f.hdr.prev.File >= num {
			break
		}
		num = f.hdr.prev.File
	}
	slices.Reverse(rv.files)
	for _, num := range nums {
		if _, left := byNum[num]; !left {
			continue
		}
		empty, err := rv.blank(num)
		if err != nil {
			return err
		}
		if !empty {
			oldest := rv.files[0]
			return &fault.CorruptionError{
				File: base.LogFile.Name(oldest.hdr.prev.File), Kind: "log", Offset: -1,
				Detail: fmt.Sprintf("the file is missing: %s follows it, and %s is the one found before", base.LogFile.Name(oldest.num), base.LogFile.Name(num)),
			}
		}
		rv.res.Strays = append(rv.res.Strays, base.LogFile.Name(num))
	}
	return nil
}

// candidate reads the header of a file found in the directory. A file without a valid
// header that has only zeros behind it is a stray: frames are written only after the
// header is durable.
func (rv *recoverer) candidate(num base.FileNum) (f logHeader, stray bool, err error) {
	f = logHeader{num: num}
	r, err := openFrames(rv.o.FS, rv.o.Dir, num, rv.o.MaxRecord, rv.access())
	if err == nil {
		f.hdr, f.keyID = r.hdr, r.seal.KeyID()
		r.close()
		return f, false, nil
	}
	if errors.Is(err, fault.ErrCorrupt) {
		empty, berr := rv.blank(num)
		if berr != nil || empty {
			return f, empty, berr
		}
	}
	f.err = err
	return f, false, rv.openError(num, err)
}

// blank reports whether a file has only zeros behind its header.
func (rv *recoverer) blank(num base.FileNum) (bool, error) {
	f, err := rv.o.FS.Open(filepath.Join(rv.o.Dir, base.LogFile.Name(num)))
	if err != nil {
		return false, fmt.Errorf("open log %s: %w", num, err)
	}
	defer func() { _ = f.Close() }() // only read from
	size, err := f.Size()
	if err != nil {
		return false, fmt.Errorf("size of log %s: %w", num, err)
	}
	buf := make([]byte, min(windowSize, max(size, 1)))
	from := int64(fileHeaderSize)
	if rv.o.Keys != nil {
		from = maxHeadSize // both headers are one write, which a crash may tear
	}
	for off := from; off < size; {
		b := buf[:min(int64(len(buf)), size-off)]
		if _, err := f.ReadAt(b, off); err != nil {
			return false, fmt.Errorf("read log %s at offset %d: %w", num, off, err)
		}
		if lastUsed(b) > 0 {
			return false, nil
		}
		if off, err = vfs.NextData(f, off+int64(len(b)), size); err != nil {
			return false, fmt.Errorf("look for data in log %s: %w", num, err)
		}
	}
	return true, nil
}

// Unnamed describes a log file that the manifest does not name.
type Unnamed struct {
	// LastLSN is the last record in it; 0 if it holds none.
	LastLSN base.LSN
	// Copy: CopyEnd made it, and crashed before the manifest named it.
	Copy bool
}

// Examine describes a log file that the manifest does not name. A file whose header is
// not whole holds no record. Errors are those of the device.
//
// A record is written only after the manifest names its file. So a file that is no copy
// and continues the log proves that the manifest is older than the log. Such a file must
// not be removed.
func Examine(fsys vfs.FS, dir string, num base.FileNum) (Unnamed, error) {
	r, err := openFrames(fsys, dir, num, base.MaxRecord, access{blind: true})
	if errors.Is(err, fault.ErrCorrupt) || errors.Is(err, fs.ErrNotExist) {
		return Unnamed{}, nil
	}
	if err != nil {
		return Unnamed{}, err
	}
	defer r.close()
	u := Unnamed{Copy: r.hdr.flags&fileCopy != 0}
	for {
		fr, ok, err := r.next()
		if err != nil || !ok {
			return u, err
		}
		if fr.typ == frameRecord {
			u.LastLSN = fr.lsn
		}
	}
}
