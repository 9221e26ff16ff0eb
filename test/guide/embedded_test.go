package guide

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stele-go/stele/saver/admin"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/store"
)

type DB struct {
	files        *disk.Saver // the directory: sync, health, backup
	*store.Local             // the items in it
}

func openDB(dir string) (*DB, error) {
	files, err := disk.Open(dir, disk.Options{})
	if err != nil {
		return nil, err
	}
	items, err := store.On(files, store.Options{})
	if err != nil {
		return nil, errors.Join(err, files.Close())
	}
	return &DB{files, items}, nil
}

func (db *DB) Close() error { return errors.Join(db.Local.Close(), db.files.Close()) }

var photos = store.Namespace{"photos", "2026"}

func (db *DB) SetBytes(ctx context.Context, key string, b []byte) error {
	return db.Put(ctx, photos, key, map[string]any{"bytes": b})
}

func (db *DB) Bytes(ctx context.Context, key string) ([]byte, error) {
	item, err := db.Get(ctx, photos, key) // store.ErrNotFound
	if err != nil {
		return nil, err
	}
	b, _ := item.Value["bytes"].([]byte)
	return b, nil
}

func (db *DB) Rename(ctx context.Context, from, to string) error {
	b, err := db.Bytes(ctx, from)
	if err != nil {
		return err
	}
	_, err = db.Batch(ctx,
		store.PutOp{Namespace: photos, Key: to, Value: map[string]any{"bytes": b}},
		store.PutOp{Namespace: photos, Key: from}) // without a value it deletes
	return err
}

func (db *DB) Each(ctx context.Context, do func(key string, value map[string]any) error) error {
	for item, err := range db.Scan(ctx, store.Query{Prefix: photos, ByKey: true}) {
		if err != nil {
			return err
		}
		if err := do(item.Key, item.Value); err != nil {
			return err
		}
	}
	return nil
}

func (db *DB) Backup(ctx context.Context, dest string) error {
	_, err := admin.BackupOpen(ctx, db.files, dest, admin.BackupOptions{})
	return err
}

// TestEmbedded runs the page about the store alone, in a store, in the one that is opened again, and in its backup.
func TestEmbedded(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	open := func(name string, use func(db *DB)) {
		t.Helper()
		db, err := openDB(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		use(db)
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	picture := []byte{0, 1, 0xff, 0xfe}
	open("store", func(db *DB) {
		for _, key := range []string{"b", "a"} {
			if err := db.SetBytes(ctx, key, picture); err != nil {
				t.Fatal(err)
			}
		}
		if err := db.Rename(ctx, "b", "c"); err != nil {
			t.Fatal(err)
		}
		if err := db.Backup(ctx, filepath.Join(dir, "backup")); err != nil {
			t.Fatal(err)
		}
	})
	if _, err := admin.Restore(ctx, filepath.Join(dir, "backup"), filepath.Join(dir, "restored"), admin.BackupOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"store", "restored"} {
		open(name, func(db *DB) {
			var keys []string
			err := db.Each(ctx, func(key string, value map[string]any) error {
				keys = append(keys, key)
				if b, _ := value["bytes"].([]byte); !bytes.Equal(b, picture) {
					t.Errorf("%s: %q is %v", name, key, value)
				}
				return nil
			})
			if err != nil || !slices.Equal(keys, []string{"a", "c"}) {
				t.Errorf("%s has %q, %v", name, keys, err)
			}
			if b, err := db.Bytes(ctx, "c"); err != nil || !bytes.Equal(b, picture) {
				t.Error(b, err)
			}
			if _, err := db.Bytes(ctx, "b"); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("%s: the former name: %v", name, err)
			}
		})
	}
}
