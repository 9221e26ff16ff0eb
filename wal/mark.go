package wal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"sync"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/vfs"
)

// MarkName is the name of the file of the durable mark within the store.
const MarkName = "DURABLE"

// MarkSlotSize is the size of a slot in the file of the mark, in bytes. The file has two
// slots, each in a sector of its own. They are written in turn, so that a torn write
// leaves the older mark.
const MarkSlotSize = 512

const (
	markMagic    = "SDUR"
	markVersion  = 1
	markSize     = 64
	markFileSize = 2 * MarkSlotSize
)

// Mark says how far a log was durable. The log writes it after each sync that made
// records durable, before their callers are told, and does not sync it. So it is exact
// after the death of the process, and a lower bound after a power loss. A log whose file was
// changed in place writes it once more, for all committed records. The zero Mark
// says nothing.
type Mark struct {
	Origin uint64       // Options.Origin of the log
	File   base.FileNum // the file that was synced
	Salt   uint64       // of that file
	End    int64        // bytes of the file below it were durable
	LSN    base.LSN     // records up to and including it were durable
}

// MarkSlot is one of the two slots of the file of the mark.
type MarkSlot struct {
	Mark
	Offset int64  // of the slot in the file
	Seq    uint64 // the slot with the higher one counts
	Valid  bool
	// Used reports whether the slot holds anything. One that is used and not valid was
	// torn by a power loss, or damaged. It says nothing, and nothing is lost with it.
	Used bool
}

// DecodeMark decodes the bytes of the file of the mark. They may be any bytes: a slot
// that is not valid says nothing. The only error is a *fault.VersionError, for a slot of
// a newer format.
func DecodeMark(b []byte) ([2]MarkSlot, error) {
	var slots [2]MarkSlot
	for i := range slots {
		s := &slots[i]
		s.Offset = int64(i) * MarkSlotSize
		rest := b[min(s.Offset, int64(len(b))):]
		rest = rest[:min(len(rest), MarkSlotSize)]
		s.Used = lastUsed(rest) > 0
		if err := s.decode(rest); err != nil {
			return slots, err
		}
	}
	return slots, nil
}

func (s *MarkSlot) decode(b []byte) error {
	if len(b) < markSize || string(b[:4]) != markMagic {
		return nil
	}
	sum := binary.LittleEndian.Uint64(b[56:])
	if base.Checksum(0, b[:56]) != sum {
		return nil
	}
	version, flags := binary.LittleEndian.Uint16(b[4:]), binary.LittleEndian.Uint16(b[6:])
	if version != markVersion || flags != 0 {
		return fmt.Errorf("durable mark with flag bits %#04x: %w", flags,
			&fault.VersionError{File: MarkName, Have: uint32(version), Supported: markVersion})
	}
	seq := binary.LittleEndian.Uint64(b[8:])
	if lastUsed(b) > markSize || int64(seq+1)%2 != s.Offset/MarkSlotSize {
		return nil // not as a slot is written, or not the slot it was written to
	}
	m := Mark{
		Origin: binary.LittleEndian.Uint64(b[16:]),
		File:   base.FileNum(binary.LittleEndian.Uint64(b[24:])),
		Salt:   binary.LittleEndian.Uint64(b[32:]),
		End:    int64(binary.LittleEndian.Uint64(b[40:])),
		LSN:    base.LSN(binary.LittleEndian.Uint64(b[48:])),
	}
	if seq == 0 || seq == 1<<64-1 || m.File == 0 || m.LSN == 0 || m.End < fileHeaderSize || m.End%frameAlign != 0 {
		return nil
	}
	s.Mark, s.Seq, s.Valid = m, seq, true
	return nil
}

// encode is the inverse of decode.
func (s *MarkSlot) encode() (b [markSize]byte) {
	copy(b[:], markMagic)
	binary.LittleEndian.PutUint16(b[4:], markVersion)
	binary.LittleEndian.PutUint64(b[8:], s.Seq)
	binary.LittleEndian.PutUint64(b[16:], s.Origin)
	binary.LittleEndian.PutUint64(b[24:], uint64(s.File))
	binary.LittleEndian.PutUint64(b[32:], s.Salt)
	binary.LittleEndian.PutUint64(b[40:], uint64(s.End))
	binary.LittleEndian.PutUint64(b[48:], uint64(s.LSN))
	binary.LittleEndian.PutUint64(b[56:], base.Checksum(0, b[:56]))
	return b
}

