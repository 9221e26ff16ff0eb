package snapshot

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/seal"
	"github.com/stele-go/stele/base/vfs"
)

// LoadRaw is Load that also returns the bytes of the manifest file, even if it is damaged, for
// tools that show or check them.
func LoadRaw(fsys vfs.FS, dir string, opts ...ReadOption) (State, LoadReport, []byte, error) {
	var lastErr error
	for range loadRetries {
		l, err := listManifests(fsys, dir)
		if err != nil {
			return State{}, LoadReport{}, nil, err
		}
		if len(l.nums) == 0 {
			// A listing that is made while a writer replaces one file by the next may
			// have neither.
			lastErr = ErrNoManifest
			continue
		}
		name := ManifestName(l.nums[len(l.nums)-1])
		st, rep, raw, err := loadFile(fsys, dir, name, optionsOf(opts))
		if errors.Is(err, fs.ErrNotExist) {
			lastErr = err // superseded since it was listed
			continue
		}
		rep.File, rep.Leftover = name, l.leftover()
		if err != nil {
			return State{}, rep, raw, err
		}
		return st, rep, raw, nil
	}
	return State{}, LoadReport{}, nil, lastErr
}

// ManifestFrame is one frame of a manifest, or the bytes between two.
type ManifestFrame struct {
	Offset  int64
	Size    int64  // padding included
	Type    string // "state", "edit", "mark", "close"; "" for bytes that are no valid frame
	Seq     uint64
	Promise int64
	State   *State // of a state
	Edit    *Edit  // of an edit
	Err     error  // why the payload could not be decoded
	Sealed  bool   // it is encrypted, and InspectManifest was given no keys
	// frameSize is the size of the frame; Size is that of the slot, in a slot.
	frameSize int64
	Used      int64 // of bytes that are no frame: how many up to the last that is not zero
}

// ManifestHeader is the header of a manifest file.
type ManifestHeader struct {
	Num     base.FileNum
	StoreID uint64
	Salt    uint64
	Prev    base.FileNum // the manifest it continues; 0 for the first
	Size    int64        // of the file
	KeyID   string       // of the key it is encrypted with; "" if it is not
}

// InspectManifest calls visit for each frame of a manifest in the order of the file, with the
// two slots last. An error of visit ends it and is returned as it is. A damaged header is a
// *fault.CorruptionError.
func InspectManifest(name string, b []byte, visit func(ManifestFrame) error, opts ...ReadOption) (ManifestHeader, error) {
	h, err := decodeManifestHeader(name, b)
	if err != nil {
		return ManifestHeader{}, err
	}
	info := ManifestHeader{Num: h.num, StoreID: h.storeID, Salt: h.salt, Prev: base.FileNum(h.a), Size: int64(h.b)}
	limit := len(b) - slotsSize
	w := manifestWalk{name: name, framer: framer{salt: h.salt}}
	o := optionsOf(opts)
	if h.flags&sealedFlag != 0 {
		about, err := seal.Inspect(name, b[:headerSize], b[headerSize:sealedStart])
		if err != nil {
			return info, err
		}
		info.KeyID = about.KeyID
		w.closed = o.keys == nil
	}
	if !w.closed {
		if w.seal, err = h.openSeal(name, b, 0, o.manifestKeys(h.storeID)); err != nil {
			return info, err
		}
	}
	for off := h.frameStart(); off < limit; {
		fr := w.frame(b[:limit], off)
		if fr.Type == "" {
			end := nextFrame(b[:limit], h.salt, off+8)
			fr.Size, fr.Used = int64(end-off), usedBytes(b[off:end])
		}
		if err := visit(fr); err != nil {
			return info, err
		}
		off += int(fr.Size)
	}
	for _, off := range []int{limit, limit + slotSize} {
		fr := w.frame(b[:off+slotSize], off)
		if fr.Type == "" {
			fr.Used = usedBytes(b[off : off+slotSize])
		}
		fr.Size = slotSize
		if err := visit(fr); err != nil {
			return info, err
		}
	}
	return info, nil
}

func usedBytes(b []byte) int64 { return int64(len(bytes.TrimRight(b, "\x00"))) }

