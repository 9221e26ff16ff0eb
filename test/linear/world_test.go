package linear

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/vfs/crashfs"
	"github.com/stele-go/stele/replica"
	"github.com/stele-go/stele/replica/bucket"
	"github.com/stele-go/stele/replica/bucket/buckettest"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/admin"
	"github.com/stele-go/stele/saver/disk"
)

// dir is where the store of each machine lies.
const dir = "store"

// ttl is how long a lease lasts, by the clocks of the machines.
const ttl = 40 * time.Millisecond

// world is a bucket, and machines that have a store there.
type world struct {
	t    *testing.T
	seed uint64
	rng  *rand.Rand
	sim  *buckettest.Sim
	now  time.Duration

	machines []*machine
	procs    []*proc
	running  *proc         // the one that goes on; all others wait in giveWay
	back     chan struct{} // running gives way, or has ended

	lives    int
	leader   *machine // which led last
	released bool     // and gave its lease back
	history  history
	stats    map[string]int
	log      []string
}

// machine is a disk, and perhaps a process with the store open.
type machine struct {
	w       *world
	name    string
	fs      *crashfs.FS // nil: it has nothing
	rate    float64     // of its clock
	stalled time.Duration
	life    *life
	fenced  []*op // puts of its directory that were refused as another led; none has led since
}

// life is a process of a machine.
type life struct {
	m      *machine
	client string
	bucket bucket.Bucket
	fs     *crashfs.FS // nil: it is to be restored
	store  *disk.Saver // nil while it opens
	dead   bool
	failed bool     // a call had an unknown outcome: the process ends itself
	busy   []string // what it does: open, write, read, close
}

// proc is a goroutine that runs when it is told to.
type proc struct {
	of    *life
	wake  chan struct{}
	ended bool
}

func newWorld(t *testing.T, seed uint64, stats map[string]int) *world {
	w := &world{t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 7)), now: time.Hour, back: make(chan struct{}), stats: stats}
	w.sim = buckettest.NewSim(buckettest.Seeded(seed, []int{12, 40, 1 << 30}[seed%3]))
	for i := range 2 + w.rng.IntN(2) {
		w.machines = append(w.machines, &machine{w: w, name: fmt.Sprint("m", i), rate: 0.95 + w.rng.Float64()/10})
	}
	w.machines[0].fs = crashfs.New() // it begins the lineage
	return w
}

func (w *world) note(format string, args ...any) {
	w.log = append(w.log, fmt.Sprintf("%6d "+format, append([]any{w.now.Microseconds()}, args...)...))
}

func (w *world) fatal(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf("STELE_SEED=%d: %s\n%s", w.seed, fmt.Sprintf(format, args...), strings.Join(w.log, "\n"))
}

// spawn begins something that a process does.
func (w *world) spawn(l *life, what string, do func()) {
	p := &proc{of: l, wake: make(chan struct{})}
	l.busy = append(l.busy, what)
	w.procs = append(w.procs, p)
	go func() {
		<-p.wake
		do()
		p.ended = true
		l.busy = slices.DeleteFunc(l.busy, func(s string) bool { return s == what })
		w.back <- struct{}{}
	}()
}

// goOn lets a proc go on until it gives way.
func (w *world) goOn(p *proc) {
	w.running = p
	p.wake <- struct{}{}
	<-w.back
	if p.ended {
		w.procs = slices.DeleteFunc(w.procs, func(q *proc) bool { return p == q })
	}
}

// giveWay lets others go on. It is called by whatever goroutine of the proc that runs.
func (l *life) giveWay() {
	w := l.m.w
	p := w.running
	w.back <- struct{}{}
	<-p.wake
}

var errDead = errors.New("the process is dead")

// call makes a call of the bucket.
func call[T any](l *life, do func() (T, error)) (T, error) {
	var none T
	if !l.dead {
		l.giveWay()
	}
	if l.dead {
		return none, errDead
	}
	v, err := do()
	l.giveWay()
	if l.dead {
		return none, errDead
	}
	return v, err
}

// Put implements bucket.Bucket.
func (l *life) Put(ctx context.Context, key string, body *io.SectionReader, cond bucket.Condition) (bucket.ETag, error) {
	return call(l, func() (bucket.ETag, error) { return l.bucket.Put(ctx, key, body, cond) })
}

// Get implements bucket.Bucket.
func (l *life) Get(ctx context.Context, key string, o bucket.GetOptions) (*bucket.Object, error) {
	return call(l, func() (*bucket.Object, error) { return l.bucket.Get(ctx, key, o) })
}

// List implements bucket.Bucket.
func (l *life) List(ctx context.Context, prefix, after string) ([]bucket.Entry, error) {
	return call(l, func() ([]bucket.Entry, error) { return l.bucket.List(ctx, prefix, after) })
}

// Delete implements bucket.Bucket.
func (l *life) Delete(ctx context.Context, keys ...string) error {
	_, err := call(l, func() (struct{}, error) { return struct{}{}, l.bucket.Delete(ctx, keys...) })
	return err
}

