package engine

import (
	"fmt"
	"slices"
	"sync"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/snapshot"
	"github.com/stele-go/stele/wal"
)

// logEnd is the work that can be done as soon as the end of the log is known, while the last records
// are still replayed.
type logEnd struct {
	e       *Engine
	st      snapshot.State
	left    []string       // leftovers, to be swept
	tried   bool           // a copy was begun beside the replay, and may have taken room
	copying sync.WaitGroup // the copy is being made; guards the next two
	copy    *wal.EndCopy   // of what no promise covers; nil if it is still to be made
	moves   recordMoves    // what it moves

	relocated sync.WaitGroup
}

// found is called when the end of the log is known, perhaps by a goroutine that reads the log ahead.
func (l *logEnd) found(rec wal.Recovery) error {
	var err error
	if l.left, err = l.e.leftovers(l.st, rec); err != nil || l.e.manifest != nil {
		return err
	}
	// The number is reserved before the copy has a name with it. The temporary name has the number of
	// an older file, so that it is a leftover if it stays.
	num := l.e.nextNumber()
	if rec.Unpromised.Records > 0 {
		l.e.takeNumber()
		l.tried = true
	}
	copyEnd := func() {
		err := l.copyEnd(rec, rec.End.File, func() (base.FileNum, error) { return num, nil })
		if err != nil { // there may be room for it after the sweep
			l.e.Opts.Logger.Debug("copy the end of the log", "error", err)
		}
	}
	if l.e.Opts.Inline {
		copyEnd()
	} else {
		l.copying.Go(copyEnd) // and the manifest meanwhile
	}
	return nil
}

// copied waits for the copy and takes it off the list of leftovers.
func (l *logEnd) copied() {
	l.copying.Wait()
	if l.copy != nil {
		l.left = slices.DeleteFunc(l.left, func(name string) bool { return name == l.copy.TempName() })
	}
}

// copyEnd copies the records that may not be durable to a file that is not yet part of the log: after a
// crash the page cache may show bytes that the disk does not have. temp is the number in its temporary
// name; 0 means its own.
func (l *logEnd) copyEnd(rec wal.Recovery, temp base.FileNum, number func() (base.FileNum, error)) error {
	n := rec.Unpromised.Records
	l.moves = recordMoves{from: make([]int64, 0, n), to: make([]int64, 0, n)}
	var err error
	l.copy, err = wal.CopyEnd(wal.CopyOptions{FS: l.e.Opts.FS, Dir: l.e.Dir, NewFileNum: number, TempNum: temp, Rand: l.e.Opts.Rand,
		Keys: l.e.Files.Keys, Moved: l.moves.add}, rec)
	return err
}

// relocate tells the families where the copied records lie now, while files are synced. All records are
// replayed by then, and the copy is complete.
func (l *logEnd) relocate(rec wal.Recovery) {
	if l.copy != nil {
		l.relocated.Go(func() { l.e.relocate(rec.End.File, &l.moves) })
	}
}

// discard removes a copy that did not become part of the log. It reports whether a copy was tried since
// the last call: then there may be more room now.
func (l *logEnd) discard() bool {
	l.copying.Wait()
	l.relocated.Wait()
	if l.copy != nil && l.copy.TempName() != "" {
		l.copy.Discard()
		l.copy = nil
	}
	tried := l.tried
	l.tried = false
	return tried
}

// recordMoves has the old and new places of the payloads of copied records, from record first on. All
// lay in one file, and all lie in one new file.
type recordMoves struct {
	first  base.LSN
	from   []int64
	to     []int64
	file   base.FileNum // the new one
	sealed bool         // the new one is encrypted
}

// add notes the next record; they come without a gap.
func (m *recordMoves) add(from int64, to wal.Entry) error {
	if len(m.from) == 0 {
		m.first, m.file, m.sealed = to.LSN, to.File, to.Sealed
	}
	if to.LSN != m.first+base.LSN(len(m.from)) || to.File != m.file {
		return fmt.Errorf("record %d of file %s moved behind record %d: %w", to.LSN, to.File, m.first+base.LSN(len(m.from))-1, errMoved)
	}
	m.from, m.to = append(m.from, from), append(m.to, to.Offset)
	return nil
}

// place returns the new place of the bytes of r, which were at l; false if the record was not copied.
// In an encrypted file a place is that of the record and an offset within it.
func (m *recordMoves) place(r index.Ref, l index.Loc) (index.Loc, bool) {
	if r.LSN < m.first || r.LSN-m.first >= base.LSN(len(m.from)) {
		return l, false
	}
	i := r.LSN - m.first
	within := int64(l.Inner)
	if within == 0 {
		within = int64(l.Off) - m.from[i]
	}
	l.File = m.file
	l.Off, l.Inner = sealedPlace(m.sealed, m.to[i], within)
	return l, true
}

// relocate tells the families in memory, which are those that the replay touched, where the values of
// the copied records lie now.
func (e *Engine) relocate(old base.FileNum, moves *recordMoves) {
	if len(moves.from) == 0 {
		return
	}
	for _, fam := range e.Index.Held() {
		fam.Relocate(func(r index.Ref, l index.Loc) (index.Loc, bool) {
			if l.File != old {
				return l, false
			}
			return moves.place(r, l)
		})
	}
}
