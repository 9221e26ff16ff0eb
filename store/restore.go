package store

import (
	"context"
	"fmt"
	"time"
)

// maxMicros bounds the times of an item that is restored: the year 9999.
var maxMicros = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC).UnixMicro()

// Restore implements Restorer.
func (s *Local) Restore(ctx context.Context, items ...Item) error {
	if err := ctx.Err(); err != nil || len(items) == 0 {
		return err
	}
	puts, err := RestorePuts(items)
	if err != nil {
		return err
	}
	changes, err := s.prepare(ctx, puts)
	if err != nil {
		return err
	}
	for i := range changes { // one for each item, in their order
		it := &items[i]
		m := meta{created: it.CreatedAt.UnixMicro(), updated: it.UpdatedAt.UnixMicro(), ttl: it.TTL.Microseconds()}
		if !it.ExpiresAt.IsZero() {
			m.expires = it.ExpiresAt.UnixMicro()
		}
		changes[i].times = &m
	}
	return s.back.commit(ctx, changes)
}

// RestorePuts checks items that are to be restored, and makes the puts of them: one for each, in
// their order.
func RestorePuts(items []Item) ([]PutOp, error) {
	if len(items) > MaxBatch {
		return nil, invalidf("items", "%d at once, the limit is %d", len(items), MaxBatch)
	}
	type address struct{ ns, key string }
	given := make(map[address]bool, len(items))
	puts := make([]PutOp, len(items))
	for i := range items {
		it := &items[i]
		at := address{idOf(it.Namespace), it.Key}
		refuse := func(format string, args ...any) error {
			return invalidf("items", "key %q in namespace %q: %s", it.Key, []string(it.Namespace), fmt.Sprintf(format, args...))
		}
		switch {
		case given[at]:
			return nil, refuse("it is given twice")
		case it.Value == nil:
			return nil, refuse("it has no value")
		case it.TTL < 0:
			return nil, refuse("its TTL is negative")
		case it.TTL > 0 && it.ExpiresAt.IsZero():
			return nil, refuse("it has a TTL, and no time at which it expires")
		}
		given[at] = true
		switch {
		case !storable(it.CreatedAt):
			return nil, refuse("its time of creation is %v", it.CreatedAt)
		case !storable(it.UpdatedAt):
			return nil, refuse("its time of update is %v", it.UpdatedAt)
		case !it.ExpiresAt.IsZero() && !storable(it.ExpiresAt):
			return nil, refuse("its time of expiry is %v", it.ExpiresAt)
		}
		puts[i] = PutOp{Namespace: it.Namespace, Key: it.Key, Value: it.Value}
	}
	return puts, nil
}

// storable reports whether an item can have a time. 0 stands for none.
func storable(t time.Time) bool {
	micros := t.UnixMicro()
	return !t.IsZero() && t.Year() >= 1 && micros != 0 && micros <= maxMicros
}
