package snapshot

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
)

// The payload of a state frame or an edit frame is a list of fields, in ascending order of
// their tags, each at most once. A field that would change nothing is left out, so that
// equal content has equal bytes.
const (
	tagIdentity       = 1  // state only, always present
	tagOptions        = 2  // state only
	tagNextFileNum    = 3  // u64
	tagFloor          = 4  // u64
	tagLogs           = 5  // added log files
	tagRemoveLogs     = 6  // edit only
	tagSegments       = 7  // added segments
	tagRemoveSegments = 8  // edit only
	tagImages         = 9  // the whole stack; present and empty in an edit means "no image"
	tagClean          = 10 // clean close
	tagLogSalts       = 11 // of those added log files whose salt is known, in their order
	tagDead           = 12 // dead bytes of segments
	tagReplica        = 13 // the bucket; present and empty in an edit means "none"
	tagHeld           = 14 // u64; 0 in an edit means "not held"
)

// Encoded sizes of the repeated items, and of the field header before them.
const (
	fieldHeaderSize = 8
	logInfoSize     = 16
	logSaltSize     = 16
	segmentInfoSize = 56
	segmentDeadSize = 24
	imageInfoSize   = 64
	imageFullFlag   = 1
	replicaSize     = 64 // without the key of the chain
	replicaRestored = 1  // flag
	replicaAhead    = 2  // flag
)

// appendState encodes a complete state.
func appendState(dst []byte, s *State) []byte {
	dst = appendField(dst, tagIdentity, func(b []byte) []byte {
		b = appendU64(b, s.StoreID, uint64(s.Created))
		b = binary.LittleEndian.AppendUint32(b, s.FormatVersion)
		return binary.LittleEndian.AppendUint32(b, 0)
	})
	if len(s.Options) > 0 {
		dst = appendField(dst, tagOptions, func(b []byte) []byte {
			for _, k := range slices.Sorted(maps.Keys(s.Options)) {
				v := s.Options[k]
				b = binary.LittleEndian.AppendUint32(b, uint32(len(k)))
				b = binary.LittleEndian.AppendUint32(b, uint32(len(v)))
				b = append(append(b, k...), v...)
			}
			return b
		})
	}
	e := Edit{AddLogs: s.Logs, AddSegments: s.Segments, NextFileNum: s.NextFileNum, Clean: s.Clean, SetDead: s.dead(), Replica: s.Replica}
	if s.FloorLSN != 0 {
		e.SetFloor = &s.FloorLSN
	}
	if len(s.Images) > 0 {
		e.SetImages = &s.Images
	}
	if s.Held != 0 {
		e.SetHeld = &s.Held
	}
	return appendEdit(dst, &e)
}

// appendEdit encodes one edit.
func appendEdit(dst []byte, e *Edit) []byte {
	if e.NextFileNum != 0 {
		dst = appendField(dst, tagNextFileNum, func(b []byte) []byte { return appendU64(b, uint64(e.NextFileNum)) })
	}
	if e.SetFloor != nil {
		dst = appendField(dst, tagFloor, func(b []byte) []byte { return appendU64(b, uint64(*e.SetFloor)) })
	}
	dst = appendList(dst, tagLogs, e.AddLogs, func(b []byte, l LogInfo) []byte {
		return appendU64(b, uint64(l.Num), uint64(l.BaseLSN))
	})
	dst = appendList(dst, tagRemoveLogs, e.RemoveLogs, appendNum)
	dst = appendList(dst, tagSegments, e.AddSegments, func(b []byte, g SegmentInfo) []byte {
		return appendU64(b, uint64(g.Num), uint64(g.Size), uint64(g.Raw),
			uint64(g.MinLSN), uint64(g.MaxLSN), g.Families, g.Values)
	})
	dst = appendList(dst, tagRemoveSegments, e.RemoveSegments, appendNum)
	if e.SetImages != nil {
		dst = appendField(dst, tagImages, func(b []byte) []byte {
			for _, im := range *e.SetImages {
				var flags uint64
				if im.Full {
					flags = imageFullFlag
				}
				b = appendU64(b, uint64(im.Num), uint64(im.LSN), uint64(im.Size), flags,
					uint64(im.Log.File), uint64(im.Log.Offset), im.Log.Chain, uint64(im.Log.NextLSN))
			}
			return b
		})
	}
	if c := e.Clean; c != nil {
		dst = appendField(dst, tagClean, func(b []byte) []byte {
			return appendU64(b, uint64(c.LogNum), uint64(c.LogEnd), uint64(c.LSN))
		})
	}
	salted := slices.DeleteFunc(slices.Clone(e.AddLogs), func(l LogInfo) bool { return l.Salt == 0 })
	dst = appendList(dst, tagLogSalts, salted, func(b []byte, l LogInfo) []byte {
		return appendU64(b, uint64(l.Num), l.Salt)
	})
	dst = appendList(dst, tagDead, e.SetDead, func(b []byte, d SegmentDead) []byte {
		return appendU64(b, uint64(d.Num), uint64(d.Dropped), uint64(d.Unused))
	})
	if r := e.Replica; r != nil {
		dst = appendField(dst, tagReplica, func(b []byte) []byte {
			if r.Dir == 0 {
				return b
			}
			var flags uint64
			if r.Restored {
				flags = replicaRestored
			}
			if r.Ahead {
				flags |= replicaAhead
			}
			b = appendU64(b, r.Dir, flags, uint64(r.LSN), uint64(r.Stamp), r.Epoch, r.Seq)
			return append(append(b, r.Chain[:]...), r.ChainKey...)
		})
	}
	if e.SetHeld != nil {
		dst = appendField(dst, tagHeld, func(b []byte) []byte { return appendU64(b, uint64(*e.SetHeld)) })
	}
	return dst
}

