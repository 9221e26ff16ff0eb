package cache

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"maps"
	"math"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/engine"

	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/saver/layout"
	"github.com/stele-go/stele/saver/serde"
)

// Keys of the engine: docs/format/key.md. A group is a partition of the engine whose id is
// "n" and the group. An entry is an item under "k" and its key. The item has one slot. The
// slot holds the value, and its name is a note: see encodeNote.

const prefixEntry = "k"

const noteFormat = 1

// encodeNote encodes what the index has of an entry: when it expires, in unix µs or 0 for
// never, and its size.
func encodeNote(expires, size int64) string {
	b := binary.AppendUvarint([]byte{noteFormat}, uint64(expires))
	return string(binary.AppendUvarint(b, uint64(size)))
}

// decodeNote reads what encodeNote wrote. ok is false for anything else.
func decodeNote(s string) (expires, size int64, ok bool) {
	if s == "" || s[0] != noteFormat {
		return 0, 0, false
	}
	b := []byte(s[1:])
	x, w := binary.Uvarint(b)
	if w <= 0 || x > math.MaxInt64 {
		return 0, 0, false
	}
	n, v := binary.Uvarint(b[w:])
	if v <= 0 || n > math.MaxInt64 || w+v != len(b) {
		return 0, 0, false
	}
	return int64(x), int64(n), true
}

// Disk is a Cache in the directory of a durable saver.
type Disk struct {
	e     *engine.Engine
	m     *engine.ReadCounts
	opts  Options
	added atomic.Int64 // bytes since the last Trim, or math.MinInt64 while one runs
}

var _ Cache = (*Disk)(nil)

// On returns the cache in the directory of d. Several caches on one saver see the same
// entries. An entry is as durable as d's Sync mode says. Errors: saver.InvalidError.
func On(d *disk.Saver, opts Options) (*Disk, error) {
	if d == nil {
		return nil, saver.Invalidf("saver", "nil; open one with disk.Open")
	}
	if err := opts.validate(); err != nil {
		return nil, err
	}
	return &Disk{e: d.Inside().Engine, m: d.Inside().Counters, opts: opts}, nil
}

func partitionOf(group string) string { return layout.SpaceResults + group }

// Get implements Cache.
func (d *Disk) Get(ctx context.Context, keys ...Key) (map[Key]serde.Typed, error) {
	now, out := d.e.Now(), map[Key]serde.Typed{}
	for _, k := range keys {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		v, ok, err := d.read(ctx, k, now)
		if err != nil && !missed(err) {
			return nil, err
		}
		if ok && err == nil {
			out[k] = v
		}
	}
	d.m.Results(len(keys), len(out))
	return out, nil
}

// missed reports whether a read failed because of damage, or because the entry was removed
// during the read. Both count as a miss.
func missed(err error) bool {
	return errors.Is(err, fault.ErrCorrupt) || errors.Is(err, fault.ErrVersion) || errors.Is(err, engine.ErrNoValue)
}

func (d *Disk) read(ctx context.Context, k Key, now int64) (v serde.Typed, ok bool, err error) {
	t, err := d.e.Partition(partitionOf(k.NS))
	if err != nil || t == nil {
		return v, false, err
	}
	it := t.Get(prefixEntry + k.Key)
	if it == nil || it.Slots.Len() == 0 {
		return v, false, nil
	}
	expires, _, ok := decodeNote(it.Slots.At(0).Name)
	if !ok || expires != 0 && now >= expires {
		return v, false, nil
	}
	b, err := d.e.ReadValue(ctx, t.Family, it.Slots.At(0).Ref)
	if err != nil {
		return v, false, err
	}
	v, err = layout.UnpackTyped(b)
	return v, err == nil, err
}

