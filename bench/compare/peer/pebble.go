package peer

import (
	"bytes"
	"context"
	"errors"

	"github.com/cockroachdb/pebble/v2"
)

type pebbleKV struct {
	db   *pebble.DB
	sync *pebble.WriteOptions
}

// quiet is a logger that says nothing.
type quiet struct{}

// Infof drops the message.
func (quiet) Infof(string, ...any) {}

// Errorf drops the message.
func (quiet) Errorf(string, ...any) {}

// Fatalf drops the message.
func (quiet) Fatalf(string, ...any) {}

// Eventf drops the message.
func (quiet) Eventf(context.Context, string, ...any) {}

// IsTracingEnabled says no.
func (quiet) IsTracingEnabled(context.Context) bool { return false }

func openPebble(o Options) (Store, error) {
	cache := pebble.NewCache(32 << 20)
	defer cache.Unref()
	db, err := pebble.Open(o.Dir, &pebble.Options{Cache: cache, MemTableSize: 16 << 20, Logger: quiet{},
		FormatMajorVersion: pebble.FormatNewest})
	if err != nil {
		return nil, err
	}
	k := &pebbleKV{db, pebble.Sync}
	if o.Mode == Relaxed {
		k.sync = pebble.NoSync
	}
	return &kvStore{k}, nil
}

func (k *pebbleKV) update(rows []row) error {
	b := k.db.NewBatch()
	defer func() { _ = b.Close() }()
	for _, r := range rows {
		if err := b.Set(r.key, r.value, nil); err != nil {
			return err
		}
	}
	return b.Commit(k.sync)
}

func (k *pebbleKV) view(fn func(reader) error) error { return fn(pebbleReader{k.db}) }

type pebbleReader struct{ db *pebble.DB }

func (r pebbleReader) get(key []byte) ([]byte, error) {
	v, closer, err := r.db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	v = bytes.Clone(v)
	return v, closer.Close()
}

func (r pebbleReader) scan(prefix []byte, reverse bool, each func(k, v []byte) (bool, error)) error {
	it, err := r.db.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: after(prefix)})
	if err != nil {
		return err
	}
	first, next := it.First, it.Next
	if reverse {
		first, next = it.Last, it.Prev
	}
	for ok := first(); ok; ok = next() {
		more, err := each(it.Key(), it.Value())
		if err != nil || !more {
			return errors.Join(err, it.Close())
		}
	}
	return it.Close()
}

func (k *pebbleKV) flush() error { return k.db.Flush() }

func (k *pebbleKV) compact() error {
	if err := k.db.Flush(); err != nil {
		return err
	}
	return k.db.Compact(context.Background(), []byte{0}, []byte{0xff}, true)
}

func (k *pebbleKV) syncs() (int64, bool) { return 0, false }

func (k *pebbleKV) close() error { return k.db.Close() }
