package snapshot

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/stele-go/stele/base"
)

// ErrInvalid is the error for a state or an edit that breaks a rule of the manifest, such as a
// file number that is used twice. Nothing was written.
var ErrInvalid = errors.New("invalid manifest content")

// LogInfo names a log file. Salt is that of its frames, or 0 if it is not known; a file with
// another salt is another file. BaseLSN is the LSN of its first record, if there is one.
type LogInfo struct {
	Num     base.FileNum
	BaseLSN base.LSN
	Salt    uint64
}

// SegmentInfo names a segment.
type SegmentInfo struct {
	Num      base.FileNum
	Size     int64    // bytes of the file
	Raw      int64    // bytes of the values and patches in it, before compression
	MinLSN   base.LSN // lowest and highest LSN of the records in it
	MaxLSN   base.LSN
	Families uint64 // partition families with data in it
	Values   uint64 // values in it
	// Dropped is how many bytes of Raw belong to families without partitions. Unused is roughly how
	// many other bytes are no longer referenced. Both are as of the last flush.
	Dropped, Unused int64
}

// SegmentDead has new values of Dropped and Unused for a segment.
type SegmentDead struct {
	Num             base.FileNum
	Dropped, Unused int64 // as SegmentInfo has them
}

// ImageInfo names an image. The images of a state are a stack: a full image, then deltas, each
// to those before it.
type ImageInfo struct {
	Num  base.FileNum
	LSN  base.LSN // every record up to and including it is in the image
	Full bool
	Size int64 // bytes of the file
	// Log is a place in the log, at or before the end of record LSN, from which replay can
	// start. The zero place means the beginning of the log.
	Log LogPlace
}

// LogPlace is a place between two frames of the log, as the log describes it.
type LogPlace struct {
	File    base.FileNum
	Offset  int64
	Chain   uint64
	NextLSN base.LSN // of the first record behind it
}

// CleanClose says that the store was closed, and where its log ended. The next edit clears it.
type CleanClose struct {
	LogNum base.FileNum // newest log file; 0 if there was none
	LogEnd int64        // offset in it after the last frame
	LSN    base.LSN     // last LSN of the store
}

// Replica says that the log of the store is kept in a bucket, and how far at least. The records behind LSN are in the log,
// so that the chain of the lineage can be computed from here on.
type Replica struct {
	// Dir names this directory among those of the store; random, never 0. A copy of the directory has it too.
	Dir uint64
	// Restored: the directory was made from the bucket, and has not led yet.
	Restored bool
	// Ahead: who led here last acknowledged what the bucket may lack, as the modes async and bounded do. False of a leader
	// in mode sync, and of one from before this was noted.
	Ahead bool
	// LSN is the last record before a place in the lineage, Stamp its time, in microseconds since 1970, and Chain
	// the chain behind it. Epoch and Seq name the chunk that has the next record.
	LSN        base.LSN
	Stamp      int64
	Epoch, Seq uint64
	Chain      [16]byte
	// ChainKey is the key of the chain, in an encrypted store; else empty.
	ChainKey []byte
}

// clone returns a copy that shares nothing with r.
func (r *Replica) clone() *Replica {
	if r == nil {
		return nil
	}
	c := *r
	c.ChainKey = slices.Clone(r.ChainKey)
	return &c
}

// State is the content of a manifest: the files that make up a store. Clone a State that is
// shared before you change a slice or map in it.
type State struct {
	FormatVersion uint32       // of the store
	StoreID       uint64       // random, never changes, never 0
	NextFileNum   base.FileNum // above every number below
	Created       int64        // unix microseconds
	// FloorLSN is the LSN below which all records are in segments. A log file that has
	// only such records is not needed. It never becomes lower.
	FloorLSN base.LSN
	Logs     []LogInfo     // oldest first
	Segments []SegmentInfo // in the order they were added
	Images   []ImageInfo   // the stack, full image first; may be empty
	Clean    *CleanClose   // nil unless the store was closed and not written since
	// Options are the settings that the files on disk depend on.
	Options map[string]string
	Replica *Replica // nil unless the log is kept in a bucket
	// Held is the last record that was there when the store was restored, if timers, queued runs and schedules from before are to wait
	// until somebody releases them; else 0. A build that does not know it refuses the store, and so does not run them.
	Held base.LSN
}

// Clone returns a copy that shares nothing with s.
func (s State) Clone() State {
	s.Logs = slices.Clone(s.Logs)
	s.Segments = slices.Clone(s.Segments)
	s.Images = slices.Clone(s.Images)
	s.Options = maps.Clone(s.Options)
	s.Replica = s.Replica.clone()
	if s.Clean != nil {
		c := *s.Clean
		s.Clean = &c
	}
	return s
}

// LogNums are the numbers of the log files, oldest first; never nil.
func (s State) LogNums() []base.FileNum {
	nums := make([]base.FileNum, len(s.Logs))
	for i, l := range s.Logs {
		nums[i] = l.Num
	}
	return nums
}

