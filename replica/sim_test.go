package replica

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"iter"
	"maps"
	"math/rand/v2"
	"path"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/race"
	"github.com/stele-go/stele/replica/bucket"
	"github.com/stele-go/stele/replica/bucket/buckettest"
)

var (
	histories = flag.Int("histories", 0, "how many histories TestLineage simulates")
	oneSeed   = flag.Uint64("seed", 0, "the one history that TestLineage simulates, and tells")
)

// world is a bucket, a network that fails in every way, and machines with clocks and disks. All
// runs on one thread: each process is a coroutine that gives way before its request reaches the
// bucket and before the answer reaches it. What goes on next is drawn, so that a seed is a history.
type world struct {
	t        *testing.T
	rng      *rand.Rand
	seed     uint64
	m        *buckettest.Sim
	now      time.Duration
	mode     Mode
	faults   float64 // how many calls fail
	nodes    []*node
	procs    []*proc
	current  *proc
	late     []func() // requests that are still on their way, though nobody waits for them
	leaders  []*watched
	forced   map[uint64]bool       // epochs that did not wait for the lease
	bold     map[string]bool       // owners that may force
	acked    map[base.LSN][]byte   // what Synced has said
	lost     map[base.LSN][][]byte // what ErrFenced was the answer for
	read     []*disk               // what readers got, to be compared with what survives
	fences   map[string]bool
	unsynced map[string]unsynced
	head     head
	lives    int
	files    int
	patience int // of the network: how many steps a late request takes
	appends  int
	stats    map[string]int
	failed   error
}

// proc is a process of a node, or one of its goroutines.
type proc struct {
	n     *node
	next  func() (struct{}, bool)
	stop  func()
	yield func(struct{}) bool
	ended bool
}

// node is a machine.
type node struct {
	w       *world
	name    string
	dir     string
	d       *disk
	rate    float64 // of its clock
	life    int
	bold    bool          // this life takes over without waiting for the lease
	stalled time.Duration // until when it gets no time
	retry   File          // of a point whose creation failed
	retryAt base.LSN
	retryBy *Leader
}

// watched is a leader whose acknowledgements are checked.
type watched struct {
	n      *node
	l      *Leader
	synced base.LSN
	sent   map[base.LSN][]byte
}

type killed struct{}

func (w *world) fail(format string, args ...any) {
	if w.failed == nil {
		w.failed = fmt.Errorf(format, args...)
	}
}

func (w *world) tell(format string, args ...any) {
	if *oneSeed != 0 {
		w.t.Logf("%6d "+format, append([]any{w.now.Milliseconds()}, args...)...)
	}
}

// spawn begins a coroutine.
func (w *world) spawn(n *node, fn func()) {
	p := &proc{n: n}
	p.next, p.stop = iter.Pull(func(yield func(struct{}) bool) {
		defer func() {
			p.ended = true
			if r := recover(); r != nil && r != (killed{}) {
				panic(r)
			}
		}()
		p.yield = yield
		fn()
	})
	w.procs = append(w.procs, p)
}

// giveWay lets others go on.
func (w *world) giveWay() {
	if !w.current.yield(struct{}{}) {
		panic(killed{})
	}
}

// crash ends all processes of a node. Its disk stays, or not.
func (w *world) crash(n *node) {
	w.tell("%s crashes", n.name)
	w.procs = slices.DeleteFunc(w.procs, func(p *proc) bool {
		if p.n == n {
			p.stop()
		}
		return p.n == n
	})
	w.leaders = slices.DeleteFunc(w.leaders, func(l *watched) bool { return l.n == n })
	if w.rng.IntN(6) == 0 {
		n.wipe()
	}
	w.start(n)
}

func (n *node) wipe() {
	n.w.lives++
	n.d, n.dir = newDisk(), fmt.Sprintf("%s-%d", n.name, n.w.lives)
}

func (w *world) start(n *node) {
	n.life++
	n.bold = w.rng.IntN(4) == 0
	w.bold[n.owner()] = n.bold
	w.spawn(n, n.run)
}

// errNetwork is the answer of a network that fails.
var errNetwork = errors.New("connection reset")

// network is the bucket as a node sees it.
type network struct {
	w     *world
	owner string // whose
}

// unsynced is an object that was put and that a power loss takes.
type unsynced struct {
	old   []byte // what stood there
	owner string
}

// sync makes the objects in the directory of a key durable, as a directory does before it answers.
func (w *world) sync(key string) {
	maps.DeleteFunc(w.unsynced, func(other string, _ unsynced) bool { return path.Dir(other) == path.Dir(key) })
}

