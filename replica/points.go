package replica

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/replica/bucket"
)

// Point is where a restore can begin: the files that hold all records up to its LSN. It is an
// object that never changes.
type Point struct {
	Format uint32 `json:"format"`
	Store  uint64 `json:"store"`
	Position
	// By is the epoch of the leader that made it, as its Nth.
	By    uint64 `json:"by"`
	Nth   uint64 `json:"nth"`
	Files []File `json:"files"`
}

func (p *Point) ref() PointRef { return PointRef{LSN: p.LSN, Epoch: p.By, Nth: p.Nth, Stamp: p.Stamp} }

// File is one file of a point.
type File struct {
	Name string `json:"name"` // in the store
	Key  string `json:"key"`  // in the bucket
	Size int64  `json:"size"`
}

// CreatePoint makes a point behind record at, which the lineage must have, of files that are in
// the bucket. Their keys are FileKey's of this leader, or of files that the newest point has
// too: others a late deletion of an earlier leader may remove. Retain does not run meanwhile.
//
// The point counts once HEAD has it. If CreatePoint fails, or after a crash, one may stay that
// HEAD does not have; Retain deletes it with its files. ErrFileGone: it has deleted one of these
// files, perhaps of such a point, or may still do: the caller stores it under another FileKey.
func (l *Leader) CreatePoint(ctx context.Context, at base.LSN, files []File) (*Point, error) {
	if err := l.Renew(ctx); err != nil { // HEAD has all that is synced
		return nil, err
	}
	h := l.lease.current()
	if at > h.End.LSN {
		return nil, fmt.Errorf("a point at record %d: the lineage has %d", at, h.End.LSN)
	}
	known := map[string]bool{}
	if n := len(h.Points); n > 0 {
		newest, err := l.o.point(ctx, h.Points[n-1].key())
		if err != nil && !unreadable(err) {
			return nil, err
		}
		if err == nil { // of a damaged one nothing is known, and a new one need not have it
			for _, f := range newest.Files {
				known[f.Key] = true
			}
		}
	}
	for _, f := range files {
		if l.dropped[f.Key] {
			return nil, fmt.Errorf("%w: %s", ErrFileGone, f.Key)
		}
		if !known[f.Key] && !strings.HasPrefix(f.Key, l.FileKey("")) {
			return nil, fmt.Errorf("%s is neither of this leader nor in the newest point", f.Key)
		}
	}
	pos, err := l.o.locate(ctx, h, at)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	l.points++
	p := &Point{Format: HeadVersion, Store: l.o.Store, Position: pos, By: l.epoch, Nth: l.points, Files: files}
	l.mu.Unlock()
	body, err := encodeText(p)
	if err != nil {
		return nil, err
	}
	if len(body) > maxPoint {
		return nil, fmt.Errorf("a point of %d bytes has too many files", len(body))
	}
	key := p.ref().key()
	if _, err := l.o.create(ctx, key, body); err != nil {
		return nil, err
	}
	ref := p.ref()
	return p, l.update(ctx, func(h *head) {
		if i, there := slices.BinarySearchFunc(h.Points, ref, comparePoints); !there {
			h.Points = slices.Insert(h.Points, i, ref)
		}
	})
}

// PointRef names a point.
type PointRef struct {
	LSN base.LSN `json:"lsn"`
	// Epoch is that of the leader that made it, as its Nth.
	Epoch uint64 `json:"epoch"`
	Nth   uint64 `json:"nth"`
	// Stamp is that of its last record.
	Stamp int64 `json:"stamp"`
}

// key is never used twice, so that a late deletion, or a late creation, does not touch another point.
func (p PointRef) key() string {
	return fmt.Sprintf("%s%020d-%010d-%d", pointPrefix, p.LSN, p.Epoch, p.Nth)
}

// parsePoint is the inverse of key, but for the stamp.
func parsePoint(key string) (p PointRef, ok bool) {
	_, err := fmt.Sscanf(key, pointPrefix+"%d-%d-%d", &p.LSN, &p.Epoch, &p.Nth)
	return p, err == nil && key == p.key()
}

func comparePoints(a, b PointRef) int {
	return cmp.Or(cmp.Compare(a.LSN, b.LSN), cmp.Compare(a.Epoch, b.Epoch), cmp.Compare(a.Nth, b.Nth))
}

// Points returns the points that can be restored, oldest first.
func Points(ctx context.Context, o Options) ([]PointRef, error) {
	o = o.withDefaults()
	h, err := o.readHead(ctx)
	if err != nil {
		return nil, err
	}
	return h.Points, nil
}