// Set implements Cache. The entries are one commit.
func (d *Disk) Set(ctx context.Context, entries ...Entry) error {
	entries, err := latest(entries)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	partitions := map[string]bool{}
	vals, size := make([]engine.Value, len(entries)), int64(0)
	for i := range entries {
		e := &entries[i]
		partitions[partitionOf(e.Key.NS)] = true
		if vals[i], err = engine.NewValue(layout.KindPrefix(e.Value.Kind), e.Value.Data); err != nil {
			return err
		}
		if e.size() <= d.opts.MaxBytes {
			size += e.size()
		}
	}
	err = d.e.CommitWith(ctx, engine.CommitOptions{Size: size}, slices.Sorted(maps.Keys(partitions)), func(tx *engine.Tx) error {
		for i := range entries {
			if err := d.put(tx, &entries[i], &vals[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if d.added.Add(size) > d.opts.MaxBytes/8 {
		return d.Trim(ctx)
	}
	return nil
}

func (d *Disk) put(tx *engine.Tx, e *Entry, v *engine.Value) error {
	id, key := partitionOf(e.Key.NS), prefixEntry+e.Key.Key
	if e.size() > d.opts.MaxBytes {
		return removeAll(tx, id, key)
	}
	expires := int64(0)
	if e.TTL > 0 {
		expires = max(tx.Now()+e.TTL.Microseconds(), 1)
	}
	return tx.Put(id, key, 0, []engine.SlotIn{{Name: encodeNote(expires, e.size()), Value: v}})
}

// removeAll removes entries, and their group if it has no others.
func removeAll(tx *engine.Tx, id string, keys ...string) error {
	if tx.Partition(id) == nil {
		return nil
	}
	if err := tx.Delete(id, keys...); err != nil {
		return err
	}
	if t := tx.Partition(id); t.Last("") == nil {
		return tx.Drop(id, nil)
	}
	return nil
}

// Clear implements Cache.
func (d *Disk) Clear(ctx context.Context, groups ...string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	var ids []string
	for _, g := range groups {
		if err := (Key{NS: g}).check(); err != nil {
			return err
		}
		ids = append(ids, partitionOf(g))
	}
	if len(groups) == 0 {
		v, err := d.e.View()
		if err != nil {
			return err
		}
		err = v.Ascend(layout.SpaceResults, func(t *index.Partition) bool {
			if !strings.HasPrefix(t.ID, layout.SpaceResults) {
				return false
			}
			ids = append(ids, t.ID)
			return true
		})
		v.Release()
		if err != nil {
			return err
		}
	}
	return d.e.CommitWith(ctx, engine.CommitOptions{Urgent: true}, ids, func(tx *engine.Tx) error {
		for _, id := range ids {
			if err := tx.Drop(id, nil); err != nil {
				return err
			}
		}
		return nil
	})
}

// stored is an entry that Trim considers.
type stored struct {
	id, key string
	lsn     base.LSN
	size    int64
}

// Trim removes expired entries, and the oldest until the rest is within
// Options.MaxBytes. Set calls it when enough was added.
func (d *Disk) Trim(ctx context.Context) error {
	if d.added.Swap(math.MinInt64) < 0 {
		return nil // another call is running
	}
	defer d.added.Store(0)
	gone, err := d.excess()
	if err != nil || len(gone) == 0 {
		return err
	}
	byGroup := map[string][]stored{}
	for _, s := range gone {
		byGroup[s.id] = append(byGroup[s.id], s)
	}
	for id, list := range byGroup {
		err := d.e.CommitWith(ctx, engine.CommitOptions{Urgent: true}, []string{id}, func(tx *engine.Tx) error {
			t := tx.Partition(id)
			if t == nil {
				return nil
			}
			var keys []string
			for _, s := range list {
				if it := t.Get(s.key); it != nil && it.LSN == s.lsn {
					keys = append(keys, s.key)
				}
			}
			return removeAll(tx, id, keys...)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// excess are the entries that Trim removes.
func (d *Disk) excess() ([]stored, error) {
	v, err := d.e.View()
	if err != nil {
		return nil, err
	}
	defer v.Release()
	now, total := d.e.Now(), int64(0)
	var gone, rest []stored
	aerr := v.Ascend(layout.SpaceResults, func(t *index.Partition) bool {
		if !strings.HasPrefix(t.ID, layout.SpaceResults) {
			return false
		}
		loaded, e := v.Load(t)
		if missed(e) {
			return true // reads of its entries are misses, too
		}
		if err = e; err != nil {
			return false
		}
		loaded.Ascend("", func(it *index.Entry) bool {
			s := stored{id: t.ID, key: it.Key, lsn: it.LSN}
			expires, size, ok := int64(0), int64(0), false
			if it.Slots.Len() > 0 {
				expires, size, ok = decodeNote(it.Slots.At(0).Name)
			}
			if s.size = size; !ok || expires != 0 && now >= expires {
				gone = append(gone, s)
				return true
			}
			total += size
			rest = append(rest, s)
			return true
		})
		return true
	})
	if err == nil && !missed(aerr) {
		err = aerr
	}
	if err != nil {
		return nil, err
	}
	slices.SortFunc(rest, func(a, b stored) int { return cmp.Compare(a.lsn, b.lsn) })
	for i := 0; total > d.opts.MaxBytes; i++ {
		gone = append(gone, rest[i])
		total -= rest[i].size
	}
	return gone, nil
}