// putUnsynced puts an object, and the sync of its directory fails. That somebody else reads it is taken
// for its sync.
func (b network) putUnsynced(key string, body *io.SectionReader, cond bucket.Condition) (bucket.ETag, error) {
	w := b.w
	w.giveWay()
	var old []byte
	if obj, err := w.m.Get(context.Background(), key, bucket.GetOptions{}); err == nil {
		old, _ = io.ReadAll(obj.Body)
	}
	_, err := w.m.Put(context.Background(), key, io.NewSectionReader(body, 0, body.Size()), cond)
	if err == nil {
		w.written(key, body)
		w.sync(key)
		w.unsynced[key] = unsynced{old, b.owner}
		w.tell("  and not synced")
	}
	w.giveWay()
	return "", errNetwork
}

// losePower takes what is not synced.
func (w *world) losePower() {
	for _, key := range slices.Sorted(maps.Keys(w.unsynced)) {
		w.tell("  %s is lost", key)
		w.stats["power losses"]++
		old := w.unsynced[key].old
		if delete(w.fences, key); old == nil {
			_ = w.m.Delete(context.Background(), key) // it cannot fail
			continue
		}
		if _, err := w.m.Put(context.Background(), key, bucket.NewBody(old), bucket.Condition{}); err != nil {
			w.fail("lose: %v", err)
		}
		if key == headKey {
			h, err := decodeHead(testStore, old)
			if err != nil {
				w.fail("HEAD: %v", err)
				return
			}
			w.head = *h
		}
	}
	clear(w.unsynced)
}

// call makes a request of the bucket. It does its effect once, never, twice, or later, and its
// answer may be lost.
func call[T any](w *world, conditional bool, do func() (T, error)) (T, error) {
	var none T
	w.giveWay()
	bad := w.rng.Float64() < w.faults
	kind := w.rng.IntN(6)
	var got T
	var err error
	switch {
	case bad && kind == 0: // lost on its way
		got, err = none, errNetwork
	case bad && kind <= 2: // the answer is lost
		_, _ = do()
		got, err = none, errNetwork
	case bad && kind == 3 && conditional: // something between repeats it
		_, _ = do()
		got, err = do()
	case bad: // it arrives later
		w.late = append(w.late, func() { _, _ = do() })
		got, err = none, errNetwork
	default:
		got, err = do()
	}
	w.giveWay()
	return got, err
}

func (b network) Put(_ context.Context, key string, body *io.SectionReader, cond bucket.Condition) (bucket.ETag, error) {
	if b.w.rng.Float64() < b.w.faults/4 {
		return b.putUnsynced(key, body, cond)
	}
	return call(b.w, cond != bucket.Condition{}, func() (bucket.ETag, error) {
		tag, err := b.w.m.Put(context.Background(), key, io.NewSectionReader(body, 0, body.Size()), cond)
		if err == nil {
			b.w.written(key, body)
		}
		b.w.sync(key)
		return tag, err
	})
}

func (b network) Get(_ context.Context, key string, o bucket.GetOptions) (*bucket.Object, error) {
	obj, err := call(b.w, false, func() (*bucket.Object, error) {
		if u, ok := b.w.unsynced[key]; ok && u.owner != b.owner {
			b.w.sync(key)
		}
		return b.w.m.Get(context.Background(), key, o)
	})
	if err == nil && obj.Size > 0 && b.w.rng.Float64() < b.w.faults/4 { // the body is cut
		obj.Body = io.NopCloser(io.LimitReader(obj.Body, b.w.rng.Int64N(obj.Size)))
	}
	return obj, err
}

func (b network) List(_ context.Context, prefix, after string) ([]bucket.Entry, error) {
	return call(b.w, false, func() ([]bucket.Entry, error) { return b.w.m.List(context.Background(), prefix, after) })
}

func (b network) Delete(_ context.Context, keys ...string) error {
	_, err := call(b.w, false, func() (struct{}, error) {
		for _, key := range keys {
			if b.w.rng.Float64() < b.w.faults { // the machine that deletes crashes
				return struct{}{}, errNetwork
			}
			b.w.deleted(key)
			if err := b.w.m.Delete(context.Background(), key); err != nil {
				return struct{}{}, err
			}
		}
		return struct{}{}, nil
	})
	return err
}

func (n *node) owner() string { return fmt.Sprintf("%s-%d", n.name, n.life) }