// InspectMark reads the file of the mark, to show it to people: its slots, and notes on traces of a
// power loss or damage. None of these loses a record, since a mark that is missing or old is still a
// lower bound. Errors are those of ReadMark.
func InspectMark(f vfs.File) (slots [2]MarkSlot, notes []fault.CorruptionError, err error) {
	size, err := f.Size()
	if err != nil {
		return slots, nil, fmt.Errorf("size of %s: %w", MarkName, err)
	}
	if slots, err = readSlots(f); err != nil {
		return slots, nil, err
	}
	note := func(off, n int64, detail string) {
		notes = append(notes, fault.CorruptionError{File: MarkName, Kind: "durable mark", Offset: off, Len: n, Detail: detail})
	}
	if size != markFileSize {
		note(size, 0, fmt.Sprintf("the file has %d bytes, not %d", size, markFileSize))
	}
	newest := newestSlot(slots)
	for i, s := range slots {
		switch {
		case s.Used && !s.Valid:
			note(s.Offset, MarkSlotSize, "a slot that does not count: torn by a loss of power, or damaged")
		case i != newest && newest >= 0 && slots[newest].Seq > 1 && slots[newest].Seq-1 != s.Seq:
			note(s.Offset, MarkSlotSize, "a slot that is missing or old: a loss of power took it, or it was damaged")
		}
	}
	return slots, notes, nil
}

// newestSlot returns the index of the newest valid slot; -1 if there is none.
func newestSlot(slots [2]MarkSlot) int {
	newest := -1
	for i, s := range slots {
		if s.Valid && (newest < 0 || s.Seq > slots[newest].Seq) {
			newest = i
		}
	}
	return newest
}

// ReadMark reads the mark of the log in dir, and returns the zero Mark if there is none.
// Where another process may be writing, call it before anything else of the store is
// listed or read; what is read first may be older than the mark.
//
// Errors are a *fault.VersionError for a mark of a newer format, and those of the
// device. A damaged mark is no error: it says nothing.
func ReadMark(fsys vfs.FS, dir string) (Mark, error) {
	f, err := fsys.Open(filepath.Join(dir, MarkName))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fault.ErrCorrupt) {
		return Mark{}, nil
	}
	if err != nil {
		return Mark{}, fmt.Errorf("open %s: %w", MarkName, err)
	}
	defer func() { _ = f.Close() }() // only read from
	slots, err := readSlots(f)
	if err != nil {
		return Mark{}, err
	}
	if i := newestSlot(slots); i >= 0 {
		return slots[i].Mark, nil
	}
	return Mark{}, nil
}

func readSlots(f vfs.File) ([2]MarkSlot, error) {
	var b [markFileSize]byte
	n, err := f.ReadAt(b[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return [2]MarkSlot{}, fmt.Errorf("read %s: %w", MarkName, err)
	}
	return DecodeMark(b[:n])
}

// markWriter writes the mark of a log. After a failure it writes no more, and nothing
// else happens: the mark that is left is an older lower bound.
type markWriter struct {
	fs     vfs.FS
	dir    string
	origin uint64

	mu struct {
		sync.Mutex
		f    vfs.File // nil before the first mark, and after the end
		over bool
		next int      // slot to write
		seq  uint64   // of the newest slot
		lsn  base.LSN // of the newest mark of this life
		buf  [markSize]byte
	}
}

// write writes that f is durable up to end, and records up to lsn. It returns the error
// that ends the marks, once.
func (m *markWriter) write(f *logFile, end int64, lsn base.LSN) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mu.over || lsn <= m.mu.lsn {
		return nil
	}
	if m.mu.f == nil {
		if err := m.openLocked(); err != nil {
			m.endLocked()
			return err
		}
	}
	s := MarkSlot{Mark: Mark{Origin: m.origin, File: f.info.Num, Salt: f.salt, End: end, LSN: lsn}, Seq: m.mu.seq + 1}
	m.mu.buf = s.encode()
	if _, err := m.mu.f.WriteAt(m.mu.buf[:], int64(m.mu.next)*MarkSlotSize); err != nil {
		m.endLocked()
		return fmt.Errorf("write %s: %w", MarkName, err)
	}
	m.mu.lsn, m.mu.seq, m.mu.next = lsn, s.Seq, 1-m.mu.next
	return nil
}

// openLocked opens the file, or makes it in its full size, so that writing a slot never
// needs space. Neither the file nor its name is synced: a mark that a crash takes away
// is not missed.
func (m *markWriter) openLocked() error {
	name := filepath.Join(m.dir, MarkName)
	f, err := m.fs.OpenReadWrite(name)
	made := errors.Is(err, fs.ErrNotExist)
	if made {
		f, err = m.fs.Create(name)
	}
	if err != nil {
		return fmt.Errorf("open %s: %w", MarkName, err)
	}
	m.mu.f = f
	if !made {
		slots, err := readSlots(f)
		if err != nil {
			return err
		}
		if i := newestSlot(slots); i >= 0 && slots[i].Origin == m.origin {
			m.mu.next, m.mu.seq = 1-i, slots[i].Seq
			return nil
		}
	}
	if _, err := f.WriteAt(make([]byte, markFileSize), 0); err != nil {
		return fmt.Errorf("write %s: %w", MarkName, err)
	}
	return f.Truncate(markFileSize)
}

func (m *markWriter) endLocked() {
	m.mu.over = true
	if m.mu.f != nil {
		_ = m.mu.f.Close() // any valid mark in it is a lower bound
		m.mu.f = nil
	}
}

// close ends the marks. Nobody may be syncing any more.
func (m *markWriter) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.endLocked()
}
