package wal

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
)

// Recover reads the log and calls visit for each record from FromLSN on, in LSN order.
// It never writes, and holds one record in memory at a time.
//
// An invalid frame at offset X of a file is judged by these rules:
//
//   - In any file but the newest it is damage, because a file is synced to its end
//     before the next one gets its first frame.
//   - In the newest file it is damage if a valid frame behind X, or the durable mark,
//     promises bytes above X: those bytes were durable.
//   - In the newest file it is also damage if a frame behind X is valid for another
//     place: no crash moves bytes.
//   - Otherwise it is a torn tail, and the log ends at X.
//
// A log that ends before the last record of the durable mark is damaged, however it
// ends.
//
// Damage is a *fault.CorruptionError that names file and offset. Records before it have
// been visited by then. A file of a newer format is a *fault.VersionError. An error of
// visit ends Recover and is returned as it is.
//
// To continue the log, pass the result to CopyEnd.
func Recover(o RecoverOptions, visit func(Entry) error) (Recovery, error) {
	if o.AllowDamage && !o.ReadOnly {
		return Recovery{}, errors.New("recover log: AllowDamage needs ReadOnly")
	}
	orDefault(&o.MaxRecord, base.MaxRecord)
	o.MaxRecord = min(o.MaxRecord, base.MaxRecord)
	rv := &recoverer{o: o, visit: visit}
	if o.Origin == 0 || o.Mark.Origin == o.Origin {
		rv.mark = o.Mark
	}
	if err := rv.findFiles(); err != nil {
		return rv.res, err
	}
	err := rv.run()
	if err == nil && o.Ended != nil {
		err = o.Ended(rv.res)
	}
	return rv.res, err
}

// recoverer is the state of one Recover.
type recoverer struct {
	o     RecoverOptions
	visit func(Entry) error
	res   Recovery
	files []logHeader

	mark    Mark     // of this log; zero if there is none
	last    base.LSN // of the last accepted record
	known   bool     // last is known: a first file has been entered
	payload int64    // bytes of all accepted records
	bounds  boundaries
}

// logHeader is a file of the log with its header, or the reason why it has none.
type logHeader struct {
	num   base.FileNum
	hdr   fileHeader
	keyID string // it is encrypted with; "" if it is not
	err   error  // damage, with AllowDamage only
}

// run reads the files in order.
func (rv *recoverer) run() error {
	first, err := rv.firstFile()
	if err != nil {
		return err
	}
	for i := first; i < len(rv.files); i++ {
		if err := rv.file(i); err != nil {
			return err
		}
	}
	if len(rv.files) == 0 {
		rv.last = max(rv.o.From.NextLSN, rv.o.FromLSN, 1) - 1
		rv.res.Clean = true
		rv.res.End = Position{NextLSN: rv.last + 1}
		rv.res.cut = rv.res.End
	}
	rv.res.LastLSN = rv.last
	return rv.checkDurable()
}

// checkDurable checks that the log has all records that are known to have been durable.
func (rv *recoverer) checkDurable() error {
	durable, says := rv.o.DurableLSN, ""
	if rv.mark.LSN > durable {
		durable, says = rv.mark.LSN, ", says "+MarkName
	}
	if rv.last >= durable {
		return nil
	}
	end := rv.res.End.File
	switch n := len(rv.files); {
	case end == 0 && n > 0:
		end = rv.files[n-1].num // no file could be read
	case end == 0:
		end = max(rv.mark.File, rv.o.From.File)
	}
	return rv.damage(&fault.CorruptionError{
		File: base.LogFile.Name(end), Kind: "log", Offset: rv.res.End.Offset,
		Detail: fmt.Sprintf("it ends with record %d, but records up to %d were durable%s", rv.last, durable, says),
	})
}

// damage returns c, or notes it and returns nil if damage is allowed.
func (rv *recoverer) damage(c *fault.CorruptionError) error {
	if !rv.o.AllowDamage {
		return c
	}
	rv.res.addDamage(c)
	return nil
}

// firstFile chooses the file to start with, and checks that the log goes back far enough.
func (rv *recoverer) firstFile() (int, error) {
	if len(rv.files) == 0 {
		return 0, nil
	}
	from := rv.o.FromLSN
	if at := rv.o.From; at.File != 0 {
		from = max(from, at.NextLSN)
		for i, f := range rv.files {
			if f.num == at.File && f.err == nil {
				return i, nil
			}
		}
	}
	first := -1
	for i, f := range rv.files {
		if f.err == nil && (first < 0 || f.hdr.baseLSN <= from) {
			first = i
		}
	}
	if first < 0 {
		return 0, nil // all damaged, and noted as such
	}
	if f := rv.files[first]; from > 0 && f.hdr.baseLSN > from {
		return first, rv.damage(&fault.CorruptionError{
			File: base.LogFile.Name(f.hdr.prev.File), Kind: "log", Offset: -1,
			Detail: fmt.Sprintf("the log begins with record %d of %s, records from %d on are missing", f.hdr.baseLSN, base.LogFile.Name(f.num), from),
		})
	}
	// Damaged files behind the first good one are met as they are read.
	return first, nil
}