func (n *node) options() Options {
	rate := n.rate
	return Options{Bucket: network{n.w, n.owner()}, Store: testStore, Dir: n.dir, Owner: n.owner(),
		TTL: 200 * time.Millisecond, ChunkBytes: 100, QueueBytes: 5000,
		Clock: func() time.Duration { return time.Duration(float64(n.w.now) * rate) }}
}

// run is a life of a node: it follows, and leads when it can.
func (n *node) run() {
	ctx := context.Background()
	from := Position{}
	for {
		n.w.giveWay()
		f, err := Follow(ctx, n.options(), n.d, from)
		from = Position{}
		switch {
		case errors.Is(err, ErrNoLineage):
			if l, err := Begin(ctx, n.options(), n.d, n.w.mode, 0); err == nil {
				n.lead(l)
			}
		case errors.Is(err, ErrDiverged), errors.Is(err, ErrPointGone):
			n.w.stats[fmt.Sprint("rejoins: ", errors.Is(err, ErrDiverged))]++
			from = n.rejoin()
		case err == nil:
			if err := n.follow(f); errors.Is(err, ErrDiverged) || errors.Is(err, ErrPointGone) {
				n.w.stats[fmt.Sprint("rejoins: ", errors.Is(err, ErrDiverged))]++
				from = n.rejoin()
			}
		}
		n.w.check(err)
	}
}

// check fails for errors that no fault of the network explains.
func (w *world) check(err error) {
	for _, allowed := range []error{nil, errNetwork, io.ErrUnexpectedEOF, bucket.ErrCondition, bucket.ErrNotFound, ErrNoLineage, ErrNotEmpty,
		ErrDiverged, ErrPointGone, ErrFenced, ErrLeased, ErrSeeding, ErrLosesTail, ErrBacklog, ErrFileGone, errBelowFloor} {
		if errors.Is(err, allowed) {
			return
		}
	}
	w.fail("unexpected error: %v", err)
}

func (n *node) follow(f *Follower) error {
	ctx := context.Background()
	for {
		n.w.giveWay()
		batches, err := f.Next(ctx)
		n.w.check(err)
		if errors.Is(err, ErrDiverged) || errors.Is(err, ErrPointGone) {
			return err
		}
		if err != nil {
			continue
		}
		if err := n.d.apply(batches); err != nil {
			n.w.fail("%s: %v", n.name, err)
		}
		force := n.bold && n.w.rng.IntN(15) == 0
		if len(batches) > 0 || !force && (!f.Vacant() || n.w.rng.IntN(3) > 0) {
			continue
		}
		l, err := f.TakeOver(ctx, TakeOver{Mode: n.w.mode, Force: force, LoseTail: true}, n.d.apply)
		n.w.check(err)
		switch {
		case err == nil:
			n.w.tell("%s leads epoch %d behind %d", n.name, l.Epoch(), l.End().LSN)
			n.w.stats["take-overs"]++
			n.lead(l)
			return nil
		case errors.Is(err, ErrDiverged), errors.Is(err, ErrPointGone):
			return err
		}
	}
}

// lead leads until it is fenced, or releases.
func (n *node) lead(l *Leader) {
	w, ctx := n.w, context.Background()
	watch := &watched{n: n, l: l, synced: l.Synced(), sent: map[base.LSN][]byte{}}
	w.leaders = append(w.leaders, watch)
	for range 2 {
		w.spawn(n, func() {
			for {
				did, err := l.Upload(ctx)
				w.check(err)
				if errors.Is(err, ErrFenced) && !did {
					return
				}
				w.giveWay()
			}
		})
	}
	for {
		w.giveWay()
		err := n.work(l, watch)
		w.check(err)
		if errors.Is(err, ErrFenced) {
			w.stats["fenced"]++
			break
		}
	}
	for len(l.flights) > 0 {
		w.giveWay()
	}
	// What callers are told is lost is set aside first.
	for lsn := l.lost; lsn <= n.d.End(); lsn++ {
		if r, ok := watch.sent[lsn]; ok {
			w.lost[lsn] = append(w.lost[lsn], r)
			w.stats["lost"]++
		}
	}
	n.d.cut(l.lost - 1)
	n.life++ // from now on it reads as others do
	w.bold[n.owner()] = n.bold
}

