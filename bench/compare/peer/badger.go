package peer

import (
	"errors"

	"github.com/dgraph-io/badger/v4"
)

type badgerKV struct{ db *badger.DB }

func openBadger(o Options) (Store, error) {
	db, err := badger.Open(badger.DefaultOptions(o.Dir).WithLogger(nil).WithSyncWrites(o.Mode == Durable).
		WithDetectConflicts(false).WithMetricsEnabled(false).WithBlockCacheSize(32 << 20))
	if err != nil {
		return nil, err
	}
	return &kvStore{&badgerKV{db}}, nil
}

func (k *badgerKV) update(rows []row) error {
	return k.db.Update(func(tx *badger.Txn) error {
		for _, r := range rows {
			if err := tx.Set(r.key, r.value); err != nil {
				return err
			}
		}
		return nil
	})
}

func (k *badgerKV) view(fn func(reader) error) error {
	return k.db.View(func(tx *badger.Txn) error { return fn(badgerReader{tx}) })
}

type badgerReader struct{ tx *badger.Txn }

func (r badgerReader) get(key []byte) ([]byte, error) {
	it, err := r.tx.Get(key)
	if errors.Is(err, badger.ErrKeyNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return it.ValueCopy(nil)
}

func (r badgerReader) scan(prefix []byte, reverse bool, each func(k, v []byte) (bool, error)) error {
	it := r.tx.NewIterator(badger.IteratorOptions{PrefetchValues: false, Reverse: reverse, Prefix: prefix})
	defer it.Close()
	from := prefix
	if reverse {
		from = append(append([]byte{}, prefix...), 0xff)
	}
	for it.Seek(from); it.ValidForPrefix(prefix); it.Next() {
		key := it.Item().KeyCopy(nil)
		more := false
		err := it.Item().Value(func(v []byte) (err error) {
			more, err = each(key, v)
			return err
		})
		if err != nil || !more {
			return err
		}
	}
	return nil
}

// flush has nothing to do after a Close, which writes the tables in memory out; Badger offers no
// other way.
func (k *badgerKV) flush() error { return k.db.Sync() }

func (k *badgerKV) compact() error { return k.db.Flatten(2) }

func (k *badgerKV) syncs() (int64, bool) { return 0, false }

func (k *badgerKV) close() error { return k.db.Close() }