// LogSalts are the salts of the log files, as far as the manifest knows them.
func (s State) LogSalts() map[base.FileNum]uint64 {
	salts := map[base.FileNum]uint64{}
	for _, l := range s.Logs {
		salts[l.Num] = l.Salt
	}
	return salts
}

// ImageNums are the numbers of the images, in the order of the stack.
func (s State) ImageNums() []base.FileNum {
	var nums []base.FileNum
	for _, im := range s.Images {
		nums = append(nums, im.Num)
	}
	return nums
}

// Edit is one change of the state, of which a crash leaves all or nothing. Removals come before
// additions.
type Edit struct {
	AddLogs        []LogInfo
	RemoveLogs     []base.FileNum
	AddSegments    []SegmentInfo // Dropped and Unused do not count: SetDead says them
	RemoveSegments []base.FileNum
	SetDead        []SegmentDead // of segments that are there, or added
	SetFloor       *base.LSN     // nil: unchanged
	SetImages      *[]ImageInfo  // nil: unchanged; replaces the whole chain
	// NextFileNum raises State.NextFileNum, unless it is lower. Adding a file with a
	// higher number raises it too.
	NextFileNum base.FileNum
	// Clean sets State.Clean; an edit without it clears State.Clean.
	Clean *CleanClose
	// Replica sets State.Replica; nil: unchanged. One whose Dir is 0 clears it.
	Replica *Replica
	SetHeld *base.LSN // sets State.Held; nil: unchanged
}

// Limits of a manifest, for what is written and what is accepted.
const (
	maxFileNum     = base.FileNum(1) << 56
	maxOptions     = 1 << 10
	maxOptionBytes = 4 << 10 // of a key, and of a value
	chainKeySize   = 32
)

// apply changes s by e. It checks only what e changes, so that replaying n edits does not take
// n passes over a large state. check checks the whole state.
func (s *State) apply(e *Edit) error {
	for _, n := range e.RemoveLogs {
		i := slices.IndexFunc(s.Logs, func(l LogInfo) bool { return l.Num == n })
		if i < 0 {
			return fmt.Errorf("%w: removes unknown log file %s", ErrInvalid, n)
		}
		s.Logs = slices.Delete(s.Logs, i, i+1)
	}
	for _, n := range e.RemoveSegments {
		i := slices.IndexFunc(s.Segments, func(g SegmentInfo) bool { return g.Num == n })
		if i < 0 {
			return fmt.Errorf("%w: removes unknown segment %s", ErrInvalid, n)
		}
		s.Segments = slices.Delete(s.Segments, i, i+1)
	}
	if e.SetFloor != nil {
		if *e.SetFloor < s.FloorLSN {
			return fmt.Errorf("%w: lowers the floor from %d to %d", ErrInvalid, s.FloorLSN, *e.SetFloor)
		}
		s.FloorLSN = *e.SetFloor
	}
	s.raise(e.NextFileNum)
	for _, l := range e.AddLogs {
		s.Logs = append(s.Logs, l)
		s.raise(l.Num + 1)
	}
	for _, g := range e.AddSegments {
		g.Dropped, g.Unused = 0, 0
		s.Segments = append(s.Segments, g)
		s.raise(g.Num + 1)
	}
	if err := s.setDead(e.SetDead); err != nil {
		return err
	}
	if e.SetImages != nil {
		s.Images = slices.Clone(*e.SetImages)
		for _, im := range s.Images {
			s.raise(im.Num + 1)
		}
	}
	s.Clean = nil
	if e.Clean != nil {
		c := *e.Clean
		s.Clean = &c
	}
	if e.Replica != nil {
		s.Replica = e.Replica.clone()
		if e.Replica.Dir == 0 {
			s.Replica = nil
		}
	}
	if e.SetHeld != nil {
		s.Held = *e.SetHeld
	}
	return nil
}

func (s *State) setDead(dead []SegmentDead) error {
	if len(dead) == 0 {
		return nil
	}
	at := make(map[base.FileNum]int, len(s.Segments))
	for i, g := range s.Segments {
		at[g.Num] = i
	}
	for _, d := range dead {
		i, ok := at[d.Num]
		if !ok {
			return fmt.Errorf("%w: says what is dead in unknown segment %s", ErrInvalid, d.Num)
		}
		s.Segments[i].Dropped, s.Segments[i].Unused = d.Dropped, d.Unused
	}
	return nil
}

// dead returns the dead bytes of s, in the form of an edit.
func (s *State) dead() []SegmentDead {
	var out []SegmentDead
	for _, g := range s.Segments {
		if g.Dropped != 0 || g.Unused != 0 {
			out = append(out, SegmentDead{g.Num, g.Dropped, g.Unused})
		}
	}
	return out
}

func (s *State) raise(next base.FileNum) {
	if next > s.NextFileNum {
		s.NextFileNum = next
	}
}

