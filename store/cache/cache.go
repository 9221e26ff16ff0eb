package cache

import (
	"context"
	"fmt"
	"time"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/serde"
)

// Key names an entry. NS is its group. Groups are isolated, and Clear removes whole groups.
// NS and Key are limited to 2 KiB each.
type Key struct{ NS, Key string }

// Entry is a value to keep.
type Entry struct {
	Key   Key
	Value serde.Typed
	// TTL is how long the entry is valid; 0 is for ever. It may be removed earlier, to
	// make room.
	TTL time.Duration
}

// Cache keeps values for a while. All methods are safe for concurrent use. What
// Get returns must not be changed.
type Cache interface {
	// Get returns the values kept under keys. A missing, expired or damaged entry is a
	// miss. An error means that the cache does not work; callers go on without it.
	Get(ctx context.Context, keys ...Key) (map[Key]serde.Typed, error)
	// Set keeps all entries or none. They replace those under the same keys. An entry
	// that is larger than the cache is not kept, which is no error. Errors:
	// saver.InvalidError, saver.ErrTooLarge, or one of the engine.
	Set(ctx context.Context, entries ...Entry) error
	// Clear removes all entries of the groups; without groups it removes all entries.
	Clear(ctx context.Context, groups ...string) error
}

const (
	maxName         = 2 << 10
	defaultMaxBytes = 64 << 20
	// overhead is about how much memory an entry needs besides its bytes.
	overhead = 128
)

func (e *Entry) check() error {
	if err := e.Key.check(); err != nil {
		return err
	}
	switch {
	case e.Value.Kind == "":
		return &saver.InvalidError{Field: "value", Reason: "typed bytes without a kind"}
	case len(e.Value.Kind) > maxName:
		return fmt.Errorf("kind of %d bytes, the limit is %d: %w", len(e.Value.Kind), maxName, saver.ErrTooLarge)
	case len(e.Value.Data) > base.MaxValue:
		return fmt.Errorf("value of %d bytes, the limit is %d: %w", len(e.Value.Data), base.MaxValue, saver.ErrTooLarge)
	case e.TTL < 0:
		return &saver.InvalidError{Field: "ttl", Reason: fmt.Sprintf("%v is negative", e.TTL)}
	}
	return nil
}

func (k Key) check() error {
	if len(k.NS) > maxName || len(k.Key) > maxName {
		return fmt.Errorf("cache key of %d bytes in a group of %d, the limit is %d each: %w", len(k.Key), len(k.NS), maxName, saver.ErrTooLarge)
	}
	return nil
}

func (e *Entry) size() int64 {
	return int64(len(e.Key.NS) + len(e.Key.Key) + len(e.Value.Kind) + len(e.Value.Data) + overhead)
}

// latest keeps the last entry of each key.
func latest(entries []Entry) ([]Entry, error) {
	at := make(map[Key]int, len(entries))
	out := make([]Entry, 0, len(entries))
	for _, e := range entries {
		if err := e.check(); err != nil {
			return nil, err
		}
		if i, ok := at[e.Key]; ok {
			out[i] = e
			continue
		}
		at[e.Key] = len(out)
		out = append(out, e)
	}
	return out, nil
}
