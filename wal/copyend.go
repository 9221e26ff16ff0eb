package wal

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/seal"
	"github.com/stele-go/stele/base/vfs"
)

// CopyOptions configure CopyEnd. FS, Dir and NewFileNum are required.
type CopyOptions struct {
	FS         vfs.FS
	Dir        string
	NewFileNum func() (base.FileNum, error)
	// TempNum is the number in the temporary name of the file; 0 means its own number. A
	// file that has that name is replaced.
	TempNum base.FileNum
	Rand    func() uint64 // salt; nil means math/rand/v2
	Keys    *seal.Keyring // of the store; nil without encryption. The copy has the current key
	// Moved is called for each record that is copied, in order, with the offset that its
	// payload had before. Payload is valid during the call. May be nil.
	Moved func(from int64, to Entry) error
}

// EndCopy prepares a recovered log for writing. CopyEnd makes it, and Publish makes it part of the log.
//
// Records above the highest promise may exist in the page cache alone. If there are any, they are
// copied into a new file, encoded anew for their new place, synced, and closed with a mark. The header
// of the new file says that the old one ends where the copy begins (the cut), so that bytes of the old
// file behind that are ignored. The caller enters the published file into the manifest before any
// commit. If there are no such records, nothing is written and Publish returns no FileInfo: the header
// of the next file makes the cut.
//
// The old file is never written to. A crash at any point leaves the log as it was, with a leftover or a
// stray beside it, or with the copy as its end. Both hold the same records.
type EndCopy struct {
	fs   vfs.FS
	dir  string
	temp string // its name; "" if there was nothing to copy, or it is published or gone
	end  Position
	info FileInfo
}

// CopyEnd makes the copy, durable, under a temporary name. See EndCopy.
func CopyEnd(o CopyOptions, r Recovery) (*EndCopy, error) {
	c := &EndCopy{fs: o.FS, dir: o.Dir, end: r.cut}
	if r.Unpromised.Records == 0 {
		return c, nil
	}
	if r.Damages > 0 {
		return nil, fmt.Errorf("copy the end of the log: it was read past damage: %w", fault.ErrCorrupt)
	}
	if o.Rand == nil {
		o.Rand = randomSalt
	}
	old, err := openFrames(o.FS, o.Dir, r.cut.File, base.MaxRecord, access{keys: o.Keys})
	if err != nil {
		return nil, fmt.Errorf("copy the end of the log: %w", err)
	}
	defer old.close()
	old.off, old.chain, old.last, old.limit = r.cut.Offset, r.cut.Chain, r.cut.NextLSN-1, r.End.Offset

	num, err := o.NewFileNum()
	if err != nil {
		return nil, fmt.Errorf("copy the end of the log: number a file: %w", err)
	}
	if o.TempNum == 0 {
		o.TempNum = num
	}
	c.temp = base.LogTempFile.Name(o.TempNum)
	f, err := createOver(o.FS, filepath.Join(o.Dir, c.temp))
	if err != nil {
		return nil, fmt.Errorf("copy the end of the log: create log %s: %w", num, err)
	}
	w := &endCopier{f: f, buf: make([]byte, 0, min(r.End.Offset-r.cut.Offset+2*fileHeaderSize, copyBuffer+copyBuffer/4)),
		hdr: fileHeader{num: num, baseLSN: r.cut.NextLSN, salt: o.Rand(), prev: r.cut, flags: fileCopy}, moved: o.Moved}
	c.end, err = w.copy(old, r.End.NextLSN-1, o.Keys)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		c.Discard()
		return nil, fmt.Errorf("copy the end of the log to %s: %w", num, err)
	}
	c.info = FileInfo{Num: num, BaseLSN: r.cut.NextLSN, Salt: w.hdr.salt, Prev: r.cut, KeyID: w.fr.seal.KeyID()}
	return c, nil
}

// createOver creates a file, in the place of one that may have that name.
func createOver(fsys vfs.FS, name string) (vfs.File, error) {
	f, err := fsys.Create(name)
	if !errors.Is(err, fs.ErrExist) {
		return f, err
	}
	if err := fsys.Remove(name); err != nil {
		return nil, err
	}
	return fsys.Create(name)
}

// TempName is the name the copy has until Publish; "" if there is none.
func (c *EndCopy) TempName() string { return c.temp }

