package engine

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/segment"
)

// ErrNoValue is returned for a value that was deleted or pruned since its ref was
// read.
var ErrNoValue = errors.New("value is no longer stored")

// Partition returns a partition as it is now, loaded, or nil.
func (s *Store) Partition(id string) (*index.Partition, error) {
	if err := s.EnterToRead(); err != nil {
		return nil, err
	}
	defer s.Leave()
	return s.loadPartition(id)
}

// ReadValue returns the bytes of a value, checked, in a fresh slice. ErrNoValue
// means that it was deleted or pruned; damage is a CorruptionError.
func (s *Store) ReadValue(ctx context.Context, fam *index.Family, ref index.Ref) ([]byte, error) {
	return s.readFor(ctx, fam, ref, true)
}

// ReadShared is ReadValue without a copy where the bytes are in memory: others may
// hold them, so they must not be changed.
func (s *Store) ReadShared(ctx context.Context, fam *index.Family, ref index.Ref) ([]byte, error) {
	return s.readFor(ctx, fam, ref, false)
}

// readFor is ReadValue, or ReadShared if the bytes are not to be the caller's own.
func (s *Store) readFor(ctx context.Context, fam *index.Family, ref index.Ref, own bool) ([]byte, error) {
	if err := s.Enter(); err != nil {
		return nil, err
	}
	defer s.Leave()
	return s.read(ctx, nil, fam, ref, own)
}

// read does the work of ReadValue, for a call that keeps blocks in r; r may be nil.
// Unless they are to be the caller's own the bytes may be shared.
func (s *Store) read(ctx context.Context, r *Reader, fam *index.Family, ref index.Ref, own bool) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var buf [4]index.ValueLoc
	for range moveRetries {
		chain, missing, ok := fam.Chain(ref, buf[:0])
		if !ok && missing == ref && len(chain) == 0 {
			return nil, fmt.Errorf("value %d.%d: %w", ref.LSN, ref.Ord, ErrNoValue)
		}
		var b []byte
		var err error
		switch {
		case !ok:
			err = s.endlessChain(chain, missing)
		case len(chain) == 1:
			b, err = s.readAt(r, chain[0].Loc, own)
		default:
			b, err = s.readChain(r, fam, chain)
		}
		if !errors.Is(err, errFileGone) {
			s.noteDamage(err)
			return b, err
		}
	}
	return nil, fmt.Errorf("value %d.%d: %w", ref.LSN, ref.Ord, ErrNoValue)
}

// moveRetries is how often a read looks up the place of a value again because the value moved before it
// was read. More than once is already unlikely.
const moveRetries = 4

// readAt reads the bytes at loc, into a fresh slice if they are to be the caller's own.
func (s *Store) readAt(r *Reader, loc index.Loc, own bool) ([]byte, error) {
	h, err := s.Files.Acquire(loc.File)
	if err != nil {
		return nil, err
	}
	defer s.Files.Release(h)
	if loc.InLog() {
		return readLogValue(h, loc)
	}
	v, shared, err := s.readInBlock(r, h, loc)
	if err != nil || !own || !shared {
		return v, err
	}
	return append([]byte{}, v...), nil // which does not clear what it fills
}

// readInBlock reads and checks the value at loc of a segment. shared reports whether others may hold
// its bytes, or its memory is a larger block.
func (s *Store) readInBlock(r *Reader, h *FileHandle, loc index.Loc) (v []byte, shared bool, err error) {
	if v, ok := r.kept(loc); ok && valueSum(v) == loc.Sum {
		return v, true, nil
	}
	block, shared, err := s.readBlock(r, h, loc)
	if err != nil {
		return nil, false, err
	}
	if v, err = h.Segment.Value(segmentLoc(loc), block); err != nil {
		return nil, false, err
	}
	alone := len(v) == len(block) && int64(len(v)) > s.cache.largest() // not kept there
	return v, shared || !alone, nil
}

// keptInLog returns a value of the log if the call or the store keeps it. r may be nil.
func (s *Store) keptInLog(r *Reader, loc index.Loc) ([]byte, bool) {
	if b, ok := r.kept(loc); ok || r.readsOnce() {
		return b, ok
	}
	return s.cache.get(keyOf(loc))
}

// keepOfLog keeps a value of the log for this call and later ones. An empty value is not kept: it
// begins where the next value does, so the two would have one key.
func (s *Store) keepOfLog(r *Reader, loc index.Loc, b []byte) {
	if len(b) == 0 {
		return
	}
	if !r.readsOnce() {
		s.cache.add(keyOf(loc), b)
	}
	r.keep(loc, b)
}

// readBlock returns the block of a segment that loc lies in, and whether others may
// hold it too. The call keeps it in r, which may be nil.
func (s *Store) readBlock(r *Reader, h *FileHandle, loc index.Loc) (block []byte, shared bool, err error) {
	if h.Segment == nil {
		return nil, false, &fault.CorruptionError{File: h.Kind.Name(h.Num), Kind: "value reference", Offset: int64(loc.Off),
			Detail: "names a file that is no segment"}
	}
	key := keyOf(loc)
	if block, shared = s.cache.get(key); shared {
		return block, true, nil
	}
	block, shared, err = s.cache.flights.read(key, func() ([]byte, error) {
		block, err := h.Segment.ReadBlock(segmentLoc(loc))
		if err == nil {
			s.cache.add(key, block)
		}
		return block, err
	})
	if err == nil && r.keep(loc, block) {
		shared = true
	}
	return block, shared, err
}

func segmentLoc(loc index.Loc) segment.Loc {
	return segment.Loc{Off: loc.Off, Stored: loc.Stored, Inner: loc.Inner, Len: loc.Len, Sum: loc.Sum}
}

func readLogValue(h *FileHandle, loc index.Loc) ([]byte, error) {
	if loc.Inner != 0 {
		return readSealedValue(h, loc)
	}
	b := make([]byte, loc.Len)
	if n, err := h.file.ReadAt(b, int64(loc.Off)); err != nil && !(errors.Is(err, io.EOF) && n == len(b)) {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, logDamage(h, loc, fmt.Sprintf("file ends after %d bytes of the value", n))
		}
		return nil, fmt.Errorf("read %s at %d: %w", h.Kind.Name(h.Num), loc.Off, err)
	}
	if got := valueSum(b); got != loc.Sum {
		return nil, logDamage(h, loc, fmt.Sprintf("checksum is %016x, expected %016x", got, loc.Sum))
	}
	return b, nil
}

// readSealedValue reads a value of an encrypted log file.
func readSealedValue(h *FileHandle, loc index.Loc) ([]byte, error) {
	if h.log == nil || h.log.KeyID() == "" {
		return nil, logDamage(h, loc, "the reference is into an encrypted file, and this one is not")
	}
	b, err := h.log.ReadAt(int64(loc.Off), int64(loc.Inner), int64(loc.Len))
	if err != nil {
		return nil, err
	}
	if got := valueSum(b); got != loc.Sum {
		return nil, logDamage(h, loc, fmt.Sprintf("checksum is %016x, expected %016x", got, loc.Sum))
	}
	return b, nil
}

func logDamage(h *FileHandle, loc index.Loc, detail string) error {
	return &fault.CorruptionError{File: h.Kind.Name(h.Num), Kind: "value", Offset: int64(loc.Off), Len: int64(loc.Len), Detail: detail}
}

// valueSum is the checksum a value is known by, in log and segment alike.
func valueSum(parts ...[]byte) uint64 { return base.ChecksumParts(0, parts...) }