// work is one thing that a leader does.
func (n *node) work(l *Leader, watch *watched) error {
	w, ctx := n.w, context.Background()
	if len(w.head.Points) == 0 {
		return n.point(l, 0)
	}
	switch w.rng.IntN(14) {
	case 0, 1, 2, 3, 4:
		if n.d.End() == l.End().LSN {
			n.commit()
		}
		return n.append(l, watch)
	case 5, 6, 7, 8:
		return l.Renew(ctx)
	case 9, 10:
		at := l.Synced()
		if floor := w.head.Floor.LSN; floor < at && w.rng.IntN(2) == 0 {
			at = floor + base.LSN(w.rng.IntN(int(at-floor)+1)) // within chunks and batches too
		}
		return n.point(l, at)
	case 11, 12:
		at := l.Synced()
		if w.rng.IntN(2) == 0 {
			at = base.LSN(w.rng.IntN(int(at) + 1))
		}
		return l.Retain(ctx, at)
	default:
		if w.rng.IntN(3) > 0 || l.Synced() < l.End().LSN || n.d.End() > l.End().LSN {
			return nil
		}
		w.tell("%s releases", n.name)
		w.stats["releases"]++
		if err := l.Release(ctx); err != nil {
			w.check(err)
		}
		return ErrFenced
	}
}

// commit makes a batch that the disk has. Each record says which one of how many it is.
func (n *node) commit() {
	n.w.appends++
	count := 1 + n.w.rng.IntN(3)
	for i := range count {
		n.d.add(fmt.Appendf(nil, "%d/%d %s %d %d", i+1, count, n.name, n.w.appends, n.w.rng.IntN(1000)))
	}
}

// append hands over what the disk has and the leader has not, by batches.
func (n *node) append(l *Leader, watch *watched) error {
	for l.End().LSN < n.d.End() {
		b := Batch{First: l.End().LSN + 1, Stamp: n.w.now.Microseconds()}
		var i, count int
		if _, err := fmt.Sscanf(string(n.d.records[b.First-1]), "%d/%d ", &i, &count); err != nil || i != 1 {
			n.w.fail("record %d is %q", b.First, n.d.records[b.First-1])
			return ErrFenced
		}
		b.Records = n.d.records[b.First-1:][:count:count]
		if err := l.Append(b); err != nil {
			return err
		}
		for i, r := range b.Records {
			watch.sent[b.First+base.LSN(i)] = r
		}
	}
	return nil
}

func (n *node) point(l *Leader, at base.LSN) error {
	o := n.options()
	o = o.withDefaults()
	body, err := json.Marshal(n.d.records[:at])
	if err != nil {
		return err
	}
	if n.retry.Key == "" || n.retryBy != l || n.w.rng.IntN(2) == 0 {
		n.w.files++
		n.retry = File{Name: "state", Key: l.FileKey(fmt.Sprintf("state-%d-%d", at, n.w.files)), Size: int64(len(body))}
		n.retryAt, n.retryBy = at, l
		if _, err := o.create(context.Background(), n.retry.Key, body); err != nil {
			n.retry.Key = ""
			return err
		}
	} else {
		n.w.stats["points tried again"]++
	}
	_, err = l.CreatePoint(context.Background(), n.retryAt, []File{n.retry})
	if err == nil {
		n.w.stats["points"]++
	}
	if err == nil || errors.Is(err, ErrFileGone) {
		n.retry.Key = ""
	}
	return err
}

// step lets something happen.
func (w *world) step() {
	w.now += time.Duration(w.rng.IntN(4000)) * time.Microsecond
	switch w.rng.IntN(1000) {
	case 0, 1, 2:
		w.crash(w.nodes[w.rng.IntN(len(w.nodes))])
	case 3, 4, 5:
		n := w.nodes[w.rng.IntN(len(w.nodes))]
		most := 600
		if w.rng.IntN(3) == 0 {
			most = 3000 // others lead meanwhile, and delete
		}
		n.stalled = w.now + time.Duration(w.rng.IntN(most))*time.Millisecond
	case 6, 7:
		w.read = append(w.read, w.restore())
	default:
		if len(w.unsynced) > 0 && w.rng.IntN(30) == 0 {
			w.losePower()
		}
		if n := len(w.late); n > 0 && w.rng.IntN(w.patience) == 0 {
			i := w.rng.IntN(n)
			do := w.late[i]
			w.late = slices.Delete(w.late, i, i+1)
			do()
			break
		}
		p := w.procs[w.rng.IntN(len(w.procs))]
		if p.n.stalled > w.now {
			break
		}
		w.current = p
		if _, ok := p.next(); !ok {
			w.procs = slices.DeleteFunc(w.procs, func(q *proc) bool { return q == p })
		}
	}
	for _, l := range w.leaders {
		w.watch(l)
	}
}