// ReadPoint reads a point. ErrPointGone: it was deleted meanwhile.
func ReadPoint(ctx context.Context, o Options, p PointRef) (*Point, error) {
	o = o.withDefaults()
	return o.point(ctx, p.key())
}

func (o *Options) point(ctx context.Context, key string) (*Point, error) {
	b, _, err := o.get(ctx, key, maxPoint, "")
	if err != nil {
		return nil, gone(err)
	}
	return decodePoint(key, o.Store, b)
}

func decodePoint(key string, store uint64, b []byte) (*Point, error) {
	p := new(Point)
	if err := decodeText(key, "point", b, p); err != nil {
		return nil, err
	}
	if p.Store != store {
		return nil, otherStore(key, p.Store, store)
	}
	if key != p.ref().key() || p.Position.Epoch > maxEpoch || p.Seq > maxSeq {
		return nil, damaged(key, "point", "it is that of record %d", p.LSN)
	}
	return p, nil
}

func (o *Options) readHead(ctx context.Context) (*head, error) {
	b, _, err := o.get(ctx, headKey, maxHead, "")
	if errors.Is(err, bucket.ErrNotFound) {
		return nil, ErrNoLineage
	}
	if err != nil {
		return nil, err
	}
	return decodeHead(o.Store, b)
}

// pinLapse is how long a pin lives that nobody renews.
const pinLapse = time.Hour

// Pin keeps what a reader needs from being deleted. Its reader calls Beat a few times an hour, and
// Release at the end.
type Pin struct {
	o    Options
	key  string
	body pin
	tag  bucket.ETag
}

// pin is the object.
type pin struct {
	Format uint32 `json:"format"`
	Store  uint64 `json:"store"`
	Position
	Beat uint64 `json:"beat"`
}

// taken counts the pins of this process, so that no name is used twice: a late deletion of one pin
// must not remove the next.
var taken atomic.Uint64

// TakePin keeps all from a position on. It writes the pin, and then reads HEAD: a leader raises the
// floor, and then lists pins, so one of them sees the other.
//
// Errors: ErrPointGone.
func TakePin(ctx context.Context, o Options, at Position) (*Pin, error) {
	p := &Pin{o: o.withDefaults(), body: pin{Format: HeadVersion, Store: o.Store, Position: at}}
	p.key = fmt.Sprintf("%s%s-%d", pinPrefix, p.o.Owner, taken.Add(1))
	if err := p.write(ctx, bucket.Condition{IfAbsent: true}); err != nil {
		return nil, err
	}
	h, err := p.o.readHead(ctx)
	if err == nil && at.LSN < h.Floor.LSN {
		err = ErrPointGone
	}
	if err != nil {
		_ = p.Release(ctx) // it lapses by itself
		return nil, err
	}
	return p, nil
}

// Beat renews a pin. ErrPointGone: it lapsed, and what it kept may be deleted.
func (p *Pin) Beat(ctx context.Context) error {
	p.body.Beat++
	return p.write(ctx, bucket.Condition{IfMatch: p.tag})
}

func (p *Pin) write(ctx context.Context, cond bucket.Condition) error {
	body, err := encodeText(&p.body)
	if err != nil {
		return err
	}
	var tag bucket.ETag
	for range 2 { // as create does
		if tag, err = p.o.put(ctx, p.key, body, cond); err == nil {
			p.tag = tag
			return nil
		}
		if errors.Is(err, bucket.ErrCondition) || errors.Is(err, bucket.ErrRefused) {
			break
		}
	}
	if !errors.Is(err, bucket.ErrCondition) {
		return err
	}
	found, tag, readErr := p.o.get(ctx, p.key, maxHead, "")
	if errors.Is(readErr, bucket.ErrNotFound) && !cond.IfAbsent {
		return ErrPointGone
	}
	if readErr != nil {
		return err
	}
	if p.tag = tag; slices.Equal(found, body) {
		return nil
	}
	return err
}

// Release ends a pin.
func (p *Pin) Release(ctx context.Context) error { return p.o.remove(ctx, p.key) }

// pinSeen is when a leader first saw a pin as it is.
type pinSeen struct {
	tag  bucket.ETag
	when time.Duration
}

