package replica

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/replica/bucket"
)

// written notes what was put.
func (w *world) written(key string, from *io.SectionReader) {
	w.tell("  %s is written", key)
	body, err := io.ReadAll(io.NewSectionReader(from, 0, from.Size()))
	if err != nil {
		w.fail("read what was put: %v", err)
	}
	if bytes.HasPrefix(body, fenceMagic[:]) {
		w.fences[key] = true
		w.stats["fences"]++
	}
	if key == headKey {
		h, err := decodeHead(testStore, body)
		if err != nil {
			w.fail("HEAD: %v", err)
			return
		}
		if h.Floor.LSN < w.head.Floor.LSN {
			w.fail("the floor falls from %d to %d", w.head.Floor.LSN, h.Floor.LSN)
		}
		if h.Epoch > w.head.Epoch && w.bold[h.Owner] {
			w.forced[h.Epoch] = true
		}
		w.head = *h
	}
}

// deleted checks that an object may be deleted.
func (w *world) deleted(key string) {
	w.tell("  %s is deleted", key)
	if w.fences[key] {
		w.fail("the fence %s is deleted", key)
	}
	if strings.HasPrefix(key, chunkPrefix) {
		w.stats["deleted chunks"]++
		if key >= chunkKey(w.head.Floor.Epoch, w.head.Floor.Seq) {
			w.fail("%s is deleted, and the floor is %+v", key, w.head.Floor)
		}
	}
}

// rejoin replaces the disk by a point.
func (n *node) rejoin() Position {
	ctx, o := context.Background(), n.options()
	keys, err := Points(ctx, o)
	n.w.check(err)
	if err != nil || len(keys) == 0 {
		return Position{}
	}
	p, err := ReadPoint(ctx, o, keys[n.w.rng.IntN(len(keys))])
	if err != nil {
		n.w.check(err)
		return Position{}
	}
	d, err := readPoint(ctx, o, p)
	if err != nil {
		n.w.check(err)
		return Position{}
	}
	n.wipe()
	n.d = d
	return p.Position
}

// readPoint reads the files of a point.
func readPoint(ctx context.Context, o Options, p *Point) (*disk, error) {
	d := newDisk()
	o = o.withDefaults()
	for _, f := range p.Files {
		b, _, err := o.get(ctx, f.Key, 1<<20, "")
		if err != nil {
			return nil, err
		}
		var records [][]byte
		if err := json.Unmarshal(b, &records); err != nil {
			return nil, err
		}
		d.add(records...)
	}
	if d.End() != p.LSN || d.chains[p.LSN] != p.Chain {
		return nil, fmt.Errorf("the files of point %d have %d records, or others", p.LSN, d.End())
	}
	return d, nil
}

// reader restores under a pin, from any point.
func (n *node) reader() {
	ctx, w := context.Background(), n.w
	for {
		for range 1 + w.rng.IntN(100) {
			w.giveWay()
		}
		n.life++
		o := n.options()
		keys, err := Points(ctx, o)
		w.check(err)
		if err != nil || len(keys) == 0 {
			continue
		}
		p, err := ReadPoint(ctx, o, keys[w.rng.IntN(len(keys))])
		w.check(err)
		if err != nil {
			continue
		}
		pin, err := TakePin(ctx, o, p.Position)
		w.check(err)
		if err != nil {
			continue
		}
		again := func(do func() error) { // pinned, so it can be done
			for {
				err := do()
				if err == nil {
					return
				}
				if errors.Is(err, ErrPointGone) || errors.Is(err, bucket.ErrNotFound) {
					w.fail("the pin of %d is not kept: %v", p.LSN, err)
					return
				}
				w.check(err)
			}
		}
		if w.rng.IntN(3) == 0 {
			for range w.rng.IntN(80) {
				w.giveWay() // meanwhile retention runs
			}
		}
		var d *disk
		again(func() (err error) { d, err = readPoint(ctx, o, p); return err })
		if w.failed != nil {
			return
		}
		var f *Follower
		again(func() (err error) { f, err = Follow(ctx, o, d, p.Position); return err })
		for w.failed == nil {
			var batches []Batch
			again(func() (err error) { batches, err = f.Next(ctx); return err })
			if len(batches) == 0 {
				break
			}
			if err := d.apply(batches); err != nil {
				w.fail("a reader: %v", err)
			}
			for range w.rng.IntN(30) {
				w.giveWay() // it takes its time
			}
			again(func() error {
				if w.rng.IntN(4) > 0 {
					return nil
				}
				if err := pin.Beat(ctx); !errors.Is(err, bucket.ErrCondition) {
					return err
				}
				return nil
			})
		}
		w.read = append(w.read, d)
		w.stats["pinned reads"]++
		_ = pin.Release(ctx) // it may fail
	}
}