// begin begins a process.
func (m *machine) begin() *life {
	m.w.lives++
	l := &life{m: m, client: fmt.Sprintf("%s-%d", m.name, m.w.lives)}
	l.bucket, l.fs = m.w.sim.Client(l.client), m.fs
	m.life = l
	return l
}

func (l *life) options() disk.Options {
	m := l.m
	rng, mu := rand.New(rand.NewPCG(m.w.seed, uint64(m.w.lives))), new(sync.Mutex)
	random := func() uint64 {
		mu.Lock()
		defer mu.Unlock()
		return rng.Uint64()
	}
	clock := func() time.Duration { return time.Duration(float64(m.w.now) * m.rate) }
	o := disk.Options{ManualWork: true, Clock: func() time.Time { return time.UnixMicro(1_700_000_000_000_000 + clock().Microseconds()) },
		Replica: disk.Replica{Bucket: l, Mode: replica.Sync, TTL: ttl, Deadline: time.Hour, Clock: clock}}
	return o.In(disk.Simulation{FS: l.fs, Rand: random, Inline: true})
}

// open has a machine lead, if it can. One without a store restores it from the bucket.
func (l *life) open() {
	m, w := l.m, l.m.w
	if l.fs == nil {
		l.fs = crashfs.New()
		o := l.options()
		o.Replica = disk.Replica{}
		if _, err := admin.RestoreBucket(context.Background(), l, dir, admin.Moment{}, admin.BackupOptions{Access: admin.Access{Options: o}}); err != nil {
			w.note("%s restores: %v", l.client, err)
			w.checkDamage(err)
			return
		}
		w.stats["restored"]++
		if !l.dead {
			m.fs = l.fs
		}
	}
	s, err := disk.Open(dir, l.options())
	w.note("%s opens: %v", l.client, err)
	if err != nil {
		w.checkDamage(err)
		if !l.dead && isAny(err, replica.ErrDiverged, replica.ErrPointGone, replica.ErrNotEmpty) && w.seeded() {
			w.stats["diverged"]++
			m.fs = nil // it is restored
		}
		return
	}
	l.store = s
	for _, had := range w.machines {
		for _, op := range had.fenced {
			if had != m { // whatever its log offers when it opens again: another has led
				w.history.didNot(op)
			}
		}
		had.fenced = nil
	}
	if l.dead {
		return
	}
	if w.leader != nil && w.leader != m {
		w.stats["take-overs"]++
		if !w.released {
			w.stats["from a lost leader"]++
		}
	}
	w.leader, w.released = m, false
}

func (w *world) checkDamage(err error) {
	if errors.Is(err, fault.ErrCorrupt) {
		w.t.Errorf("STELE_SEED=%d: %v", w.seed, err)
	}
}

// kill ends the process of a machine as a power loss does, at this moment. What it did not do yet has no effect on anything.
func (m *machine) kill() {
	w, l := m.w, m.life
	if m.fs != nil {
		var states []crashfs.State
		for s := range m.fs.States(m.fs.Len(), crashfs.Options{Seed: w.rng.Uint64(), Random: 2, MaxTorn: 1, MaxSingle: 2}) {
			states = append(states, s)
		}
		m.fs = states[w.rng.IntN(len(states))].FS()
	}
	m.life, l.dead = nil, true
	for _, p := range slices.Clone(w.procs) {
		for p.of == l && !p.ended {
			w.goOn(p) // each of its calls of the bucket fails, and its disk is nobody's
		}
	}
	if l.store != nil {
		_ = l.store.Close() // so that its goroutines end
	}
	w.note("%s is killed", l.client)
	w.stats["kills"]++
}

// write stores a checkpoint on the head that a client knows.
func (l *life) write(thread int) {
	w := l.m.w
	op := w.history.begin(thread, true)
	cfg := saver.Config{ThreadID: fmt.Sprint("t", thread), ExpectHead: saver.Head(idOf(op.old))}
	_, err := l.store.Put(context.Background(), cfg, saver.Checkpoint{ID: idOf(op.new)}, nil, nil)
	w.note("%s puts %d on %d in thread %d, begun at %d: %v", l.client, op.new, op.old, thread, op.call, err)
	switch {
	case l.dead:
		w.stats["unknown"]++
	case err == nil:
		w.history.did(op, op.new)
		w.stats["acknowledged"]++
	case errors.Is(err, saver.ErrConflict):
		w.history.didNot(op)
	case errors.Is(err, fault.ErrFenced):
		w.stats["fenced"]++
		l.failed, l.m.fenced = true, append(l.m.fenced, op)
	case isAny(err, fault.ErrOutcomeUnknown, fault.ErrPoisoned):
		w.stats["unknown"]++
		l.failed = true
	default:
		w.t.Errorf("STELE_SEED=%d: a put: %v", w.seed, err)
	}
}

