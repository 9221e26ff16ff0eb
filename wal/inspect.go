package wal

import (
	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/seal"
	"github.com/stele-go/stele/base/vfs"
)

// HeaderInfo is the decoded header of a log file.
type HeaderInfo struct {
	File          base.FileNum
	FormatVersion uint16
	BaseLSN       base.LSN // of the first record of the file
	Salt          uint64
	Prev          Position // where the file before ends
	Copy          bool     // CopyEnd made it
	Encrypted     bool
}

// Piece is a part of a log file: a valid frame, or the bytes between two.
type Piece struct {
	Offset int64
	Size   int64 // padding included
	// Type is "record", "close mark" or "sync mark"; "" for bytes that are no
	// valid frame.
	Type     string
	LSN      base.LSN
	SyncedTo int64 // the promise: bytes of the file below it were durable
	Payload  []byte
	// Sealed: Payload is encrypted, because Inspect was given no keys.
	Sealed bool
	// Err says that the payload of a valid frame does not authenticate.
	Err error
	// PayloadAt is where the payload begins in the file.
	PayloadAt int64
	// Used is the length of bytes that are no frame without their trailing zeros; 0 is
	// space written ahead.
	Used int64
}

// Valid reports whether the piece is a frame.
func (p *Piece) Valid() bool { return p.Type != "" }

// InspectOption changes what Inspect does.
type InspectOption func(*access)

// WithKeys decrypts the payloads of an encrypted file. Without it only checksums are
// verified. If the keys are wrong, Inspect fails with a *fault.KeyError.
func WithKeys(keys *seal.Keyring) InspectOption {
	return func(a *access) { a.keys, a.blind = keys, keys == nil }
}

// Inspect reads one log file from header to end, whatever it is called, and calls visit for every piece
// in order. It does not tell whether an invalid piece is a torn tail or damage: Recover does, with the
// other files and the manifest. The payload of a piece is valid during the call.
//
// A damaged header is a *fault.CorruptionError, a header of a newer format a *fault.VersionError, and
// no piece is visited then. An error of visit ends Inspect and is returned as it is. Memory is that of
// one frame.
func Inspect(f vfs.File, name string, visit func(Piece) error, opts ...InspectOption) (HeaderInfo, error) {
	a := access{blind: true}
	for _, o := range opts {
		o(&a)
	}
	r, err := readHead(f, name, a)
	if err != nil {
		return HeaderInfo{}, err
	}
	info := HeaderInfo{File: r.hdr.num, FormatVersion: FormatVersion, BaseLSN: r.hdr.baseLSN, Salt: r.hdr.salt,
		Prev: r.hdr.prev, Copy: r.hdr.flags&fileCopy != 0, Encrypted: r.hdr.sealed()}
	if visit == nil {
		return info, nil
	}
	for r.off < r.limit {
		fr, ok, err := r.next()
		if err != nil {
			return info, err
		}
		if ok {
			p := Piece{Offset: fr.off, Size: fr.size(), Type: fr.typ.String(), LSN: fr.lsn, SyncedTo: fr.syncedTo, Payload: fr.payload,
				PayloadAt: fr.off + frameHeaderSize, Sealed: r.hdr.sealed() && r.blind, Err: fr.err}
			if err := visit(p); err != nil {
				return info, err
			}
			continue
		}
		at, _, found, err := r.find(r.off+frameAlign, func(*frameHeader, int64) bool { return true })
		if err != nil {
			return info, err
		}
		if !found {
			at = r.limit
		}
		gap := Piece{Offset: r.off, Size: at - r.off}
		if gap.Used, err = r.used(r.off, at); err != nil {
			return info, err
		}
		if err := visit(gap); err != nil {
			return info, err
		}
		r.off = at
	}
	return info, nil
}

// used is the length of the bytes from off to end without trailing zeros.
func (r *frameReader) used(off, end int64) (int64, error) {
	var n int64
	for at := off; at < end; {
		b, err := r.bytes(at, min(windowSize, end-at))
		if err != nil {
			return 0, err
		}
		if len(b) == 0 {
			break // the file has become shorter since
		}
		u := lastUsed(b)
		if u > 0 {
			n = at - off + int64(u)
		}
		at += int64(len(b))
		if u == 0 {
			if at, err = r.pastHole(at); err != nil {
				return 0, err
			}
		}
	}
	return n, nil
}