// Publish gives the copy its name, and returns the place where New continues the log and the file for
// the manifest, which is nil if nothing was copied. It can be called once. After an error the copy is
// removed, or nothing refers to it.
func (c *EndCopy) Publish() (Position, *FileInfo, error) {
	switch {
	case c.info.Num == 0:
		return c.end, nil, nil // nothing was copied
	case c.temp == "":
		return Position{}, nil, fmt.Errorf("copy the end of the log to %s: %w", c.info.Num, errPublished)
	}
	err := c.fs.Rename(filepath.Join(c.dir, c.temp), filepath.Join(c.dir, base.LogFile.Name(c.info.Num)))
	if err == nil {
		err = c.fs.SyncDir(c.dir)
	}
	if err != nil {
		c.Discard()
		return Position{}, nil, fmt.Errorf("copy the end of the log to %s: %w", c.info.Num, err)
	}
	c.temp = ""
	return c.end, &c.info, nil
}

// errPublished is the error for an EndCopy that was published or discarded.
var errPublished = errors.New("the copy is published or discarded")

// Discard removes a copy that is not published. If it cannot be removed, the next open
// sweeps it.
func (c *EndCopy) Discard() {
	if c.temp != "" {
		_ = c.fs.Remove(filepath.Join(c.dir, c.temp))
		c.temp = ""
	}
}

// copyBuffer is how much an endCopier writes with one call. A larger buffer would cost more than it
// saves in calls.
const copyBuffer = 64 << 10

// endCopier writes one file from its header to its close mark.
type endCopier struct {
	f     vfs.File
	hdr   fileHeader
	fr    framer
	moved func(from int64, to Entry) error

	buf   []byte
	at    int64 // the offset of buf in the file
	off   int64 // behind buf
	chain uint64
}

// copy writes the records of old up to LSN last, the close mark, and syncs.
func (w *endCopier) copy(old *frameReader, last base.LSN, keys *seal.Keyring) (Position, error) {
	head, chain, sf, err := createSeal(keys, &w.hdr)
	if err != nil {
		return Position{}, err
	}
	w.buf, w.off, w.chain, w.fr = append(w.buf, head...), w.hdr.size(), chain, framer{salt: w.hdr.salt, seal: sf}
	for next := w.hdr.baseLSN; next <= last; {
		fr, ok, err := old.next()
		if err != nil {
			return Position{}, err
		}
		if !ok {
			// Recover accepted it a moment ago.
			return Position{}, &fault.CorruptionError{File: old.name, Kind: "log frame", Offset: old.off, Detail: "it changed since it was read"}
		}
		if fr.err != nil {
			return Position{}, fr.err
		}
		if fr.typ != frameRecord {
			continue
		}
		if err := w.record(fr); err != nil {
			return Position{}, err
		}
		next = fr.lsn + 1
	}
	end := Position{NextLSN: last + 1, File: w.hdr.num, Offset: w.off, Chain: w.chain}
	w.frame(frameHeader{typ: frameClose, lsn: last, syncedTo: w.off})
	if err := w.flush(); err != nil {
		return Position{}, err
	}
	// The close mark promises data that only this sync makes durable. Nobody reads it before: the file
	// still has its temporary name.
	if err := w.f.Sync(); err != nil {
		return Position{}, err
	}
	size, err := w.f.Size()
	if err == nil && size != w.off {
		err = fmt.Errorf("the file has %d bytes, %d were written: it was changed in place", size, w.off)
	}
	return end, err
}

func (w *endCopier) record(fr frame) error {
	at := w.off + frameHeaderSize
	w.frame(frameHeader{typ: frameRecord, lsn: fr.lsn, syncedTo: w.hdr.size()}, fr.payload)
	if w.moved != nil {
		err := w.moved(fr.off+frameHeaderSize, Entry{LSN: fr.lsn, File: w.hdr.num, Offset: at, Sealed: w.hdr.sealed(), Payload: fr.payload})
		if err != nil {
			return err
		}
	}
	if len(w.buf) < copyBuffer {
		return nil
	}
	return w.flush()
}

func (w *endCopier) frame(h frameHeader, parts ...[]byte) {
	before := len(w.buf)
	var sum uint64
	w.buf, sum = w.fr.append(w.buf, w.off, h, parts...)
	w.off += int64(len(w.buf) - before)
	w.chain = nextChain(w.chain, sum)
}

func (w *endCopier) flush() error {
	if _, err := w.f.WriteAt(w.buf, w.at); err != nil {
		return err
	}
	w.at, w.buf = w.off, w.buf[:0]
	return nil
}
