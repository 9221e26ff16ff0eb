package replica

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/replica/bucket/buckettest"
)

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

func newMachine(t *testing.T, s *buckettest.Sim, dir string) *machine {
	c := &clock{now: time.Hour}
	return &machine{t, Options{Bucket: s.Client(dir), Store: testStore, Dir: dir, Owner: dir + "-1", TTL: 10 * time.Second, Clock: c.Now}, newDisk(), c}
}

// begin makes the lineage, with a point at its beginning.
func (m *machine) begin(mode Mode) *Leader {
	m.t.Helper()
	l, err := Begin(m.t.Context(), m.o, m.d, mode, 0)
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