// file reads file i.
func (rv *recoverer) file(i int) error {
	lf := rv.files[i]
	if lf.err != nil {
		return nil // noted when the header was read
	}
	r, err := openFrames(rv.o.FS, rv.o.Dir, lf.num, rv.o.MaxRecord, rv.access())
	if err != nil {
		return rv.openError(lf.num, err)
	}
	defer r.close()
	if err := rv.enter(r); err != nil {
		return err
	}
	var next *fileHeader
	if i+1 < len(rv.files) {
		if rv.files[i+1].err == nil {
			next = &rv.files[i+1].hdr
		}
		return rv.finished(r, next)
	}
	return rv.newest(r)
}

// openError makes damage of the error for a file that is missing, or that is no log file.
// An I/O error is not damage: it says nothing about the bytes.
func (rv *recoverer) openError(num base.FileNum, err error) error {
	var c *fault.CorruptionError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return rv.damage(&fault.CorruptionError{
			File: base.LogFile.Name(num), Kind: "log", Offset: -1, Detail: "the file is missing", Err: err,
		})
	case errors.As(err, &c):
		return rv.damage(c)
	}
	return err
}

// enter begins to read a file. It checks that the file follows the one before, and goes
// to the place to start from.
func (rv *recoverer) enter(r *frameReader) error {
	if rv.known && r.hdr.baseLSN != rv.last+1 {
		err := rv.damage(&fault.CorruptionError{
			File: r.name, Kind: "log file header", Len: fileHeaderSize,
			Detail: fmt.Sprintf("it begins with record %d, the file before it ends with %d", r.hdr.baseLSN, rv.last),
		})
		if err != nil {
			return err
		}
	}
	at := rv.o.From
	if at.File == r.hdr.num && at.Offset > r.hdr.size() && !rv.known {
		if at.Offset%frameAlign != 0 || at.NextLSN < r.hdr.baseLSN || at.Offset > r.limit {
			return rv.damage(&fault.CorruptionError{
				File: r.name, Kind: "log", Offset: at.Offset,
				Detail: fmt.Sprintf("records up to %d were durable here, the file ends at %d", at.NextLSN-1, r.limit),
			})
		}
		r.off, r.chain, r.last = at.Offset, at.Chain, at.NextLSN-1
	}
	rv.last, rv.known = r.last, true
	return nil
}

// accept checks the order of a valid frame and passes its record to visit.
func (rv *recoverer) accept(r *frameReader, fr frame) error {
	want := rv.last
	if fr.typ == frameRecord {
		want++
	}
	if fr.lsn != want {
		err := rv.damage(&fault.CorruptionError{
			File: r.name, Kind: "log frame", Offset: fr.off, Len: fr.size(),
			Detail: fmt.Sprintf("%s with LSN %d where %d was due", fr.typ, fr.lsn, want),
		})
		if err != nil || fr.lsn < want {
			return err
		}
	}
	if fr.err != nil {
		// Its checksum is right, so no crash made it: somebody put the bytes there.
		if err := rv.refuse(fr); err != nil || fr.typ != frameRecord {
			return err
		}
		rv.last, r.last = fr.lsn, fr.lsn
		return nil
	}
	if fr.typ != frameRecord {
		return nil
	}
	rv.last, r.last = fr.lsn, fr.lsn
	rv.payload += int64(len(fr.payload))
	if fr.lsn < rv.o.FromLSN {
		return nil
	}
	rv.res.Records++
	rv.res.Bytes += int64(len(fr.payload))
	if rv.visit == nil {
		return nil
	}
	return rv.visit(Entry{LSN: fr.lsn, File: r.hdr.num, Offset: fr.off + frameHeaderSize, Sealed: r.hdr.sealed(), Payload: fr.payload})
}

// refuse reports a frame whose payload does not authenticate.
func (rv *recoverer) refuse(fr frame) error {
	var c *fault.CorruptionError
	if errors.As(fr.err, &c) {
		return rv.damage(c)
	}
	return fr.err
}

// finished reads a file that another one follows. The header of that one has the end and
// the chain value. All bytes before the end were synced, and none behind it count.
func (rv *recoverer) finished(r *frameReader, next *fileHeader) error {
	short := func(detail string) error {
		return rv.damage(&fault.CorruptionError{File: r.name, Kind: "log", Offset: r.limit, Detail: detail})
	}
	if next != nil {
		if next.prev.Offset > r.limit {
			err := short(fmt.Sprintf("the file was shortened: %s says it ends at %d", base.LogFile.Name(next.num), next.prev.Offset))
			if err != nil {
				return err
			}
		}
		r.limit = min(r.limit, next.prev.Offset)
	}
	if next != nil && r.off > next.prev.Offset {
		return nil // From lies behind the cut; the next file has those records
	}
	whole := true
	for r.off < r.limit {
		fr, ok, err := r.next()
		if err != nil {
			return err
		}
		if ok {
			if err := rv.accept(r, fr); err != nil {
				return err
			}
			continue
		}
		whole = false
		if ok, err := rv.resync(r, "not a valid frame, in a file that was synced to its end"); err != nil || !ok {
			return err
		}
	}
	if next != nil && whole && r.chain != next.prev.Chain {
		return rv.damage(&fault.CorruptionError{
			File: r.name, Kind: "log", Offset: -1,
			Detail: "its chain value is not the one in " + base.LogFile.Name(next.num) + ": the file was replaced by another",
		})
	}
	return nil
}