// restore reads the bucket as it is now, from a point that is drawn.
func (w *world) restore() *disk {
	clear(w.unsynced)
	ctx := context.Background()
	o := Options{Bucket: w.m, Store: testStore, Dir: "restore"}
	keys, err := Points(ctx, o)
	if len(keys) == 0 {
		if err != nil && !errors.Is(err, ErrNoLineage) {
			w.fail("restore: %v", err)
		}
		return newDisk()
	}
	d, err := readAll(ctx, o, keys[w.rng.IntN(len(keys))])
	if err != nil {
		w.fail("restore from %v: %v", keys, err)
		return newDisk()
	}
	for lsn, r := range w.acked {
		if lsn > d.End() || !bytes.Equal(d.records[lsn-1], r) {
			w.fail("record %d was acknowledged as %q and is not in the bucket, which ends at %d", lsn, r, d.End())
		}
	}
	if n := d.End(); n > 0 {
		var i, count int
		if _, err := fmt.Sscanf(string(d.records[n-1]), "%d/%d ", &i, &count); err != nil || i != count {
			w.fail("a restore ends within a batch: %q", d.records[n-1])
		}
	}
	return d
}

// readAll reads the bucket to its end, from a point on.
func readAll(ctx context.Context, o Options, from PointRef) (*disk, error) {
	p, err := ReadPoint(ctx, o, from)
	if err != nil {
		return nil, err
	}
	d, err := readPoint(ctx, o, p)
	if err != nil {
		return nil, err
	}
	f, err := Follow(ctx, o, d, p.Position)
	for err == nil {
		var batches []Batch
		if batches, err = f.Next(ctx); len(batches) == 0 {
			break
		}
		err = d.apply(batches)
	}
	return d, err
}

// damage deletes a chunk that a restore needs, as no leader does. The restore must say so.
func (w *world) damage() {
	if w.failed != nil || len(w.head.Points) == 0 {
		return
	}
	ctx, o := context.Background(), Options{Bucket: w.m, Store: testStore, Dir: "restore"}
	p, err := ReadPoint(ctx, o, w.head.Points[0])
	if err != nil {
		w.fail("the oldest point: %v", err)
		return
	}
	entries, err := w.m.List(ctx, chunkPrefix, "")
	if err != nil {
		w.fail("list: %v", err)
	}
	fenced := "" // the epoch of the last fence
	entries = slices.DeleteFunc(entries, func(e bucket.Entry) bool {
		from, to := p.Position, w.head.End
		if path.Dir(e.Key) == fenced {
			return true // behind its fence
		}
		if w.fences[e.Key] {
			fenced = path.Dir(e.Key)
		}
		return e.Key < chunkKey(from.Epoch, from.Seq) || e.Key >= chunkKey(to.Epoch, to.Seq)
	})
	if len(entries) == 0 {
		return
	}
	key := entries[w.rng.IntN(len(entries))].Key
	_ = w.m.Delete(ctx, key) // it cannot fail
	if _, err = readAll(ctx, o, w.head.Points[0]); !errors.Is(err, fault.ErrCorrupt) {
		w.fail("%s is missing, and a restore says: %v", key, err)
	}
	w.stats["missing chunks"]++
}
