package transfer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/stele-go/stele/saver/serde"
	"github.com/stele-go/stele/store"
)

// ItemSource gives items of a long-term store.
type ItemSource interface {
	// Items yields the items below a namespace, itself included; nil is all. A *Rejected as
	// error says that one cannot be read; the iteration goes on after it. Any other error is
	// yielded once and last. Items that have expired are not yielded.
	Items(ctx context.Context, below store.Namespace) iter.Seq2[*store.Item, error]
}

// ItemTarget is the target of CopyItems, such as store.Local and the Store of package pgstore.
type ItemTarget interface {
	store.Store
	store.Restorer
}

// ItemReport says what a copy of items did.
type ItemReport struct {
	Items    int `json:"items"`    // that are in the target now
	Copied   int `json:"copied"`   // that were not there before
	Replaced int `json:"replaced"` // that were there with other content
	Rejected int `json:"rejected"` // that were not copied; see Rejected
	Verified int `json:"verified"` // that were read back and are equal
}

// FromStore returns a store as a source. It must be a store.Scanner, as those of stele are. A store
// that is reached over the wire does not report the TTL of its items.
func FromStore(s store.Store) ItemSource { return storeSource{s} }

type storeSource struct{ s store.Store }

// Items implements ItemSource.
func (f storeSource) Items(ctx context.Context, below store.Namespace) iter.Seq2[*store.Item, error] {
	return func(yield func(*store.Item, error) bool) {
		scanner, ok := f.s.(store.Scanner)
		if !ok {
			yield(nil, fmt.Errorf("a %T is no store.Scanner", f.s))
			return
		}
		for found, err := range scanner.Scan(ctx, store.Query{Prefix: below, ByKey: true, NoRefresh: true}) {
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(&found.Item, nil) {
				return
			}
		}
	}
}

// ErrItemDiffers: an item is in the target with other content, and Options.Replace is not set.
var ErrItemDiffers = errors.New("the item is in the target with other content")

// The items of a batch are read, and written, with one call. A batch ends at either of these bounds.
const (
	itemBatch      = 200
	itemBatchBytes = 8 << 20
)

// CopyItems copies the items of src below a namespace, nil for all, to dst, with their times and their
// lives, and reads them back. Of o it takes Replace, Refused, Reject and Progress.
//
// An equal item that is there is left alone; its expiry is not compared, since reads move it. One that
// is there with other content ends the copy with ErrItemDiffers, unless o.Replace is set. So a copy
// that was killed, at any moment, is continued by the same call. Vectors are not copied: where dst has
// an index, it makes them.
func CopyItems(ctx context.Context, src ItemSource, dst ItemTarget, below store.Namespace, o Options) (ItemReport, error) {
	c := &itemCopier{o: o, dst: dst}
	for it, err := range src.Items(ctx, below) {
		var r *Rejected
		switch {
		case errors.As(err, &r):
			if err := c.o.reject(&c.rep.Rejected, r); err != nil {
				return c.rep, err
			}
			continue
		case err != nil:
			return c.rep, err
		}
		value, err := valueOf(it)
		if err != nil {
			if err := c.o.reject(&c.rep.Rejected, rejectedItem(it, err)); err != nil {
				return c.rep, err
			}
			continue
		}
		c.batch, c.values, c.size = append(c.batch, *it), append(c.values, value), c.size+len(value.Data)
		if len(c.batch) >= itemBatch || c.size >= itemBatchBytes {
			if err := c.flush(ctx); err != nil {
				return c.rep, err
			}
		}
	}
	return c.rep, c.flush(ctx)
}

// itemCopier is one CopyItems.
type itemCopier struct {
	o     Options
	dst   ItemTarget
	rep   ItemReport
	batch []store.Item
	// values are the encoded values of the batch, and size is their bytes.
	values []serde.Typed
	size   int
}

// valueOf is the value of an item as bytes, by which items are compared: a NaN is not equal to
// itself, and its bytes are.
func valueOf(it *store.Item) (serde.Typed, error) {
	return PassEncrypted(serde.Default()).Encode(it.Value)
}

