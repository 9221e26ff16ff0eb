package replica

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/replica/bucket"
	"github.com/stele-go/stele/replica/bucket/buckettest"
)

// meeting is a bucket in which the first gets of chunks wait for one another.
type meeting struct {
	bucket.Bucket
	t *testing.T

	mu   sync.Mutex
	want int // so many more must come
	all  chan struct{}
	gets int
}

func (m *meeting) Get(ctx context.Context, key string, o bucket.GetOptions) (*bucket.Object, error) {
	if strings.HasPrefix(key, chunkPrefix) {
		m.mu.Lock()
		m.gets++
		if m.want--; m.want == 0 {
			close(m.all)
		}
		wait := m.want >= 0
		m.mu.Unlock()
		if wait {
			select {
			case <-m.all:
			case <-time.After(30 * time.Second):
				m.t.Error("the others do not come")
				m.mu.Lock()
				if m.want > 0 {
					m.want = 0
					close(m.all)
				}
				m.mu.Unlock()
			}
		}
	}
	return m.Bucket.Get(ctx, key, o)
}

// TestReadAhead reads a lineage of which HEAD knows 20 chunks: 16 are got at the same time, then the rest, and no more than there are.
// Who follows the leader further asks for one chunk at a time.
func TestReadAhead(t *testing.T) {
	s := buckettest.NewSim(nil)
	a := newMachine(t, s, "a")
	l := a.begin(Sync)
	for i := range 20 {
		a.ship(l, fmt.Sprint(i))
	}
	if err := l.Renew(t.Context()); err != nil {
		t.Fatal(err)
	}
	b := a.newer(s, "b")
	m := &meeting{Bucket: b.o.Bucket, t: t, want: ReadAhead, all: make(chan struct{})}
	b.o.Bucket, b.o.Ahead, b.o.CallTimeout = m, ReadAhead, time.Hour
	f := b.follow()
	read := func() {
		t.Helper()
		for {
			batches, err := f.Next(t.Context())
			if err == nil {
				err = b.d.apply(batches)
			}
			if err != nil {
				t.Fatal(err)
			}
			if len(batches) == 0 {
				return
			}
		}
	}
	read()
	if b.d.End() != a.d.End() || m.gets != 21 {
		t.Errorf("%d records of %d by %d gets", b.d.End(), a.d.End(), m.gets)
	}
	a.ship(l, "more")
	read()
	if b.d.End() != a.d.End() || m.gets != 23 {
		t.Errorf("%d records of %d by %d gets", b.d.End(), a.d.End(), m.gets)
	}
}

// TestReadAheadFails has the gets of chunks that are got before their turn fail: they are got again in their turn.
func TestReadAheadFails(t *testing.T) {
	s := buckettest.NewSim(func(c buckettest.Call) buckettest.Fate {
		if c.Client == "b" && c.Op == buckettest.Get && c.Nth == 0 && strings.HasPrefix(c.Key, chunkPrefix) && c.Key > chunkKey(1, 0) {
			return buckettest.Cut
		}
		return buckettest.Applied
	})
	a := newMachine(t, s, "a")
	l := a.begin(Sync)
	a.ship(l, "one", "two", "three")
	if err := l.Renew(t.Context()); err != nil {
		t.Fatal(err)
	}
	b := a.newer(s, "b")
	b.o.Ahead = ReadAhead
	f := b.follow()
	for b.d.End() < a.d.End() {
		batches, err := f.Next(t.Context())
		if err == nil {
			err = b.d.apply(batches)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// straggling is a bucket in which the get of one key does not end before it may.
type straggling struct {
	bucket.Bucket
	t   *testing.T
	key string
	may chan struct{}
}

func (s *straggling) Get(ctx context.Context, key string, o bucket.GetOptions) (*bucket.Object, error) {
	if key == s.key {
		select {
		case <-s.may:
		case <-time.After(30 * time.Second):
			s.t.Error("the others have waited for it")
		}
	}
	return s.Bucket.Get(ctx, key, o)
}

// TestReadAheadStraggler has one get before its turn not end: the chunks before it are read meanwhile.
func TestReadAheadStraggler(t *testing.T) {
	s := buckettest.NewSim(nil)
	a := newMachine(t, s, "a")
	l := a.begin(Sync)
	for i := range 5 {
		a.ship(l, fmt.Sprint(i))
	}
	if err := l.Renew(t.Context()); err != nil {
		t.Fatal(err)
	}
	b := a.newer(s, "b")
	hangs := &straggling{b.o.Bucket, t, chunkKey(1, 3), make(chan struct{})}
	b.o.Bucket, b.o.Ahead, b.o.CallTimeout = hangs, ReadAhead, time.Hour
	f := b.follow()
	for n := base.LSN(0); n < 5; {
		if n == 3 {
			close(hangs.may)
		}
		batches, err := f.Next(t.Context())
		if err == nil {
			err = b.d.apply(batches)
		}
		if n++; err != nil || b.d.End() != 2*n {
			t.Fatalf("%d records in %d chunks, %v", b.d.End(), n, err)
		}
	}
}
