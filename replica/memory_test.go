package replica

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/replica/bucket"
)

// memory is a bucket without faults. before, if set, sees each call first: what it returns is the
// answer, unless it is nil.
type memory struct {
	mu      sync.Mutex
	objects map[string]bucket.Entry
	bodies  map[string][]byte
	tags    int
	before  func(op, key string) error
}

func newMemory() *memory {
	return &memory{objects: map[string]bucket.Entry{}, bodies: map[string][]byte{}}
}

func (m *memory) call(ctx context.Context, op, key string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if m.before != nil {
		return m.before(op, key)
	}
	return nil
}

func (m *memory) Put(ctx context.Context, key string, body *io.SectionReader, cond bucket.Condition) (bucket.ETag, error) {
	if err := m.call(ctx, "put", key); err != nil {
		return "", err
	}
	b, err := io.ReadAll(body)
	if err != nil {
		return "", err
	}
	return m.put(key, b, cond)
}

func (m *memory) put(key string, b []byte, cond bucket.Condition) (bucket.ETag, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, ok := m.objects[key]
	if cond.IfAbsent && ok || cond.IfMatch != "" && (!ok || e.ETag != cond.IfMatch) {
		return "", bucket.ErrCondition
	}
	m.tags++
	tag := bucket.ETag(fmt.Sprint(m.tags))
	m.objects[key], m.bodies[key] = bucket.Entry{Key: key, Size: int64(len(b)), ETag: tag}, b
	return tag, nil
}

func (m *memory) Get(ctx context.Context, key string, o bucket.GetOptions) (*bucket.Object, error) {
	if err := m.call(ctx, "get", key); err != nil {
		return nil, err
	}
	return m.get(key, o)
}

func (m *memory) get(key string, o bucket.GetOptions) (*bucket.Object, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, ok := m.objects[key]
	if !ok {
		return nil, bucket.ErrNotFound
	}
	if e.ETag == o.IfNoneMatch {
		return nil, bucket.ErrNotModified
	}
	b := m.bodies[key]
	part := b[min(o.Offset, e.Size):]
	if o.Length > 0 {
		part = part[:min(o.Length, int64(len(part)))]
	}
	return &bucket.Object{Body: io.NopCloser(bytes.NewReader(part)), Size: e.Size, ETag: e.ETag}, nil
}

func (m *memory) List(ctx context.Context, prefix, after string) ([]bucket.Entry, error) {
	if err := m.call(ctx, "list", prefix); err != nil {
		return nil, err
	}
	return m.list(prefix, after), nil
}

func (m *memory) list(prefix, after string) (list []bucket.Entry) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(m.objects)) {
		if strings.HasPrefix(key, prefix) && key > after && len(list) < 3 { // few, so that callers go on
			list = append(list, m.objects[key])
		}
	}
	return list
}

func (m *memory) Delete(ctx context.Context, keys ...string) error {
	if err := m.call(ctx, "delete", strings.Join(keys, " ")); err != nil {
		return err
	}
	m.remove(keys...)
	return nil
}

func (m *memory) remove(keys ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, key := range keys {
		delete(m.objects, key)
		delete(m.bodies, key)
	}
}

// disk is a local log.
type disk struct {
	records [][]byte
	chains  []Chain // chains[i] is behind record i
	key     []byte
}

func newDisk() *disk { return &disk{chains: make([]Chain, 1)} }

func (d *disk) End() base.LSN { return base.LSN(len(d.records)) }

func (d *disk) Chain(lsn base.LSN) (Chain, error) {
	if lsn > d.End() {
		return Chain{}, errors.New("no such record")
	}
	return d.chains[lsn], nil
}

func (d *disk) add(records ...[]byte) {
	for _, r := range records {
		d.records = append(d.records, r)
		d.chains = append(d.chains, d.chains[len(d.chains)-1].Next(d.key, d.End(), r))
	}
}

// cut drops the records above an LSN.
func (d *disk) cut(lsn base.LSN) {
	if lsn < d.End() {
		d.records, d.chains = d.records[:lsn:lsn], d.chains[:lsn+1:lsn+1]
	}
}

// apply is what a follower gives to.
func (d *disk) apply(batches []Batch) error {
	for _, b := range batches {
		if b.First != d.End()+1 {
			return fmt.Errorf("a batch from %d on comes behind record %d", b.First, d.End())
		}
		d.add(b.Records...)
	}
	return nil
}

// clock is moved by tests.
type clock struct {
	mu  sync.Mutex
	now time.Duration
}

func (c *clock) Now() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now += d
}

const testStore = 0x5e1e

// machine is a process with a disk.
type machine struct {
	t *testing.T
	o Options
	d *disk
	c *clock
}

func newMachine(t *testing.T, b bucket.Bucket, dir string) *machine {
	c := &clock{now: time.Hour}
	return &machine{t, Options{Bucket: b, Store: testStore, Dir: dir, Owner: dir + "-1", TTL: 10 * time.Second, Clock: c.Now}, newDisk(), c}
}

// begin makes the lineage, with a point at its beginning.
func (m *machine) begin(mode Mode) *Leader {
	m.t.Helper()
	l, err := Begin(m.t.Context(), m.o, m.d, mode)
	if err != nil {
		m.t.Fatal(err)
	}
	m.point(l, m.d.End())
	return l
}

func (m *machine) point(l *Leader, at base.LSN) {
	m.t.Helper()
	if _, err := l.CreatePoint(m.t.Context(), at, nil); err != nil {
		m.t.Fatal(err)
	}
}

// commit makes batches of two records, each with a text.
func (m *machine) commit(l *Leader, texts ...string) {
	m.t.Helper()
	for _, text := range texts {
		records := [][]byte{[]byte(text), []byte(text + " again")}
		m.d.add(records...)
		if err := l.Append(Batch{First: m.d.End() - 1, Stamp: int64(m.d.End()), Records: records}); err != nil {
			m.t.Fatal(err)
		}
	}
}

func (m *machine) upload(l *Leader) error {
	for {
		did, err := l.Upload(m.t.Context())
		if err != nil || !did {
			return err
		}
	}
}

// ship commits and uploads.
func (m *machine) ship(l *Leader, texts ...string) {
	m.t.Helper()
	for _, text := range texts {
		m.commit(l, text)
		if err := m.upload(l); err != nil {
			m.t.Fatal(err)
		}
	}
}

func (m *machine) follow() *Follower {
	m.t.Helper()
	f, err := Follow(m.t.Context(), m.o, m.d, Position{})
	if err != nil {
		m.t.Fatal(err)
	}
	return f
}

// takeOver waits for the lease to end.
func (m *machine) takeOver(f *Follower) *Leader {
	m.t.Helper()
	if err := f.Look(m.t.Context()); err != nil {
		m.t.Fatal(err)
	}
	m.c.pass(m.o.TTL)
	l, err := f.TakeOver(m.t.Context(), TakeOver{Mode: Sync}, m.d.apply)
	if err != nil {
		m.t.Fatal(err)
	}
	return l
}