// nextFrame returns where the next valid frame at or after from begins, or the end.
func nextFrame(b []byte, salt uint64, from int) int {
	for at := from; at+frameHeaderSize <= len(b); at += 8 {
		if b[at+12] == 0 {
			continue
		}
		if _, ok := parseFrame(b[at:], salt, int64(at)); ok {
			return at
		}
	}
	return len(b)
}

// manifestWalk looks at the frames of one manifest.
type manifestWalk struct {
	name string
	framer
	closed bool // encrypted, and there are no keys: payloads stay closed
}

// frame is the frame at off.
func (w *manifestWalk) frame(b []byte, off int) ManifestFrame {
	fr := ManifestFrame{Offset: int64(off), Sealed: w.closed}
	name := w.name
	f, ok := parseFrame(b[off:], w.salt, int64(off))
	if !ok {
		return fr
	}
	fr.Size, fr.Seq, fr.Promise = int64(frameSize(len(f.payload))), f.seq, f.promise
	fr.frameSize = fr.Size
	opened := w.closed || w.open(int64(off), &f)
	if !opened {
		fr.Err = &fault.CorruptionError{File: name, Kind: "manifest frame", Offset: int64(off), Len: fr.Size, Detail: "the frame does not authenticate"}
	}
	switch f.typ {
	case frameState:
		fr.Type = "state"
		if w.closed || !opened {
			break
		}
		st, err := decodeState(name, f.payload)
		fr.State, fr.Err = &st, err
	case frameEdit:
		fr.Type = "edit"
		if w.closed || !opened {
			break
		}
		e, err := decodeEdit(name, f.payload)
		fr.Edit, fr.Err = &e, err
	case frameMark:
		fr.Type = "mark"
	case frameClose:
		fr.Type = "close"
	default:
		fr.Type = fmt.Sprintf("type %d", f.typ)
	}
	return fr
}

// CheckManifest checks every byte of a manifest. damage has all errors with which Load fails, and
// faults that cannot occur after a clean close, even if Load does not check them. notes are traces that
// a crash may leave: an edit that was being written, a torn slot.
func CheckManifest(name string, b []byte, opts ...ReadOption) (damage, notes []error) {
	st, rep, err := decodeManifest(name, b, optionsOf(opts))
	if err != nil {
		return []error{err}, nil
	}
	say := func(off, n int64, kind, detail string) {
		e := &fault.CorruptionError{File: name, Kind: kind, Offset: off, Len: n, Detail: detail}
		if rep.Closed {
			damage = append(damage, e)
		} else {
			notes = append(notes, e)
		}
	}
	if rep.Dropped > 0 {
		say(rep.DroppedAt, rep.Dropped, "manifest", "bytes behind the last edit that are not zero and not valid")
	}
	mark := false
	_, err = InspectManifest(name, b, func(fr ManifestFrame) error {
		limit := int64(len(b) - slotsSize)
		switch {
		case fr.Offset < limit:
		case fr.Type == "mark":
			mark = true
			fallthrough
		case fr.Type == "close":
			used := usedBytes(b[fr.Offset+fr.frameSize : fr.Offset+slotSize])
			if used > 0 {
				say(fr.Offset+fr.frameSize, used, "manifest slot", "bytes behind the slot's frame are not zero")
			}
		case fr.Used > 0:
			say(fr.Offset, fr.Used, "manifest slot", "not valid; it says nothing, and nothing is lost with it")
		}
		return nil
	}, opts...)
	if err != nil {
		return append(damage, err), notes
	}
	if rep.Edits > 0 && !mark {
		say(int64(len(b)-slotsSize), slotSize, "manifest slot", "the mark of the last edit is missing")
	}
	if st.Clean != nil && !rep.Closed {
		notes = append(notes, &fault.CorruptionError{File: name, Kind: "manifest slot", Offset: int64(len(b) - slotSize), Len: slotSize,
			Detail: "the store was closed in order, but this file was not: a crash in between, or damage; nothing is lost"})
	}
	return damage, notes
}

// EncodeManifest returns the bytes of a manifest file with st as its complete state and no
// edits, as Create writes it. It is for a store that is checked before it is published.
func EncodeManifest(st State, o Options) ([]byte, error) {
	o = o.withDefaults()
	if err := st.check(); err != nil {
		return nil, fmt.Errorf("encode manifest: %w", err)
	}
	_, b, err := newManifestFile(1, 0, &st, o)
	return b, err
}