// resync reports damage at r.off. Where damage is allowed, it moves r to the next valid
// frame, and reports false if there is none.
func (rv *recoverer) resync(r *frameReader, detail string) (bool, error) {
	at, _, found, err := r.find(r.off+frameAlign, func(h *frameHeader, off int64) bool {
		return plausibleLSN(h, r.last, off-r.off)
	})
	if err != nil {
		return false, err
	}
	if !found {
		at = r.limit
	}
	err = rv.damage(&fault.CorruptionError{
		File: r.name, Kind: "log frame", Offset: r.off, Len: at - r.off, Detail: detail,
	})
	r.off = at
	return found && err == nil, err
}

// plausibleLSN reports whether a frame can lie gap bytes behind the end of record last.
// It must not be older, nor more records later than fit into the gap.
func plausibleLSN(h *frameHeader, last base.LSN, gap int64) bool {
	if h.typ == frameRecord && h.lsn <= last || h.lsn < last {
		return false
	}
	return uint64(h.lsn-last) <= uint64(gap)/frameHeaderSize+1
}

// newest reads the file in which the log ends.
func (rv *recoverer) newest(r *frameReader) error {
	res := &rv.res
	res.Promise = r.off // the header, or a place the caller knows to be durable
	rv.bounds.add(boundary{off: r.off, chain: r.chain, nextLSN: rv.last + 1, payload: rv.payload})
	for !res.Clean {
		fr, ok, err := r.next()
		if err != nil {
			return err
		}
		if !ok {
			more, err := rv.tail(r)
			if err != nil {
				return err
			}
			if !more {
				break
			}
			continue
		}
		if err := rv.accept(r, fr); err != nil {
			return err
		}
		if fr.syncedTo > res.Promise {
			res.Promise = fr.syncedTo
			rv.bounds.dropBelow(fr.syncedTo)
		}
		if fr.typ == frameRecord {
			rv.bounds.add(boundary{off: r.off, chain: r.chain, nextLSN: rv.last + 1, payload: rv.payload})
		}
		res.Clean = fr.typ == frameClose
	}
	res.End = Position{NextLSN: rv.last + 1, File: r.hdr.num, Offset: r.off, Chain: r.chain}
	c := rv.bounds.cut()
	res.cut = Position{NextLSN: c.nextLSN, File: r.hdr.num, Offset: c.off, Chain: c.chain}
	if n := int64(rv.last+1) - int64(c.nextLSN); n > 0 {
		res.Unpromised = Unpromised{Records: n, FirstLSN: c.nextLSN, Bytes: rv.payload - c.payload}
	}
	return nil
}

// tail judges an invalid frame at r.off of the newest file, by the rules of Recover. It reports whether
// reading continues.
func (rv *recoverer) tail(r *frameReader) (bool, error) {
	at := r.off
	witness := func(h *frameHeader, off int64) bool {
		return h.syncedTo > at && plausibleLSN(h, r.last, off-at)
	}
	w, used, found, err := r.find(at, witness)
	if err != nil {
		return false, err
	}
	detail := fmt.Sprintf("not a valid frame, but the one at offset %d promises that it was durable", w)
	if !found {
		if detail, err = rv.otherEvidence(r, used); err != nil {
			return false, err
		}
	}
	if detail == "" {
		if used > at && (!rv.o.ReadOnly || rv.o.AllowDamage) {
			rv.res.Torn = Torn{File: r.hdr.num, Offset: at, Bytes: used - at}
		}
		return false, nil
	}
	// A writer in another process may have completed the frame since it was read. It
	// did so before it wrote the evidence, so reading again settles it.
	r.forget()
	if _, ok, err := r.peek(); err != nil || ok {
		return ok, err
	}
	return rv.resync(r, detail)
}

// otherEvidence looks for signs besides promises that the bytes at r.off are no torn
// tail: the durable mark, and frames that are valid for another place. used is the end
// of the last byte that is not zero. It returns what it found, "" if nothing.
func (rv *recoverer) otherEvidence(r *frameReader, used int64) (string, error) {
	if m := rv.mark; m.File == r.hdr.num && r.off < m.End && rv.last < m.LSN {
		return fmt.Sprintf("not a valid frame, but %s says that the file was durable up to %d", MarkName, m.End), nil
	}
	if used <= r.off {
		return "", nil
	}
	lies, belongs, found, err := r.displaced(r.off, rv.last)
	if err != nil || !found {
		return "", err
	}
	return fmt.Sprintf("not a valid frame, and at offset %d lies the one of offset %d: bytes were taken out or put in", lies, belongs), nil
}