// flush brings the batch to the target, reads it back and counts it.
func (c *itemCopier) flush(ctx context.Context) error {
	batch, values := c.batch, c.values
	c.batch, c.values, c.size = nil, nil, 0
	if len(batch) == 0 {
		return ctx.Err()
	}
	there, err := c.read(ctx, batch)
	if err != nil {
		return err
	}
	var puts []store.Item
	equal := make([]bool, len(batch)) // to what was there
	for i := range batch {
		equal[i] = sameItem(there[i], &batch[i], values[i])
		switch {
		case there[i] == nil:
			puts = append(puts, batch[i])
		case equal[i]:
		case !c.o.Replace:
			return fmt.Errorf("key %q in namespace %q: %w", batch[i].Key, []string(batch[i].Namespace), ErrItemDiffers)
		default:
			puts = append(puts, batch[i])
		}
	}
	refused, err := c.put(ctx, puts)
	if err != nil {
		return err
	}
	now, err := c.read(ctx, batch)
	if err != nil {
		return err
	}
	for i := range batch {
		it := &batch[i]
		expired := !it.ExpiresAt.IsZero() && !time.Now().Before(it.ExpiresAt)
		switch {
		case refused[address(it)], now[i] == nil && expired: // which is gone by right
			continue
		case !sameItem(now[i], it, values[i]):
			return fmt.Errorf("key %q in namespace %q: %w", it.Key, []string(it.Namespace), ErrNotEqual)
		}
		c.rep.Verified++
		c.rep.Items++
		switch {
		case there[i] == nil:
			c.rep.Copied++
		case !equal[i]:
			c.rep.Replaced++
		}
	}
	if c.o.Progress != nil {
		c.o.Progress("items", c.rep.Items)
	}
	return nil
}

// address returns the namespace and key of an item, as text.
func address(it *store.Item) string { return fmt.Sprintf("%q %q", []string(it.Namespace), it.Key) }

// put restores items, and those that the target refuses one by one, so that one does not keep the
// others back.
func (c *itemCopier) put(ctx context.Context, items []store.Item) (refused map[string]bool, err error) {
	err = c.dst.Restore(ctx, items...)
	if err == nil || !c.o.refused(err) {
		return nil, err
	}
	refused = map[string]bool{}
	for i := range items {
		err := c.dst.Restore(ctx, items[i])
		if err == nil {
			continue
		}
		if !c.o.refused(err) {
			return nil, err
		}
		refused[address(&items[i])] = true
		if err := c.o.reject(&c.rep.Rejected, rejectedItem(&items[i], err)); err != nil {
			return nil, err
		}
	}
	return refused, nil
}

func rejectedItem(it *store.Item, why error) *Rejected {
	r := &Rejected{What: "item", Name: address(it), Reason: why}
	if typed, err := valueOf(it); err == nil {
		r.Kind, r.Raw = typed.Kind, typed.Data
	}
	return r
}

// read returns the items of the target under the keys of items; nil where it has none.
func (c *itemCopier) read(ctx context.Context, items []store.Item) ([]*store.Item, error) {
	found := make([]*store.Item, len(items))
	ops := make([]store.Op, len(items))
	for i := range items {
		ops[i] = store.GetOp{Namespace: items[i].Namespace, Key: items[i].Key, NoRefresh: true}
	}
	results, err := c.dst.Batch(ctx, ops...)
	if err == nil {
		for i := range results {
			found[i] = results[i].Item
		}
		return found, nil
	}
	if !c.o.refused(err) { // a name that the target cannot hold is refused by the put
		return nil, err
	}
	for i := range ops {
		result, err := c.dst.Batch(ctx, ops[i])
		if err == nil {
			found[i] = result[0].Item
		} else if !c.o.refused(err) {
			return nil, err
		}
	}
	return found, nil
}

// sameItem reports whether a is not nil and equal to b, whose value is value. Expiry is not compared.
func sameItem(a, b *store.Item, value serde.Typed) bool {
	if a == nil || a.Key != b.Key || !slices.Equal(a.Namespace, b.Namespace) || a.TTL != b.TTL || a.ExpiresAt.IsZero() != b.ExpiresAt.IsZero() ||
		!a.CreatedAt.Equal(b.CreatedAt) || !a.UpdatedAt.Equal(b.UpdatedAt) {
		return false
	}
	x, err := valueOf(a)
	return err == nil && x.Kind == value.Kind && bytes.Equal(x.Data, value.Data)
}
