package replica

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/replica/bucket"
)

// Point is where a restore can begin: the files that hold all records up to its LSN. It is an
// object that never changes.
type Point struct {
	Format uint32 `json:"format"`
	Store  uint64 `json:"store"`
	Position
	Files []File `json:"files"`
}

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
// A crash leaves a point that HEAD does not name, which is as good as any.
func (l *Leader) CreatePoint(ctx context.Context, at base.LSN, files []File) (*Point, error) {
	if err := l.Renew(ctx); err != nil { // HEAD has all that is synced
		return nil, err
	}
	h := l.lease.current()
	if at > h.End.LSN {
		return nil, fmt.Errorf("a point at record %d: the lineage has %d", at, h.End.LSN)
	}
	known := map[string]bool{}
	if h.Newest != nil {
		newest, err := l.o.point(ctx, pointKey(h.Newest.LSN, h.NewestBy))
		if err != nil {
			return nil, err
		}
		for _, f := range newest.Files {
			known[f.Key] = true
		}
	}
	for _, f := range files {
		if !known[f.Key] && !strings.HasPrefix(f.Key, l.FileKey("")) {
			return nil, fmt.Errorf("%s is neither of this leader nor in the newest point", f.Key)
		}
	}
	pos, err := l.o.locate(ctx, h, at)
	if err != nil {
		return nil, err
	}
	p := &Point{Format: HeadVersion, Store: l.o.Store, Position: pos, Files: files}
	body, err := encodeText(p)
	if err != nil {
		return nil, err
	}
	if len(body) > maxPoint {
		return nil, fmt.Errorf("a point of %d bytes has too many files", len(body))
	}
	key := pointKey(at, l.epoch)
	if found, err := l.o.create(ctx, key, body); err != nil {
		if found != nil {
			return nil, fmt.Errorf("%s is there already, with other files", key)
		}
		return nil, err
	}
	return p, l.update(ctx, func(h *head) {
		if h.Newest == nil || h.Newest.LSN <= at {
			h.Newest, h.NewestBy = &pos, l.epoch
		}
	})
}

// Points returns the keys of the points that can be restored, oldest first.
func Points(ctx context.Context, o Options) ([]string, error) {
	o = o.withDefaults()
	h, err := o.readHead(ctx)
	if err != nil {
		return nil, err
	}
	return o.pointsFrom(ctx, h.Floor.LSN)
}

func (o *Options) pointsFrom(ctx context.Context, floor base.LSN) (keys []string, err error) {
	err = o.list(ctx, pointPrefix, func(e bucket.Entry) error {
		if lsn, ok := pointLSN(e.Key); ok && lsn >= floor {
			keys = append(keys, e.Key)
		}
		return nil
	})
	return keys, err
}

// ReadPoint reads a point by its key.
func ReadPoint(ctx context.Context, o Options, key string) (*Point, error) {
	o = o.withDefaults()
	return o.point(ctx, key)
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
	if lsn, ok := pointLSN(key); !ok || lsn != p.LSN || p.Epoch > maxEpoch || p.Seq > maxSeq {
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

// TakePin keeps all from a position on. An Owner has one pin at a time. It writes the pin, and then reads HEAD: a leader raises
// the floor, and then lists pins, so one of them sees the other.
//
// Errors: ErrPointGone.
func TakePin(ctx context.Context, o Options, at Position) (*Pin, error) {
	p := &Pin{o: o.withDefaults(), body: pin{Format: HeadVersion, Store: o.Store, Position: at}}
	p.key = pinPrefix + p.o.Owner
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
	tag, err := p.o.put(ctx, p.key, body, cond)
	if err == nil {
		p.tag = tag
		return nil
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
// what only older ones need, unless a pin keeps it. One goroutine calls it.
//
// HEAD says so first. Then the pins are listed, and then files are deleted, points, and chunks. A
// crash in between leaves what the next Retain deletes. Fences stay for ever: where one was, a
// leader that wakes after a long time could put its chunk.
func (l *Leader) Retain(ctx context.Context, floor base.LSN) error {
	to, err := l.newFloor(ctx, floor)
	if err != nil {
		return err
	}
	if err := l.raiseFloor(ctx, to); err != nil {
		return err
	}
	limit, err := l.pinned(ctx, to)
	if err != nil {
		return err
	}
	if err := l.dropPoints(ctx, limit.LSN); err != nil {
		return err
	}
	return l.dropChunks(ctx, limit)
}

// newFloor is the newest point that is not above an LSN, or the floor as it is.
func (l *Leader) newFloor(ctx context.Context, lsn base.LSN) (Position, error) {
	old := l.lease.current().Floor
	keys, err := l.o.pointsFrom(ctx, old.LSN+1)
	if err != nil {
		return old, err
	}
	for _, key := range slices.Backward(keys) {
		if at, _ := pointLSN(key); at > lsn {
			continue
		}
		p, err := l.o.point(ctx, key)
		if err != nil {
			return old, err
		}
		return p.Position, nil
	}
	return old, nil
}

// raiseFloor says in HEAD what is kept. It succeeds only for who leads.
func (l *Leader) raiseFloor(ctx context.Context, to Position) error {
	return l.update(ctx, func(h *head) {
		h.Floor = to
		h.Epochs = slices.DeleteFunc(h.Epochs, func(e epoch) bool { return e.Epoch < to.Epoch })
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
		if p.before(limit) {
			limit = p.Position
		}
		return nil
	})
	l.pins = seen
	return limit, err
}

// dropPoints deletes the points below an LSN, and before each the files that no later one has.
func (l *Leader) dropPoints(ctx context.Context, limit base.LSN) error {
	keys, err := l.o.pointsFrom(ctx, 0)
	if err != nil {
		return err
	}
	kept := map[string]bool{}
	for _, key := range slices.Backward(keys) {
		p, err := l.o.point(ctx, key)
		if err != nil {
			return err
		}
		if p.LSN >= limit {
			for _, f := range p.Files {
				kept[f.Key] = true
			}
			continue
		}
		var drop []string
		for _, f := range p.Files {
			if !kept[f.Key] && strings.HasPrefix(f.Key, filePrefix) {
				drop = append(drop, f.Key)
			}
		}
		if err := l.o.remove(ctx, drop...); err != nil {
			return err
		}
		if err := l.o.remove(ctx, key); err != nil {
			return err
		}
	}
	return nil
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