// read reads the head of a thread.
func (l *life) read(thread int) {
	w := l.m.w
	op := w.history.begin(thread, false)
	found := int64(0)
	tup, err := l.store.GetTuple(context.Background(), saver.Config{ThreadID: fmt.Sprint("t", thread)})
	if err == nil {
		found = numberOf(tup.Checkpoint.ID)
	}
	w.note("%s reads %d in thread %d, begun at %d: %v", l.client, found, thread, op.call, err)
	switch {
	case l.dead:
		w.history.didNot(op)
	case err == nil, errors.Is(err, saver.ErrNotFound):
		w.history.did(op, found)
		w.stats["reads"]++
	case isAny(err, fault.ErrStale, fault.ErrFenced):
		w.history.didNot(op)
		w.stats["refused reads"]++
		l.failed = l.failed || errors.Is(err, fault.ErrFenced)
	default:
		w.t.Errorf("STELE_SEED=%d: a read: %v", w.seed, err)
	}
}

func (l *life) close() {
	w := l.m.w
	err := l.store.Close()
	w.note("%s closes: %v", l.client, err)
	if w.checkDamage(err); l.dead {
		return
	}
	w.released = w.leader == l.m // perhaps
	l.m.life = nil
	w.stats["closed"]++
}

func isAny(err error, targets ...error) bool {
	return slices.ContainsFunc(targets, func(is error) bool { return errors.Is(err, is) })
}

// step lets something happen.
func (w *world) step() {
	w.now += time.Duration(w.rng.IntN(1500)) * time.Microsecond
	if w.rng.IntN(3) > 0 {
		if ready := w.ready(); len(ready) > 0 {
			w.goOn(ready[w.rng.IntN(len(ready))])
			return
		}
	}
	m := w.machines[w.rng.IntN(len(w.machines))]
	if m.stalled > w.now {
		return
	}
	l := m.life
	switch n := w.rng.IntN(400); {
	case n == 0:
		w.sim.Deliver()
	case n < 3 && l != nil:
		m.kill()
		if w.rng.IntN(3) == 0 && m.fs != nil && w.seeded() {
			w.note("%s loses its disk", m.name)
			m.fs = nil
		}
	case n < 10:
		m.stalled = w.now + time.Duration(w.rng.IntN(4*int(ttl)))
		w.note("%s stands still until %d", m.name, m.stalled.Microseconds())
		w.stats["pauses"]++
	case l == nil:
		if n < 60 && (m.fs != nil || w.seeded()) {
			l := m.begin()
			w.spawn(l, "open", func() {
				if l.open(); l.store == nil && !l.dead {
					m.life = nil
				}
			})
		}
	case l.store == nil || slices.Contains(l.busy, "close"):
	case l.failed && len(l.busy) == 0 || n < 13 && len(l.busy) == 0:
		w.spawn(l, "close", l.close)
	case l.failed:
	case n < 90 && !slices.Contains(l.busy, "write"):
		thread := w.rng.IntN(threads)
		w.spawn(l, "write", func() { l.write(thread) })
	case n < 200 && !slices.Contains(l.busy, "read"):
		thread := w.rng.IntN(threads)
		w.spawn(l, "read", func() { l.read(thread) })
	}
}

// ready are the procs that can go on.
func (w *world) ready() []*proc {
	return slices.DeleteFunc(slices.Clone(w.procs), func(p *proc) bool { return p.of.m.stalled > w.now })
}

// seeded reports whether the bucket has a point.
func (w *world) seeded() bool {
	st, err := replica.ReadStatus(context.Background(), replica.Options{Bucket: w.sim})
	return err == nil && len(st.Points) > 0
}

// end ends all processes, and reads what is in the bucket.
func (w *world) end() {
	w.sim.Deliver()
	for _, m := range w.machines {
		if m.life != nil {
			m.kill()
		}
	}
	if !w.seeded() {
		return
	}
	o := disk.Options{ManualWork: true}.In(disk.Simulation{FS: crashfs.New(), Inline: true})
	if _, err := admin.RestoreBucket(context.Background(), w.sim, dir, admin.Moment{}, admin.BackupOptions{Access: admin.Access{Options: o}}); err != nil {
		w.fatal("restore: %v", err)
	}
	o.ReadOnly = true
	s, err := disk.Open(dir, o)
	if err != nil {
		w.fatal("open what was restored: %v", err)
	}
	for thread := range threads {
		op := w.history.begin(thread, false)
		found := int64(0)
		tup, err := s.GetTuple(context.Background(), saver.Config{ThreadID: fmt.Sprint("t", thread)})
		if err == nil {
			found = numberOf(tup.Checkpoint.ID)
		} else if !errors.Is(err, saver.ErrNotFound) {
			w.fatal("read what was restored: %v", err)
		}
		w.note("in the bucket thread %d has %d", thread, found)
		w.history.did(op, found)
	}
	if err := s.Close(); err != nil {
		w.fatal("%v", err)
	}
}
