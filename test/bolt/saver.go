package bolt

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/rules"
	"github.com/stele-go/stele/saver/serde"
)

// Options configure a Saver. The zero value is ready for use.
type Options struct {
	// Serializer encodes Go values and decodes stored ones. Nil is serde.Default().
	Serializer serde.Serializer
	// Clock tells the time of writes and deletions. Nil is time.Now.
	Clock func() time.Time
	// Random gives the fractions of minted versions, floats in [0,1). It must be safe for
	// concurrent use. Nil is math/rand.
	Random func() float64
	// DeletedMemory is how long a deletion is remembered. Zero is rules.DefaultDeletedMemory;
	// with a negative one deletions are not remembered.
	DeletedMemory time.Duration
	// DefaultTTL is how long a thread lives after its last write, unless SetTTL says
	// otherwise; 0 means for ever.
	DefaultTTL time.Duration
}

// Saver is a saver.Saver in a file. Its methods are safe for concurrent use.
type Saver struct {
	db    *bbolt.DB
	opts  Options
	owned *rules.Owners
	turn  chan struct{} // has an item while a call writes
	// broken is why nothing can be written any more. Who has the turn may read and write it.
	broken error
}

var _ saver.Saver = (*Saver)(nil)

// Open opens the file, and makes it if it is not there. If another process has it open, the
// error is fault.ErrLocked.
func Open(path string, opts Options) (*Saver, error) {
	if opts.Serializer == nil {
		opts.Serializer = serde.Default()
	}
	if opts.Clock == nil {
		opts.Clock = time.Now
	}
	if opts.DeletedMemory == 0 {
		opts.DeletedMemory = rules.DefaultDeletedMemory
	}
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: time.Nanosecond, FreelistType: bbolt.FreelistMapType})
	if errors.Is(err, bolterrors.ErrTimeout) {
		err = fault.ErrLocked
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		for _, name := range [][]byte{threadsName, deletedName} {
			if _, err := tx.CreateBucketIfNotExists(name); err != nil {
				return err
			}
		}
		return nil
	})
	if err = errors.Join(err, syncDir(filepath.Dir(path))); err != nil {
		return nil, fmt.Errorf("open %s: %w", path, errors.Join(err, db.Close()))
	}
	return &Saver{db: db, opts: opts, owned: rules.NewOwners(opts.Clock().UnixMicro()), turn: make(chan struct{}, 1)}, nil
}

// syncDir makes the names in dir durable. bbolt syncs the file, but not its name.
func syncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil // it syncs no directories
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Close waits for calls that are under way. Later ones fail with saver.ErrClosed, and so do
// values of tuples. Closing again is no error.
func (s *Saver) Close() error {
	s.owned.Close()
	return s.db.Close()
}

// NextVersion implements saver.Saver.
func (s *Saver) NextVersion(current saver.Version, _ string) (saver.Version, error) {
	return saver.NextVersion(current, s.opts.Random)
}

// Serializer implements saver.Saver.
func (s *Saver) Serializer() serde.Serializer { return s.opts.Serializer }

// Own implements saver.Saver. No other process can write to the file.
func (s *Saver) Own(ctx context.Context, threadID string, wait bool) (*saver.Lease, error) {
	return s.owned.Own(ctx, threadID, wait)
}

// Sync implements saver.Saver. Calls that returned are durable, unless a commit failed.
func (s *Saver) Sync(ctx context.Context) error {
	return s.update(ctx, func(*bbolt.Tx) error { return nil })
}

// now is the time as it is stored.
func (s *Saver) now() time.Time { return s.opts.Clock().UTC().Truncate(time.Microsecond) }

// view calls fn with one state of the store. fn must not call the saver: a transaction inside
// another one may wait for it for ever.
func (s *Saver) view(ctx context.Context, fn func(*bbolt.Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return closedError(s.db.View(fn))
}

// update stores what fn changes, or nothing if it returns an error. ctx ends the waiting for
// other writers. fn must not call the saver.
//
// If a commit fails, nobody knows whether its pages reach the disk later, and what a later
// commit would build upon. So it is the last one.
func (s *Saver) update(ctx context.Context, fn func(*bbolt.Tx) error) error {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.broken != nil {
		return s.broken
	}
	called, refused := false, error(nil)
	err := s.db.Update(func(tx *bbolt.Tx) error {
		called, refused = true, fn(tx)
		return refused
	})
	if called && refused == nil && err != nil {
		s.broken = fmt.Errorf("%w: %w", fault.ErrPoisoned, err)
		return s.broken
	}
	return closedError(err)
}

// closedError is err as a saver says it.
func closedError(err error) error {
	if errors.Is(err, bolterrors.ErrDatabaseNotOpen) {
		return saver.ErrClosed
	}
	return err
}
