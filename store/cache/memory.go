package cache

import (
	"bytes"
	"container/list"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/serde"
)

// Options configure NewMemory and On. The zero value is the documented default.
type Options struct {
	// MaxBytes bounds the bytes kept, including keys and a small overhead for each
	// entry; default 64 MiB. In memory the least recently used entry is removed
	// first. On disk the oldest is, once the bound is exceeded by an eighth.
	MaxBytes int64
	// Clock is the time of a cache in memory; default time.Now. On a saver it is
	// the saver's.
	Clock func() time.Time
}

func (o *Options) validate() error {
	if o.MaxBytes < 0 {
		return &saver.InvalidError{Field: "max bytes", Reason: fmt.Sprintf("%d is negative", o.MaxBytes)}
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = defaultMaxBytes
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	return nil
}

// Memory is a Cache in memory.
type Memory struct {
	opts Options

	mu      sync.Mutex // guards everything below
	entries map[Key]*list.Element
	order   list.List // of *kept, the least recently used last
	bytes   int64
}

type kept struct {
	entry   Entry
	expires time.Time // zero: never
}

var _ Cache = (*Memory)(nil)

// NewMemory is an empty cache. Errors: saver.InvalidError.
func NewMemory(opts Options) (*Memory, error) {
	if err := opts.validate(); err != nil {
		return nil, err
	}
	return &Memory{opts: opts, entries: map[Key]*list.Element{}}, nil
}

// Get implements Cache.
func (m *Memory) Get(ctx context.Context, keys ...Key) (map[Key]serde.Typed, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now, out := m.opts.Clock(), map[Key]serde.Typed{}
	for _, k := range keys {
		e, ok := m.entries[k]
		if !ok {
			continue
		}
		if x := e.Value.(*kept); !x.expires.IsZero() && !now.Before(x.expires) {
			m.remove(e)
			continue
		}
		m.order.MoveToFront(e)
		out[k] = e.Value.(*kept).entry.Value
	}
	return out, nil
}

// Set implements Cache.
func (m *Memory) Set(ctx context.Context, entries ...Entry) error {
	entries, err := latest(entries)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	for i := range entries {
		entries[i].Value.Data = bytes.Clone(entries[i].Value.Data)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.opts.Clock()
	for _, e := range entries {
		if old, ok := m.entries[e.Key]; ok {
			m.remove(old)
		}
		if e.size() > m.opts.MaxBytes {
			continue
		}
		k := &kept{entry: e}
		if e.TTL > 0 {
			k.expires = now.Add(e.TTL)
		}
		m.entries[e.Key] = m.order.PushFront(k)
		m.bytes += e.size()
	}
	for m.bytes > m.opts.MaxBytes {
		m.remove(m.order.Back())
	}
	return nil
}

// remove forgets an entry. The caller holds mu.
func (m *Memory) remove(e *list.Element) {
	k := m.order.Remove(e).(*kept)
	delete(m.entries, k.entry.Key)
	m.bytes -= k.entry.size()
}

// Clear implements Cache.
func (m *Memory) Clear(ctx context.Context, groups ...string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	gone := make(map[string]bool, len(groups))
	for _, g := range groups {
		gone[g] = true
	}
	for k, e := range m.entries {
		if len(groups) == 0 || gone[k.NS] {
			m.remove(e)
		}
	}
	return nil
}

// Bytes is how much is kept, as Options.MaxBytes counts it.
func (m *Memory) Bytes() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.bytes
}