// Retain makes the newest point that is not above floor the oldest one that is kept, and deletes
// what only older ones need, unless a pin keeps it. One goroutine calls Retain and Erase.
//
// HEAD says so first. Then the pins are listed, and then files are deleted, points, and chunks. A
// crash in between leaves what the next Retain deletes. A point that cannot be read keeps all files,
// and its error is returned once all else is done. Fences stay for ever: where one was, a
// leader that wakes after a long time could put its chunk.
func (l *Leader) Retain(ctx context.Context, floor base.LSN) error {
	to, err := l.newFloor(ctx, floor)
	if err != nil {
		return err
	}
	_, err = l.retainFrom(ctx, to, false)
	return err
}

// Erase is Retain for who must know that nothing from before the newest point at floor is left, not even files that no point
// has, nor an earlier point behind the same record. No file may be on its way to the bucket. It returns false while a pin
// keeps something, and then Erase is called again.
//
// A request that an earlier leader sent before it was deposed may still land, for as long as the bucket takes it; the
// next Retain deletes what it brought.
func (l *Leader) Erase(ctx context.Context, floor base.LSN) (done bool, err error) {
	to, err := l.newFloor(ctx, floor)
	if err != nil {
		return false, err
	}
	if to.LSN != floor {
		return false, fmt.Errorf("the point at record %d cannot be read", floor)
	}
	if free, err := l.supersede(ctx, to); err != nil || !free {
		return false, err
	}
	kept, err := l.retainFrom(ctx, to, true)
	return kept >= floor, err
}

// supersede removes from HEAD all points behind a record but the newest, whose files may have less than theirs. It returns false
// while a pin may keep one of them.
func (l *Leader) supersede(ctx context.Context, to Position) (free bool, err error) {
	points := slices.DeleteFunc(slices.Clone(l.lease.current().Points), func(p PointRef) bool { return p.LSN != to.LSN })
	if len(points) < 2 {
		return true, nil
	}
	if err := l.raiseFloor(ctx, to); err != nil {
		return false, err
	}
	above := to
	above.LSN++
	if limit, err := l.pinned(ctx, above); err != nil || limit.LSN <= to.LSN {
		return false, err
	}
	older := points[:len(points)-1]
	return true, l.update(ctx, func(h *head) {
		h.Points = slices.DeleteFunc(h.Points, func(p PointRef) bool { return slices.Contains(older, p) })
	})
}

// retainFrom deletes what only points below a position need, and returns the record from which on all is kept. With
// all it deletes files of this leader that no point has, too.
func (l *Leader) retainFrom(ctx context.Context, to Position, all bool) (base.LSN, error) {
	if err := l.raiseFloor(ctx, to); err != nil {
		return 0, err
	}
	limit, err := l.pinned(ctx, l.lease.current().Floor)
	if err != nil {
		return 0, err
	}
	err = l.dropPoints(ctx, limit.LSN, all)
	if err != nil && !unreadable(err) {
		return 0, err
	}
	return limit.LSN, errors.Join(err, l.dropChunks(ctx, limit)) // chunks need no point
}

// newFloor is the newest point that is not above an LSN, or the floor as it is.
func (l *Leader) newFloor(ctx context.Context, lsn base.LSN) (Position, error) {
	h := l.lease.current()
	for _, ref := range slices.Backward(h.Points) {
		if ref.LSN > lsn {
			continue
		}
		p, err := l.o.point(ctx, ref.key())
		switch {
		case err == nil:
			return p.Position, nil
		case !unreadable(err) && !errors.Is(err, ErrPointGone):
			return h.Floor, err
		} // an older one does as well
	}
	return h.Floor, nil
}

// raiseFloor says in HEAD what is kept. It succeeds only for who leads.
func (l *Leader) raiseFloor(ctx context.Context, to Position) error {
	return l.update(ctx, func(h *head) {
		if h.Floor.LSN < to.LSN { // an earlier write may have landed late
			h.Floor = to
		}
		h.Epochs = slices.DeleteFunc(h.Epochs, func(e epoch) bool { return e.Epoch < h.Floor.Epoch })
		h.Points = slices.DeleteFunc(h.Points, func(p PointRef) bool { return p.LSN < h.Floor.LSN })
	})
}

