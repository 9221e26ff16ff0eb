package peer

import (
	"bytes"
	"path/filepath"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

var boltBucket = []byte("rows")

type boltKV struct {
	db    *bbolt.DB
	path  string
	batch bool // commits of several goroutines share one transaction
}

func openBolt(o Options) (Store, error) {
	path := filepath.Join(o.Dir, "bolt.db")
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{NoSync: o.Mode == Relaxed, Timeout: time.Minute, FreelistType: bbolt.FreelistMapType})
	if err != nil {
		return nil, err
	}
	db.MaxBatchDelay = 500 * time.Microsecond // the default of 10 ms is a third as fast here
	err = db.Update(func(tx *bbolt.Tx) error {
		_, err := tx.CreateBucket(boltBucket)
		if err == bolterrors.ErrBucketExists {
			return nil
		}
		return err
	})
	if err != nil {
		_ = db.Close()
		return nil, err
	}
	return &kvStore{&boltKV{db, path, o.Writers > 1}}, nil
}

func (k *boltKV) update(rows []row) error {
	put := func(tx *bbolt.Tx) error {
		b := tx.Bucket(boltBucket)
		for _, r := range rows {
			if err := b.Put(r.key, r.value); err != nil {
				return err
			}
		}
		return nil
	}
	if k.batch {
		return k.db.Batch(put)
	}
	return k.db.Update(put)
}

func (k *boltKV) view(fn func(reader) error) error {
	return k.db.View(func(tx *bbolt.Tx) error { return fn(boltReader{tx.Bucket(boltBucket)}) })
}

type boltReader struct{ b *bbolt.Bucket }

func (r boltReader) get(key []byte) ([]byte, error) { return bytes.Clone(r.b.Get(key)), nil }

func (r boltReader) scan(prefix []byte, reverse bool, each func(k, v []byte) (bool, error)) error {
	c := r.b.Cursor()
	k, v := c.Seek(prefix)
	next := c.Next
	if reverse {
		next = c.Prev
		if k, _ = c.Seek(after(prefix)); k == nil {
			k, v = c.Last()
		} else {
			k, v = c.Prev()
		}
	}
	for ; k != nil && bytes.HasPrefix(k, prefix); k, v = next() {
		if more, err := each(k, v); err != nil || !more {
			return err
		}
	}
	return nil
}

// flush syncs: a commit wrote the pages already.
func (k *boltKV) flush() error { return k.db.Sync() }

// compact does nothing: bbolt gives no space back but by copying the database
// while it is closed, and nothing is deleted here.
func (k *boltKV) compact() error { return nil }

func (k *boltKV) syncs() (int64, bool) { return 0, false }

func (k *boltKV) close() error { return k.db.Close() }