// appendField writes tag and length around what body appends.
func appendField(dst []byte, tag uint8, body func([]byte) []byte) []byte {
	dst = append(dst, tag, 0, 0, 0, 0, 0, 0, 0)
	start := len(dst)
	dst = body(dst)
	binary.LittleEndian.PutUint32(dst[start-4:], uint32(len(dst)-start))
	return dst
}

// appendList writes a field of equal items, or nothing if there is none.
func appendList[T any](dst []byte, tag uint8, items []T, one func([]byte, T) []byte) []byte {
	if len(items) == 0 {
		return dst
	}
	return appendField(dst, tag, func(b []byte) []byte {
		for _, it := range items {
			b = one(b, it)
		}
		return b
	})
}

func appendNum(b []byte, n base.FileNum) []byte { return appendU64(b, uint64(n)) }

func appendU64(b []byte, vs ...uint64) []byte {
	for _, v := range vs {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	return b
}

// decodeState decodes the payload of a state frame. The result obeys check.
func decodeState(name string, b []byte) (State, error) {
	var s State
	var e Edit
	err := eachField(b, func(tag uint8, v []byte) error {
		switch tag {
		case tagIdentity:
			if len(v) != 24 || binary.LittleEndian.Uint32(v[20:]) != 0 {
				return fmt.Errorf("%w: identity", errField)
			}
			s.StoreID = u64(v, 0)
			s.Created = int64(u64(v, 1))
			s.FormatVersion = binary.LittleEndian.Uint32(v[16:])
			return nil
		case tagOptions:
			return decodeOptions(&s, v)
		case tagRemoveLogs, tagRemoveSegments:
			return fmt.Errorf("%w: a state removes nothing", errField)
		}
		return decodeEditField(name, &e, tag, v)
	})
	if err != nil {
		return State{}, err
	}
	if s.FormatVersion > FormatVersion {
		return State{}, &fault.VersionError{File: name, Have: s.FormatVersion, Supported: FormatVersion}
	}
	// Every state that is written has a next file number. If there is none, apply must not
	// make one up.
	if e.NextFileNum == 0 {
		return State{}, fmt.Errorf("%w: no next file number", errField)
	}
	// Empty fields are left out. Otherwise the same state would have two encodings.
	if e.SetFloor != nil && *e.SetFloor == 0 || e.SetImages != nil && len(*e.SetImages) == 0 || e.Replica != nil && e.Replica.Dir == 0 ||
		e.SetHeld != nil && *e.SetHeld == 0 {
		return State{}, fmt.Errorf("%w: a floor of 0, a stack of no image, no replica, or nothing held", errField)
	}
	next := e.NextFileNum
	if err := s.apply(&e); err != nil {
		return State{}, err
	}
	if s.NextFileNum != next {
		return State{}, fmt.Errorf("%w: next file number %s is in use", ErrInvalid, next)
	}
	if !slices.Equal(s.dead(), e.SetDead) {
		return State{}, fmt.Errorf("%w: dead bytes out of order", errField)
	}
	return s, s.check()
}

// decodeEdit decodes the payload of an edit frame.
func decodeEdit(name string, b []byte) (Edit, error) {
	var e Edit
	err := eachField(b, func(tag uint8, v []byte) error {
		if tag == tagIdentity || tag == tagOptions {
			return fmt.Errorf("%w: an edit changes neither identity nor options", errField)
		}
		return decodeEditField(name, &e, tag, v)
	})
	if err != nil {
		return Edit{}, err
	}
	return e, nil
}

// errField matches the error for a field that does not decode.
var errField = errors.New("malformed field")

// eachField walks the fields of a payload.
func eachField(b []byte, visit func(tag uint8, v []byte) error) error {
	last := uint8(0)
	for len(b) > 0 {
		if len(b) < fieldHeaderSize {
			return fmt.Errorf("%w: header cut short", errField)
		}
		tag := b[0]
		if tag <= last || b[1]|b[2]|b[3] != 0 {
			return fmt.Errorf("%w: tag %d after %d", errField, tag, last)
		}
		n := binary.LittleEndian.Uint32(b[4:])
		if uint64(n) > uint64(len(b)-fieldHeaderSize) {
			return fmt.Errorf("%w: tag %d: length %d is beyond the frame", errField, tag, n)
		}
		if err := visit(tag, b[fieldHeaderSize:fieldHeaderSize+int(n)]); err != nil {
			return err
		}
		last = tag
		b = b[fieldHeaderSize+int(n):]
	}
	return nil
}

// decodeEditField decodes one field that states and edits share. The checksum was right, so a
// tag that this build does not know is from a newer build.
func decodeEditField(name string, e *Edit, tag uint8, v []byte) (err error) {
	switch tag {
	case tagNextFileNum:
		if len(v) != 8 || u64(v, 0) == 0 {
			return fmt.Errorf("%w: next file number", errField)
		}
		e.NextFileNum = base.FileNum(u64(v, 0))
	case tagFloor:
		e.SetFloor, err = decodeLSN("floor", v)
	case tagLogs:
		e.AddLogs, err = decodeList(tag, v, logInfoSize, decodeLog)
	case tagRemoveLogs:
		e.RemoveLogs, err = decodeList(tag, v, 8, decodeNum)
	case tagSegments:
		e.AddSegments, err = decodeList(tag, v, segmentInfoSize, decodeSegment)
	case tagRemoveSegments:
		e.RemoveSegments, err = decodeList(tag, v, 8, decodeNum)
	case tagImages:
		images, err := decodeImages(name, v)
		if err != nil {
			return err
		}
		e.SetImages = &images
	case tagClean:
		if len(v) != 24 {
			return fmt.Errorf("%w: clean close", errField)
		}
		e.Clean = &CleanClose{LogNum: base.FileNum(u64(v, 0)), LogEnd: int64(u64(v, 1)), LSN: base.LSN(u64(v, 2))}
	case tagLogSalts:
		err = decodeSalts(e.AddLogs, v)
	case tagDead:
		e.SetDead, err = decodeList(tag, v, segmentDeadSize, func(v []byte) SegmentDead {
			return SegmentDead{Num: base.FileNum(u64(v, 0)), Dropped: int64(u64(v, 1)), Unused: int64(u64(v, 2))}
		})
	case tagReplica:
		e.Replica, err = decodeReplica(name, v)
	case tagHeld:
		e.SetHeld, err = decodeLSN("held", v)
	default:
		return newerError(name, fmt.Sprintf("manifest field %d", tag))
	}
	return err
}

func decodeLSN(what string, v []byte) (*base.LSN, error) {
	if len(v) != 8 {
		return nil, fmt.Errorf("%w: %s", errField, what)
	}
	lsn := base.LSN(u64(v, 0))
	return &lsn, nil
}

func decodeReplica(name string, v []byte) (*Replica, error) {
	if len(v) == 0 {
		return &Replica{}, nil
	}
	if len(v) != replicaSize && len(v) != replicaSize+chainKeySize || u64(v, 0) == 0 {
		return nil, fmt.Errorf("%w: replica", errField)
	}
	flags := u64(v, 1)
	if flags&^(replicaRestored|replicaAhead) != 0 {
		return nil, newerError(name, fmt.Sprintf("replica with flags %#x", flags))
	}
	r := &Replica{Dir: u64(v, 0), Restored: flags&replicaRestored != 0, Ahead: flags&replicaAhead != 0, LSN: base.LSN(u64(v, 2)), Stamp: int64(u64(v, 3)),
		Epoch: u64(v, 4), Seq: u64(v, 5), Chain: [16]byte(v[48:replicaSize])}
	if len(v) > replicaSize {
		r.ChainKey = slices.Clone(v[replicaSize:])
	}
	return r, nil
}

func decodeLog(v []byte) LogInfo {
	return LogInfo{Num: base.FileNum(u64(v, 0)), BaseLSN: base.LSN(u64(v, 1))}
}

// decodeSalts puts the salts in v to the log files they are of.
func decodeSalts(logs []LogInfo, v []byte) error {
	salts, err := decodeList(tagLogSalts, v, logSaltSize, func(v []byte) [2]uint64 { return [2]uint64{u64(v, 0), u64(v, 1)} })
	for _, s := range salts {
		i := slices.IndexFunc(logs, func(l LogInfo) bool { return uint64(l.Num) == s[0] })
		if i < 0 || s[1] == 0 {
			return fmt.Errorf("%w: a salt of log file %d, which is not added", errField, s[0])
		}
		logs[i].Salt = s[1]
		logs = logs[i+1:]
	}
	return err
}

func decodeNum(v []byte) base.FileNum { return base.FileNum(u64(v, 0)) }

func decodeSegment(v []byte) SegmentInfo {
	return SegmentInfo{
		Num:  base.FileNum(u64(v, 0)),
		Size: int64(u64(v, 1)), Raw: int64(u64(v, 2)),
		MinLSN: base.LSN(u64(v, 3)), MaxLSN: base.LSN(u64(v, 4)),
		Families: u64(v, 5), Values: u64(v, 6),
	}
}

func decodeImages(name string, v []byte) ([]ImageInfo, error) {
	if len(v)%imageInfoSize != 0 {
		return nil, fmt.Errorf("%w: images: %d bytes", errField, len(v))
	}
	images := make([]ImageInfo, 0, len(v)/imageInfoSize)
	for ; len(v) > 0; v = v[imageInfoSize:] {
		if u64(v, 3)&^imageFullFlag != 0 {
			return nil, newerError(name, fmt.Sprintf("image flags %#x", u64(v, 3)))
		}
		images = append(images, ImageInfo{
			Num: base.FileNum(u64(v, 0)), LSN: base.LSN(u64(v, 1)),
			Size: int64(u64(v, 2)), Full: u64(v, 3) == imageFullFlag,
			Log: LogPlace{File: base.FileNum(u64(v, 4)), Offset: int64(u64(v, 5)), Chain: u64(v, 6), NextLSN: base.LSN(u64(v, 7))},
		})
	}
	return images, nil
}

// decodeList decodes a field of items of equal size. It allocates no more than v has items for.
func decodeList[T any](tag uint8, v []byte, size int, one func([]byte) T) ([]T, error) {
	if len(v) == 0 || len(v)%size != 0 {
		return nil, fmt.Errorf("%w: tag %d: %d bytes are no list of items of %d", errField, tag, len(v), size)
	}
	out := make([]T, 0, len(v)/size)
	for ; len(v) > 0; v = v[size:] {
		out = append(out, one(v))
	}
	return out, nil
}

// decodeOptions decodes key-value pairs in strictly ascending key order.
func decodeOptions(s *State, v []byte) error {
	if len(v) == 0 {
		return fmt.Errorf("%w: no option", errField)
	}
	s.Options = make(map[string]string)
	last := ""
	for len(v) > 0 {
		if len(v) < 8 {
			return fmt.Errorf("%w: options cut short", errField)
		}
		kn, vn := uint64(binary.LittleEndian.Uint32(v)), uint64(binary.LittleEndian.Uint32(v[4:]))
		v = v[8:]
		if kn+vn > uint64(len(v)) {
			return fmt.Errorf("%w: option is longer than its field", errField)
		}
		key := string(v[:kn])
		if key <= last {
			return fmt.Errorf("%w: option %.32q after %.32q", errField, key, last)
		}
		s.Options[key] = string(v[kn : kn+vn])
		last, v = key, v[kn+vn:]
	}
	return nil
}

// u64 is the i-th little-endian integer of v.
func u64(v []byte, i int) uint64 { return binary.LittleEndian.Uint64(v[8*i:]) }