// pinned is the position below which nothing is needed: the floor, or the lowest that a pin keeps.
// It removes pins that nobody has renewed for long.
func (l *Leader) pinned(ctx context.Context, limit Position) (Position, error) {
	seen := map[string]pinSeen{}
	err := l.o.list(ctx, pinPrefix, func(e bucket.Entry) error {
		now := l.o.Clock()
		if s, ok := l.pins[e.Key]; ok && s.tag == e.ETag {
			seen[e.Key] = s
		} else {
			seen[e.Key] = pinSeen{e.ETag, now}
		}
		if now-seen[e.Key].when >= pinLapse {
			delete(seen, e.Key)
			return l.o.remove(ctx, e.Key)
		}
		b, _, err := l.o.get(ctx, e.Key, maxHead, "")
		if errors.Is(err, bucket.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		var p pin
		if err := decodeText(e.Key, "pin", b, &p); err != nil {
			return err
		}
		if p.Format > HeadVersion {
			return &fault.VersionError{File: e.Key, Have: p.Format, Supported: HeadVersion}
		}
		if p.Store != l.o.Store {
			return otherStore(e.Key, p.Store, l.o.Store)
		}
		if p.LSN < limit.LSN || p.before(limit) { // several points may lie within one chunk
			limit = p.Position
		}
		return nil
	})
	l.pins = seen
	return limit, err
}

// unreadable reports whether an error stays, however often an object is read.
func unreadable(err error) bool {
	return errors.Is(err, fault.ErrCorrupt) || errors.Is(err, fault.ErrVersion)
}

// dropPoints deletes the points below an LSN and those that HEAD does not have, and before each
// the files that no other one needs. Then it deletes the files of earlier leaders that no point has; with all, its
// own too. While a point that is kept cannot be read, all files are, and it returns the error at its end.
func (l *Leader) dropPoints(ctx context.Context, limit base.LSN, all bool) error {
	kept := map[string]bool{}
	drop := map[string][]File{}
	var unread error
	err := l.o.list(ctx, pointPrefix, func(e bucket.Entry) error {
		ref, ok := parsePoint(e.Key)
		if !ok {
			return nil // none of ours
		}
		p, err := l.o.point(ctx, e.Key)
		switch {
		case errors.Is(err, ErrPointGone):
		case err != nil && !unreadable(err):
			return err
		case err != nil && l.stays(limit, ref):
			unread = errors.Join(unread, err)
		case err != nil:
			drop[e.Key] = nil
		case l.stays(limit, ref):
			for _, f := range p.Files {
				kept[f.Key] = true
			}
		default:
			drop[e.Key] = p.Files
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(drop)) {
		var files []string
		for _, f := range drop[key] {
			if !kept[f.Key] && strings.HasPrefix(f.Key, filePrefix) && unread == nil {
				files = append(files, f.Key)
				l.dropped[f.Key] = true // the deletion may come late
			}
		}
		if err := l.o.remove(ctx, files...); err != nil {
			return err
		}
		if err := l.o.remove(ctx, key); err != nil {
			return err
		}
	}
	if unread != nil {
		return unread
	}
	return l.dropFiles(ctx, kept, all)
}

// dropFiles deletes the files of earlier leaders, and with all its own, but those that are kept: one that was deposed
// before it made its point leaves some. No later point gets them, since it has those of the newest alone.
func (l *Leader) dropFiles(ctx context.Context, kept map[string]bool, all bool) error {
	var drop []string
	err := l.o.list(ctx, filePrefix, func(e bucket.Entry) error {
		own := strings.HasPrefix(e.Key, l.FileKey(""))
		if e.Key >= l.FileKey("") && !(own && all) {
			return errStop
		}
		if !kept[e.Key] {
			drop = append(drop, e.Key)
			if own {
				l.dropped[e.Key] = true // the deletion may come late
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return l.o.remove(ctx, drop...)
}

// stays reports whether a point is kept: HEAD has it, or it is below the floor and a pin may need
// it. This leader may have been deposed since it looked, so it leaves alone what a later one made.
func (l *Leader) stays(limit base.LSN, p PointRef) bool {
	h := l.lease.current()
	return p.LSN >= limit && (p.LSN < h.Floor.LSN || p.Epoch > l.epoch ||
		slices.ContainsFunc(h.Points, func(q PointRef) bool { return comparePoints(p, q) == 0 }))
}

// dropChunks deletes the chunks before a position, and what lies behind fences before it, but no
// fence.
func (l *Leader) dropChunks(ctx context.Context, limit Position) error {
	var drop []string
	end := chunkKey(limit.Epoch, limit.Seq)
	err := l.o.list(ctx, chunkPrefix, func(e bucket.Entry) error {
		if e.Key >= end {
			return errStop
		}
		if e.Size > headerSize {
			drop = append(drop, e.Key)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return l.o.remove(ctx, drop...)
}
