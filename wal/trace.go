package wal

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/vfs"
)

// traceSize is how many bytes a trace has at most.
const traceSize = 64

// anchorBatches is how many batches are written between two checks of an anchor.
const anchorBatches = 16

// trace is the end of what was written to a file, up to the last byte that is not zero.
//
// A file that somebody changes in place, while the log writes to it, keeps its name. If it was
// cut, it is shorter than it was, which checkReachable sees; but a write behind its end makes
// it long again, and leaves a hole. So the trace is read back after each write that makes
// the file longer, or may have: if the file was cut before it, the trace is gone. All other
// writes lie below the size, so most commits read nothing.
//
// An older copy of the file, written over it, may have the same size. So the trace is also read
// wherever that is cheap: when the log becomes idle, by the first write after that, before the log
// goes on in another file, and by Sync. A log that is never idle keeps another trace, the
// anchor, for anchorBatches batches, and reads it back then.
type trace struct {
	off int64
	n   int
	b   [traceSize]byte
}

// note remembers the end of b, which was written at off.
func (t *trace) note(b []byte, off int64) {
	n := lastUsed(b)
	if n == 0 {
		return // zeros that are cut off, and are zeros again, make no difference
	}
	from := max(0, n-traceSize)
	t.off, t.n = off+int64(from), copy(t.b[:], b[from:n])
}

// checkTrace returns an error if the last bytes written are not in f. The caller holds wmu.
func (f *logFile) checkTrace() error { return f.readBack(&f.trace) }

// checkAnchor is checkTrace for the anchor, once in anchorBatches calls. The next one is last.
func (f *logFile) checkAnchor(last trace) error {
	if f.batches++; f.batches%anchorBatches != 0 {
		return nil
	}
	err := f.readBack(&f.anchor)
	f.anchor = last
	return err
}

func (f *logFile) readBack(t *trace) error {
	b := f.back[:t.n]
	n, err := vfs.ReadAgain(f.f, b, t.off)
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read back: %w", err)
	}
	if bytes.Equal(b[:n], t.b[:t.n]) {
		return nil
	}
	return &fault.CorruptionError{
		File: base.LogFile.Name(f.info.Num), Kind: "log", Offset: t.off, Len: int64(t.n),
		Detail: "what was written there is gone: the file was changed in place while the log was open",
	}
}

// checkSize returns an error if f is shorter than the bytes written to it. The caller holds wmu, so
// that no write makes it longer, and no undo shorter, meanwhile.
func (f *logFile) checkSize() error {
	var size int64
	err := vfs.Again(func() (err error) {
		size, err = f.f.Size()
		return err
	})
	if want := f.size.Load(); err == nil && size < want {
		err = &fault.CorruptionError{
			File: base.LogFile.Name(f.info.Num), Kind: "log", Offset: size, Len: want - size,
			Detail: fmt.Sprintf("the file had %d bytes: it was cut in place while the log was open", want),
		}
	}
	return err
}

// markLost writes the durable mark for all committed records, synced or not, because a file of
// the log was changed in place. In the relaxed modes nothing else would tell the next Open that
// there were records behind the place where the file was cut.
func (l *Log) markLost() {
	f, pos := l.hold()
	if f == nil {
		return
	}
	defer f.busy.Done()
	end := f.start
	if pos.File == f.info.Num {
		end = pos.Offset
	}
	if pos.NextLSN > 1 {
		l.noteDurable(f, end, pos.NextLSN-1)
	}
}