// watch checks what a leader acknowledges, and whether it rightly believes to hold the lease.
func (w *world) watch(l *watched) {
	for to := l.l.Synced(); l.synced < to; {
		l.synced++
		r := l.sent[l.synced]
		if old, ok := w.acked[l.synced]; ok && !bytes.Equal(r, old) {
			w.fail("record %d was acknowledged as %q, and by %s as %q", l.synced, old, l.n.name, r)
		}
		w.acked[l.synced] = r
		w.stats["acknowledged"]++
	}
	if l.l.Epoch() < w.head.Epoch && l.l.Holds() {
		for e := l.l.Epoch() + 1; e <= w.head.Epoch; e++ {
			if w.forced[e] {
				return
			}
		}
		w.fail("%s holds the lease of epoch %d, and HEAD has %d", l.n.name, l.l.Epoch(), w.head.Epoch)
	}
}

// simulate runs one history.
func simulate(t *testing.T, seed uint64, stats map[string]int) error {
	rng := rand.New(rand.NewPCG(seed, 0))
	w := &world{t: t, rng: rng, seed: seed, m: buckettest.NewSim(nil), now: time.Hour, mode: []Mode{Async, Bounded, Sync}[rng.IntN(3)],
		faults: []float64{0, 0.02, 0.1, 0.3}[rng.IntN(4)],
		forced: map[uint64]bool{}, bold: map[string]bool{}, acked: map[base.LSN][]byte{}, lost: map[base.LSN][][]byte{},
		fences: map[string]bool{}, unsynced: map[string]unsynced{}, stats: stats, patience: []int{30, 300}[rng.IntN(2)]}
	for i := range 2 + rng.IntN(2) {
		n := &node{w: w, name: fmt.Sprint("node", i), rate: 0.9 + rng.Float64()/5}
		n.wipe()
		w.nodes = append(w.nodes, n)
		w.start(n)
	}
	reader := &node{w: w, name: "reader", dir: "reader", rate: 1}
	w.spawn(reader, reader.reader)
	for range 1000 + rng.IntN(2000) {
		if w.step(); w.failed != nil {
			break
		}
	}
	for _, p := range w.procs {
		p.stop()
	}
	final := w.restore()
	for _, d := range w.read {
		if d.End() > final.End() || d.chains[d.End()] != final.chains[d.End()] {
			w.fail("a restore had %d records that are not those of the last, which has %d", d.End(), final.End())
		}
	}
	for key := range w.fences {
		if _, err := w.m.Get(context.Background(), key, bucket.GetOptions{}); err != nil {
			w.fail("the fence %s: %v", key, err)
		}
	}
	for lsn, records := range w.lost {
		if lsn <= final.End() && slices.ContainsFunc(records, func(r []byte) bool { return bytes.Equal(r, final.records[lsn-1]) }) {
			w.fail("record %d was said to be lost, and is there: %q", lsn, final.records[lsn-1])
		}
	}
	w.damage()
	stats["records"] += int(final.End())
	return w.failed
}

// TestLineage simulates histories of two or three machines that lead, follow, stall, crash and
// lose their disks, of a reader under pins, and of a bucket that answers late, twice or never.
func TestLineage(t *testing.T) {
	n := *histories
	if n == 0 {
		if n = 1000; race.Enabled {
			n = 20
		}
	}
	stats := map[string]int{}
	if *oneSeed != 0 {
		if err := simulate(t, *oneSeed, stats); err != nil {
			t.Fatal(err)
		}
		return
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	var next atomic.Uint64
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			own := map[string]int{}
			for seed := next.Add(1); seed <= uint64(n) && !t.Failed(); seed = next.Add(1) {
				if err := simulate(t, seed, own); err != nil {
					t.Errorf("-seed %d: %v", seed, err)
				}
			}
			mu.Lock()
			defer mu.Unlock()
			for what, count := range own {
				stats[what] += count
			}
		})
	}
	all.Wait()
	for _, what := range []string{"acknowledged", "take-overs", "fences", "deleted chunks", "pinned reads", "lost", "releases", "fenced", "points",
		"points tried again", "power losses", "missing chunks", "rejoins: true", "rejoins: false"} {
		if stats[what] == 0 && n >= 1000 { // fewer may lack it
			t.Errorf("%d histories without %s", n, what)
		}
	}
	for _, what := range slices.Sorted(maps.Keys(stats)) {
		t.Logf("%d histories: %d %s", n, stats[what], what)
	}
}
