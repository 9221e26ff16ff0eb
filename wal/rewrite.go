package wal

import (
	"fmt"
	"path/filepath"

	"github.com/stele-go/stele/internal/base"
	"github.com/stele-go/stele/internal/seal"
	"github.com/stele-go/stele/internal/vfs"
)

// RewriteOptions are what Rewrite needs. FS, Dir and NewFileNum are required.
type RewriteOptions struct {
	FS         vfs.FS
	Dir        string
	NewFileNum func() (base.FileNum, error)
	Rand       func() uint64 // salt; nil means math/rand/v2
	Keys       *seal.Store   // of the store; nil without encryption. The copy has the current key
	// Moved is told of each record that has a new place, in order, and the offset its
	// payload had in the file it is copied from. Payload is valid during the call.
	// May be nil.
	Moved func(from int64, to Entry) error
}

// Rewrite makes a recovered log fit to be written on, and returns the place
// where New continues it.
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
func Rewrite(o RewriteOptions, r Recovery) (Start, *FileInfo, error) {
	if r.Unpromised.Records == 0 {
		return r.cut, nil, nil
	}
	if r.Damages > 0 {
		return Start{}, nil, fmt.Errorf("rewrite log: it was read past damage: %w", base.ErrCorrupt)
	}
	if o.Rand == nil {
		o.Rand = randomSalt
	}
	old, err := openFrames(o.FS, o.Dir, r.cut.File, base.MaxRecord, access{keys: o.Keys})
	if err != nil {
		return Start{}, nil, fmt.Errorf("rewrite log: %w", err)
	}
	defer old.close()
	old.off, old.chain, old.last, old.limit = r.cut.Offset, r.cut.Chain, r.cut.NextLSN-1, r.End.Offset

	num, err := o.NewFileNum()
	if err != nil {
		return Start{}, nil, fmt.Errorf("rewrite log: number a file: %w", err)
	}
	temp := filepath.Join(o.Dir, num.String()+tempSuffix)
	f, err := o.FS.Create(temp)
	if err != nil {
		return Start{}, nil, fmt.Errorf("rewrite log: create log %s: %w", num, err)
	}
	w := &rewriter{f: f, buf: make([]byte, 0, min(r.End.Offset-r.cut.Offset+2*fileHeaderSize, maxBatchBytes+maxBatchBytes/4)), hdr: fileHeader{num: num, baseLSN: r.cut.NextLSN, salt: o.Rand(), prev: r.cut, flags: fileCopy}, moved: o.Moved}
	end, err := w.copy(old, r.End.NextLSN-1, o.Keys)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = o.FS.Rename(temp, filepath.Join(o.Dir, FileName(num)))
	}
	if err == nil {
		err = o.FS.SyncDir(o.Dir)
	}
	if err != nil {
		// Nothing refers to the file yet; if it cannot be removed it is swept
		// at the next open.
		_ = o.FS.Remove(temp)
		return Start{}, nil, fmt.Errorf("rewrite log into %s: %w", num, err)
	}
	return end, &FileInfo{Num: num, BaseLSN: r.cut.NextLSN, Salt: w.hdr.salt, Prev: r.cut, KeyID: w.fr.seal.KeyID()}, nil
}

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
func (w *rewriter) copy(old *frameReader, last base.LSN, keys *seal.Store) (Start, error) {
	head, chain, sf, err := createSeal(keys, &w.hdr)
	if err != nil {
		return Start{}, err
	}
	w.buf, w.off, w.chain, w.fr = append(w.buf, head...), w.hdr.size(), chain, framer{salt: w.hdr.salt, seal: sf}
	for next := w.hdr.baseLSN; next <= last; {
		fr, ok, err := old.next()
		if err != nil {
			return Start{}, err
		}
		if !ok {
			// Recover accepted it a moment ago.
			return Start{}, &base.CorruptionError{File: old.name, Kind: "log frame", Offset: old.off, Detail: "it changed since it was read"}
		}
		if fr.err != nil {
			return Start{}, fr.err
		}
		if fr.typ != frameRecord {
			continue
		}
		if err := w.record(fr); err != nil {
			return Start{}, err
		}
		next = fr.lsn + 1
	}
	end := Start{NextLSN: last + 1, File: w.hdr.num, Offset: w.off, Chain: w.chain}
	w.frame(frameHeader{typ: frameClose, lsn: last, syncedTo: w.off})
	if err := w.flush(); err != nil {
		return Start{}, err
	}
	// The mark promises what this sync makes true. Nobody reads it before: the
	// file still has its temporary name.
	if err := w.f.Sync(); err != nil {
		return Start{}, err
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
	if len(w.buf) < maxBatchBytes {
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
