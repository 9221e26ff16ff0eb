package wal

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/cespare/xxhash/v2"

	"github.com/stele-go/stele/base"
)

const (
	// displacedSteps bounds one search, in places tried; about 0.1 s.
	displacedSteps = 8 << 20
	// displacedFar is how far behind its own promise the place of a frame is looked
	// for, in places tried: 1 MiB, the size of a batch. In SyncAlways no frame lies
	// further away unless records were deferred.
	displacedFar = maxBatchBytes / frameAlign
)

// displaced looks behind at for a frame of this file that belongs to another place, and
// returns where it lies and where it belongs. The checksum of a frame covers its place,
// and no crash moves bytes. So such a frame proves that bytes before it were taken out
// or put in, even where neither a promise nor the mark can tell that from a torn tail.
//
// Only frames of records after last count. A payload may hold a copy of frames of its
// own log, but only of older ones.
//
// Time is linear in the size of the file, whatever it holds, and memory is that of a
// window.
func (r *frameReader) displaced(at int64, last base.LSN) (lies, belongs int64, found bool, err error) {
	steps := int64(displacedSteps)
	for off := at; off < r.limit && steps > 0; {
		b, err := r.bytes(off, min(windowSize, r.limit-off))
		if err != nil {
			return 0, 0, false, err
		}
		for i := 0; i+frameHeaderSize <= len(b) && steps > 0; i += frameAlign {
			lies := off + int64(i)
			h, ok := r.elsewhere(b[i:], lies, last)
			if !ok {
				continue
			}
			if belongs, ok, err = r.place(b[i:], &h, lies, &steps); err != nil || ok {
				return lies, belongs, ok, err
			}
		}
		if len(b) < frameHeaderSize || off+int64(len(b)) >= r.limit {
			break
		}
		off += int64(len(b)-frameHeaderSize)&^(frameAlign-1) + frameAlign
		if lastUsed(b) == 0 {
			if off, err = r.pastHole(off); err != nil {
				return 0, 0, false, err
			}
		}
	}
	return 0, 0, false, nil
}

// elsewhere reports whether the bytes at off can be the header of a frame that belongs to
// another place and comes after record last.
func (r *frameReader) elsewhere(b []byte, off int64, last base.LSN) (frameHeader, bool) {
	lsn := base.LSN(binary.LittleEndian.Uint64(b[16:]))
	if b[12] == 0 || lsn <= last || uint64(lsn-last) > uint64(r.limit)/frameHeaderSize+maxBatchRecords {
		return frameHeader{}, false
	}
	h, ok := frameFields(b)
	if !ok || !r.fits(&h, off) {
		return h, false
	}
	return h, headerCheck(frameSeed(r.hdr.salt, off), b) != h.check
}

// place looks for the place where the frame at off belongs, counting down steps.
func (r *frameReader) place(b []byte, h *frameHeader, off int64, steps *int64) (int64, bool, error) {
	var fields [frameHeaderSize]byte
	copy(fields[:], b)
	first := max(r.hdr.size(), h.syncedTo)
	for n := int64(0); n < displacedFar && *steps > 0; n++ {
		*steps--
		at := first + n*frameAlign
		if at == off || headerCheck(frameSeed(r.hdr.salt, at), fields[:]) != h.check {
			continue
		}
		*steps -= h.size() / 64 // the cost of reading it
		ok, err := r.verifyAs(h, off, at)
		if err != nil || ok {
			return at, ok, err
		}
	}
	return 0, false, nil
}

// verifyAs reports whether the bytes at off are the frame h of place at.
func (r *frameReader) verifyAs(h *frameHeader, off, at int64) (bool, error) {
	var d xxhash.Digest
	d.ResetWithSeed(frameSeed(r.hdr.salt, at))
	n, err := io.Copy(&d, io.NewSectionReader(r.f, off+8, h.size()-8))
	if err != nil {
		return false, fmt.Errorf("read log %s at offset %d: %w", r.hdr.num, off, err)
	}
	return n == h.size()-8 && d.Sum64() == h.sum, nil
}
