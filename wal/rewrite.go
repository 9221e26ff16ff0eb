package wal

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/stele-go/stele/fault"
	"github.com/stele-go/stele/internal/base"
	"github.com/stele-go/stele/internal/seal"
	"github.com/stele-go/stele/internal/vfs"
)

// RewriteOptions are what Rewrite needs. FS, Dir and NewFileNum are required.
type RewriteOptions struct {
	FS         vfs.FS
	Dir        string
	NewFileNum func() (base.FileNum, error)
	// TempNum is the number in the name of the file until it is published; 0 means its own.
	// A file that has that name is replaced.
	TempNum base.FileNum
	Rand    func() uint64 // salt; nil means math/rand/v2
	Keys    *seal.Keyring // of the store; nil without encryption. The copy has the current key
	// Moved is told of each record that has a new place, in order, and the offset its
	// payload had in the file it is copied from. Payload is valid during the call.
	// May be nil.
	Moved func(from int64, to Entry) error
}

// Rewrite makes a recovered log fit to be written on, and returns the place
// where New continues it. It is CopyEnd and Publish in one.
//
// If there are records above the highest promise, they are copied into a new
// file, re-encoded for their new place, synced and closed with a mark; the new
// file's header says that the old one ends where the copy begins (the cut), so
// whatever lies behind that in the old file no longer counts. The caller then
// enters the returned file into the manifest, before any commit. If there are
// none, nothing is written and the FileInfo is nil: the header of the next file
// will make the cut.
//
// The old file is never written to. A crash at any point leaves the log as it
// was (the new file has a temporary name, or the manifest does not name it: a
// stray) or finished. Both hold the same records.
func Rewrite(o RewriteOptions, r Recovery) (Position, *FileInfo, error) {
	c, err := CopyEnd(o, r)
	if err != nil {
		return Position{}, nil, err
	}
	return c.Publish()
}

// EndCopy is the end of a recovered log, copied to a file of its own that is not
// yet part of the log.
type EndCopy struct {
	fs   vfs.FS
	dir  string
	temp string // its name; "" if there was nothing to copy, or it is published or gone
	end  Position
	info FileInfo
}

// CopyEnd is the first half of Rewrite: the copy is durable, under a temporary name.
func CopyEnd(o RewriteOptions, r Recovery) (*EndCopy, error) {
	c := &EndCopy{fs: o.FS, dir: o.Dir, end: r.cut}
	if r.Unpromised.Records == 0 {
		return c, nil
	}
	if r.Damages > 0 {
		return nil, fmt.Errorf("rewrite log: it was read past damage: %w", fault.ErrCorrupt)
	}
	if o.Rand == nil {
		o.Rand = randomSalt
	}
	old, err := openFrames(o.FS, o.Dir, r.cut.File, base.MaxRecord, access{keys: o.Keys})
	if err != nil {
		return nil, fmt.Errorf("rewrite log: %w", err)
	}
	defer old.close()
	old.off, old.chain, old.last, old.limit = r.cut.Offset, r.cut.Chain, r.cut.NextLSN-1, r.End.Offset

	num, err := o.NewFileNum()
	if err != nil {
		return nil, fmt.Errorf("rewrite log: number a file: %w", err)
	}
	if o.TempNum == 0 {
		o.TempNum = num
	}
	c.temp = o.TempNum.String() + tempSuffix
	f, err := createOver(o.FS, filepath.Join(o.Dir, c.temp))
	if err != nil {
		return nil, fmt.Errorf("rewrite log: create log %s: %w", num, err)
	}
	w := &rewriter{f: f, buf: make([]byte, 0, min(r.End.Offset-r.cut.Offset+2*fileHeaderSize, rewriteBuffer+rewriteBuffer/4)), hdr: fileHeader{num: num, baseLSN: r.cut.NextLSN, salt: o.Rand(), prev: r.cut, flags: fileCopy}, moved: o.Moved}
	c.end, err = w.copy(old, r.End.NextLSN-1, o.Keys)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		c.Discard()
		return nil, fmt.Errorf("rewrite log into %s: %w", num, err)
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

// Publish is the second half of Rewrite: it gives the copy its name. It can be called
// once. After an error the copy is removed, or a leftover that nothing refers to.
func (c *EndCopy) Publish() (Position, *FileInfo, error) {
	switch {
	case c.info.Num == 0:
		return c.end, nil, nil // nothing was copied
	case c.temp == "":
		return Position{}, nil, fmt.Errorf("rewrite log into %s: %w", c.info.Num, errPublished)
	}
	err := c.fs.Rename(filepath.Join(c.dir, c.temp), filepath.Join(c.dir, FileName(c.info.Num)))
	if err == nil {
		err = c.fs.SyncDir(c.dir)
	}
	if err != nil {
		c.Discard()
		return Position{}, nil, fmt.Errorf("rewrite log into %s: %w", c.info.Num, err)
	}
	c.temp = ""
	return c.end, &c.info, nil
}

// errPublished is for an EndCopy whose file has its name, or is gone.
var errPublished = errors.New("the copy is published or discarded")

// Discard removes a copy that is not published. Nothing refers to the file; if it
// cannot be removed it is swept at the next open.
func (c *EndCopy) Discard() {
	if c.temp != "" {
		_ = c.fs.Remove(filepath.Join(c.dir, c.temp))
		c.temp = ""
	}
}

// rewriteBuffer is how much a rewriter writes at once: fresh memory costs more than
// the calls.
const rewriteBuffer = 64 << 10

// rewriter writes one file from its header to its close mark.
type rewriter struct {
	f     vfs.File
	hdr   fileHeader
	fr    framer
	moved func(from int64, to Entry) error

	buf   []byte
	at    int64 // where buf goes
	off   int64 // behind buf
	chain uint64
}

// copy writes the records of old up to LSN last, the close mark, and syncs.
func (w *rewriter) copy(old *frameReader, last base.LSN, keys *seal.Keyring) (Position, error) {
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
	// The mark promises what this sync makes true. Nobody reads it before: the
	// file still has its temporary name.
	if err := w.f.Sync(); err != nil {
		return Position{}, err
	}
	return end, nil
}

func (w *rewriter) record(fr frame) error {
	at := w.off + frameHeaderSize
	w.frame(frameHeader{typ: frameRecord, lsn: fr.lsn, syncedTo: w.hdr.size()}, fr.payload)
	if w.moved != nil {
		err := w.moved(fr.off+frameHeaderSize, Entry{LSN: fr.lsn, File: w.hdr.num, Offset: at, Sealed: w.hdr.sealed(), Payload: fr.payload})
		if err != nil {
			return err
		}
	}
	if len(w.buf) < rewriteBuffer {
		return nil
	}
	return w.flush()
}

func (w *rewriter) frame(h frameHeader, parts ...[]byte) {
	before := len(w.buf)
	var sum uint64
	w.buf, sum = w.fr.append(w.buf, w.off, h, parts...)
	w.off += int64(len(w.buf) - before)
	w.chain = nextChain(w.chain, sum)
}

func (w *rewriter) flush() error {
	if _, err := w.f.WriteAt(w.buf, w.at); err != nil {
		return err
	}
	w.at, w.buf = w.off, w.buf[:0]
	return nil
}