// check tests every rule a state obeys; the error matches ErrInvalid.
func (s *State) check() error {
	if s.StoreID == 0 {
		return fmt.Errorf("%w: store id 0", ErrInvalid)
	}
	if s.FormatVersion == 0 {
		return fmt.Errorf("%w: format version 0", ErrInvalid)
	}
	if s.NextFileNum == 0 || s.NextFileNum > maxFileNum {
		return fmt.Errorf("%w: next file number %d", ErrInvalid, s.NextFileNum)
	}
	if err := s.checkNumbers(); err != nil {
		return err
	}
	if err := s.checkLogs(); err != nil {
		return err
	}
	for _, g := range s.Segments {
		if g.Size <= 0 || g.Raw < 0 || g.MinLSN > g.MaxLSN {
			return fmt.Errorf("%w: segment %s: size %d, raw %d, LSN %d to %d", ErrInvalid, g.Num, g.Size, g.Raw, g.MinLSN, g.MaxLSN)
		}
		if min(g.Dropped, g.Unused) < 0 || max(g.Dropped, g.Unused) > g.Raw {
			return fmt.Errorf("%w: segment %s: %d and %d of %d bytes are dead", ErrInvalid, g.Num, g.Dropped, g.Unused, g.Raw)
		}
	}
	for i, im := range s.Images {
		if im.Size <= 0 || im.Full != (i == 0) || i > 0 && im.LSN < s.Images[i-1].LSN {
			return fmt.Errorf("%w: image %s does not continue its chain", ErrInvalid, im.Num)
		}
	}
	if r := s.Replica; r != nil && (r.Dir == 0 || len(r.ChainKey) != 0 && len(r.ChainKey) != chainKeySize) {
		return fmt.Errorf("%w: replica of directory %x with a key of %d bytes", ErrInvalid, r.Dir, len(r.ChainKey))
	}
	return s.checkOptions()
}

// checkNumbers checks that each number belongs to one file.
func (s *State) checkNumbers() error {
	seen := make(map[base.FileNum]struct{}, len(s.Logs)+len(s.Segments)+len(s.Images))
	use := func(n base.FileNum) error {
		if n == 0 || n >= s.NextFileNum {
			return fmt.Errorf("%w: file number %s, the next one is %s", ErrInvalid, n, s.NextFileNum)
		}
		if _, dup := seen[n]; dup {
			return fmt.Errorf("%w: file number %s is used twice", ErrInvalid, n)
		}
		seen[n] = struct{}{}
		return nil
	}
	for _, l := range s.Logs {
		if err := use(l.Num); err != nil {
			return err
		}
	}
	for _, g := range s.Segments {
		if err := use(g.Num); err != nil {
			return err
		}
	}
	for _, im := range s.Images {
		if err := use(im.Num); err != nil {
			return err
		}
	}
	return nil
}

// checkLogs checks that the log files are in LSN order, and leave no gap above the floor, where
// records are in the log alone.
func (s *State) checkLogs() error {
	for i, l := range s.Logs {
		if l.BaseLSN == 0 {
			return fmt.Errorf("%w: log %s has base LSN 0", ErrInvalid, l.Num)
		}
		if i > 0 && l.BaseLSN < s.Logs[i-1].BaseLSN {
			return fmt.Errorf("%w: log %s starts at LSN %d, below the file before it", ErrInvalid, l.Num, l.BaseLSN)
		}
	}
	if len(s.Logs) > 0 && s.Logs[0].BaseLSN > max(s.FloorLSN, 1) {
		return fmt.Errorf("%w: the first log starts at LSN %d, above the floor %d", ErrInvalid, s.Logs[0].BaseLSN, s.FloorLSN)
	}
	if c := s.Clean; c != nil {
		known := c.LogNum == 0 || slices.ContainsFunc(s.Logs, func(l LogInfo) bool { return l.Num == c.LogNum })
		if !known || c.LogEnd < 0 {
			return fmt.Errorf("%w: clean close in log %s at offset %d", ErrInvalid, c.LogNum, c.LogEnd)
		}
	}
	return nil
}

func (s *State) checkOptions() error {
	if len(s.Options) > maxOptions {
		return fmt.Errorf("%w: %d options, at most %d", ErrInvalid, len(s.Options), maxOptions)
	}
	for k, v := range s.Options {
		if len(k) == 0 || len(k) > maxOptionBytes || len(v) > maxOptionBytes {
			return fmt.Errorf("%w: option %.32q: key or value length", ErrInvalid, k)
		}
	}
	return nil
}

// numbers lists the numbers of all files of a state.
func (s *State) numbers() []base.FileNum {
	var out []base.FileNum
	for _, l := range s.Logs {
		out = append(out, l.Num)
	}
	for _, g := range s.Segments {
		out = append(out, g.Num)
	}
	for _, im := range s.Images {
		out = append(out, im.Num)
	}
	return out
}
