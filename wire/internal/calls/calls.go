// Package calls remembers which calls of clients a store has done, so that a call that is
// asked again has the effect of one. A server uses it; docs/wire.md is the protocol.
//
// Each client has a partition of the engine, and each slot of the client an item there, with
// the number of the slot's last call that wrote, and its answer. The item is written in the
// transaction of the call's effect, before which it is compared: so whatever order calls come
// in, on whatever connection, before or after a crash, a call is done at most once, and none
// is done after a later one of its slot. Ids, names and values are not stored with it, so
// that what is erased is not found here.
package calls

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/stele-go/stele/engine"
	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/saver/layout"
)

// Keep is how long the calls of a client are remembered after its last one.
const Keep = time.Hour

// maxAnswer is the longest answer, in bytes, that is stored.
const maxAnswer = 1 << 10

// ErrStale: a later call of the same slot was done. This one has no effect.
var ErrStale = errors.New("a later call of the same slot was done")

// DoneError is returned for a call that was done before. Nothing was written again.
type DoneError struct {
	Answer []byte // what was stored with the call
}

// Error says that the call was done before.
func (*DoneError) Error() string { return "the call was done before" }

// ID names a call.
type ID struct {
	Client [16]byte
	Slot   uint16
	Number uint64
}

func (id ID) partition() string { return layout.SpaceCalls + string(id.Client[:]) }

func (id ID) key() string { return string(binary.BigEndian.AppendUint16(nil, id.Slot)) }

// check compares id with the last call stored for its slot.
func (id ID) check(t *index.Partition) error {
	if t == nil {
		return nil
	}
	it := t.Get(id.key())
	if it == nil || it.Slots.Len() == 0 {
		return nil
	}
	tag := it.Slots.At(0).Tag
	last, n := binary.Uvarint([]byte(tag))
	switch {
	case n <= 0:
		return fmt.Errorf("call of client %x: %w", id.Client, layout.AsCorrupt(layout.ErrRecord))
	case last == id.Number:
		return &DoneError{Answer: []byte(tag[n:])}
	case last > id.Number:
		return ErrStale
	}
	return nil
}

func (id ID) put(tx *engine.Tx, answer []byte) error {
	if len(answer) > maxAnswer {
		return fmt.Errorf("answer of %d bytes, the limit is %d", len(answer), maxAnswer)
	}
	tag := append(binary.AppendUvarint(nil, id.Number), answer...)
	return tx.Put(id.partition(), id.key(), 0, []engine.SlotIn{{Tag: string(tag)}})
}

// rider stores a call with the commit that has its effect.
type rider struct {
	ID
	encode func(answer any) []byte
}

// Partition implements engine.Rider.
func (r *rider) Partition() string { return r.partition() }

// Before implements engine.Rider.
func (r *rider) Before(tx *engine.Tx) error { return r.check(tx.Partition(r.partition())) }

// After implements engine.Rider.
func (r *rider) After(tx *engine.Tx, answer any) error { return r.put(tx, r.encode(answer)) }

// Size implements engine.Rider.
func (*rider) Size() int64 { return 64 }

// With returns a context for one method of a *disk.Saver, or of the store on it, that makes
// one commit: put, put writes, delete, copy, prune, delete for runs, count an attempt, set a
// TTL, a batch of items. The method then returns a *DoneError if the call was done before,
// and ErrStale if a later one of its slot was. Otherwise the call is stored in its commit,
// with what encode makes of the method's answer: of a saver.Removal or a count, nil for the
// other methods. encode runs on the committer and must not block; it returns at most 1 KiB.
func With(ctx context.Context, id ID, encode func(answer any) []byte) context.Context {
	return engine.WithRider(ctx, &rider{ID: id, encode: encode})
}

// Done looks up a call: a *DoneError if it was done, ErrStale if a later one of its slot was,
// and nil if neither is stored.
func Done(d *disk.Saver, id ID) error {
	t, err := d.Inside().Engine.Partition(id.partition())
	if err != nil {
		return err
	}
	return id.check(t)
}

// Store stores a call whose effect took several commits, behind them.
func Store(ctx context.Context, d *disk.Saver, id ID, answer []byte) error {
	return d.Inside().Engine.Commit(ctx, []string{id.partition()}, func(tx *engine.Tx) error {
		if err := id.check(tx.Partition(id.partition())); err != nil {
			return err
		}
		return id.put(tx, answer)
	})
}

// expireBatch is how many clients one commit of Expire forgets.
const expireBatch = 256

// Expire forgets the clients that have not called for Keep, by the store's clock, and returns
// how many.
func Expire(ctx context.Context, d *disk.Saver) (int, error) {
	e := d.Inside().Engine
	n := 0
	for from := layout.SpaceCalls; from != ""; {
		ids, next, err := idle(e, from)
		if err != nil {
			return n, err
		}
		if from = next; len(ids) == 0 {
			continue
		}
		gone := 0
		err = e.CommitWith(ctx, engine.CommitOptions{Urgent: true}, ids, func(tx *engine.Tx) error {
			gone = 0
			for _, id := range ids {
				if t := tx.Partition(id); t == nil || !isIdle(t, tx.Now()) {
					continue
				}
				if err := tx.Drop(id, nil); err != nil {
					return err
				}
				gone++
			}
			return nil
		})
		if err != nil {
			return n, err
		}
		n += gone
	}
	return n, nil
}

func isIdle(t *index.Partition, now int64) bool { return now-t.Updated > Keep.Microseconds() }

// idle returns clients, from a partition on, that have not called for long, and the partition to
// continue from; "" at the end.
func idle(e *engine.Engine, from string) (ids []string, next string, err error) {
	v, err := e.View()
	if err != nil {
		return nil, "", err
	}
	defer v.Release()
	now := e.Now()
	err = v.Ascend(from, func(t *index.Partition) bool {
		if !strings.HasPrefix(t.ID, layout.SpaceCalls) {
			return false
		}
		if isIdle(t, now) {
			ids = append(ids, t.ID)
		}
		if len(ids) == expireBatch {
			next = t.ID + "\x00"
		}
		return next == ""
	})
	return ids, next, err
}
