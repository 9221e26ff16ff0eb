package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/race"
	"github.com/stele-go/stele/base/vfs/crashfs"
	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/replica"
	"github.com/stele-go/stele/replica/bucket/buckettest"
	"github.com/stele-go/stele/snapshot"
	"github.com/stele-go/stele/wal"
)

// replicaWorld is a bucket, a network that fails in every way, and machines whose disks lose what was not synced. All
// runs on one thread, so that a seed is a history.
type replicaWorld struct {
	t     *testing.T
	seed  uint64
	rng   *rand.Rand
	sim   *buckettest.Sim
	mode  replica.Mode
	clock time.Duration
	calls int // the number of the next call

	machines  map[string]*machine
	followers map[string]*machine // which follow, or did
	lives     int
	// acked are the calls that may not be lost any more, by their records: in mode Sync those that were acknowledged, and
	// in all modes those that the lineage had.
	acked map[base.LSN]int

	mu     sync.Mutex
	freeze map[string]int // by client: after how many calls its network is cut
	seen   map[string]func()

	stats map[string]int
	log   []string
}

// machine is a directory, and perhaps the process that has it.
type machine struct {
	name   string
	client string // of this life
	fs     *crashfs.FS
	e      *Engine
	frozen int // operations of fs when the network was cut; -1: it is not
	acks   []ack
	tails  map[string]bool // that were checked
	shown  []ack           // what a follower has shown, the last record at a time
}

// ack is a call that was acknowledged to its caller.
type ack struct {
	lsn  base.LSN
	call int
	at   int // operations of the file system by then
}

func (w *replicaWorld) note(format string, args ...any) {
	w.log = append(w.log, fmt.Sprintf(format, args...))
}

func (w *replicaWorld) fatal(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf("seed %d: %s\n%s\n%s", w.seed, fmt.Sprintf(format, args...), strings.Join(w.log, "\n"), w.sim)
}

func newReplicaWorld(t *testing.T, seed uint64) *replicaWorld {
	w := &replicaWorld{t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 33)), mode: replica.Sync, machines: map[string]*machine{}, followers: map[string]*machine{},
		acked: map[base.LSN]int{}, freeze: map[string]int{}, seen: map[string]func(){}, stats: map[string]int{}}
	if seed%3 == 0 {
		w.mode = replica.Async
	}
	fates := buckettest.Seeded(seed, []int{8, 30, 1 << 30}[seed/3%3])
	w.sim = buckettest.NewSim(func(c buckettest.Call) buckettest.Fate {
		w.mu.Lock()
		defer w.mu.Unlock()
		if left, ok := w.freeze[c.Client]; ok {
			if w.freeze[c.Client]--; left <= 0 {
				if left == 0 {
					w.seen[c.Client]()
					if c.Nth%2 == 1 {
						return buckettest.AnswerLost
					}
				}
				return buckettest.NotApplied
			}
		}
		return fates(c)
	})
	return w
}

func (w *replicaWorld) now() time.Duration {
	w.clock += 2 * time.Millisecond
	return w.clock
}

func (w *replicaWorld) options(fs *crashfs.FS, client string) Options {
	o := Options{FS: fs, Rand: lockedRand(w.seed ^ uint64(w.lives)<<20), Inline: true, ManualWork: true, LogFileSize: minLogFile, PatchMin: 48, PatchRun: 3,
		CompactFanout: 2, CompactRate: -1, Clock: func() time.Time { return time.UnixMicro(1_700_000_000_000_000 + w.now().Microseconds()) }}
	if w.mode == replica.Async && w.seed%2 == 0 {
		o.Sync = wal.SyncNever
	}
	if client != "" {
		o.Replica = Replica{Bucket: w.sim.Client(client), Mode: w.mode, TTL: 20 * time.Millisecond, Clock: w.now, AcceptLoss: true,
			queueBytes: []int{0, 1500, 4000}[w.rng.IntN(3)], PointEvery: time.Nanosecond, Keep: time.Duration(1+w.rng.IntN(3000)) * time.Millisecond}
	}
	return o
}

// open opens a machine's directory.
func (w *replicaWorld) open(m *machine) bool {
	w.lives++
	m.client, m.frozen = fmt.Sprintf("%s-%d", m.name, w.lives), -1
	w.mu.Lock()
	w.seen[m.client] = func() { m.frozen = m.fs.Len() }
	if w.rng.IntN(4) == 0 {
		w.freeze[m.client] = w.rng.IntN(60)
	}
	w.mu.Unlock()
	e, err := Open("store", w.options(m.fs, m.client))
	w.note("%s opens: %v", m.client, err)
	if err == nil {
		m.e = e
		w.stats["opened"]++
		w.check(m, e, true)
		return true
	}
	m.e = nil
	switch {
	case errors.Is(err, replica.ErrDiverged):
		w.stats["diverged"]++
		w.checkTail(m, err)
		delete(w.machines, m.name)
		if w.rng.IntN(2) == 0 { // else it is for a human
			w.followers[m.name] = m
			w.rejoin(m, err)
		}
	case errors.Is(err, replica.ErrPointGone), errors.Is(err, replica.ErrOtherStore):
		delete(w.machines, m.name) // it begins anew, from a point
	case errors.Is(err, fault.ErrCorrupt):
		w.fatal("%s finds damage: %v", m.client, err)
	}
	return false
}

// read returns the calls that a store has, by record. Of each it must have all entries, and their values.
func (w *replicaWorld) read(e *Engine) map[base.LSN]int {
	v, err := e.View()
	if err != nil {
		w.fatal("%v", err)
	}
	defer v.Release()
	found, parts := map[base.LSN]int{}, map[int]int{}
	for p := range 3 {
		part, err := v.Partition(fmt.Sprint("p", p))
		if err != nil {
			w.fatal("%v", err)
		}
		if part == nil {
			continue
		}
		part.Ascend("", func(it *index.Entry) bool {
			var call, i, n int
			if _, err := fmt.Sscanf(it.Key, "call-%d/%d/%d", &call, &i, &n); err != nil {
				w.fatal("entry %q: %v", it.Key, err)
			}
			if was, ok := found[it.LSN]; ok && was != call {
				w.fatal("record %d has calls %d and %d", it.LSN, was, call)
			}
			found[it.LSN] = call
			parts[call]++
			for _, s := range it.Slots.All() {
				got, err := e.ReadValue(w.t.Context(), part.Family, s.Ref)
				if err != nil || string(got) != body(call, i) {
					w.fatal("call %d has the value %.40q, %v", call, got, err)
				}
			}
			if parts[call] == n {
				delete(parts, call)
			}
			return true
		})
	}
	if len(parts) > 0 {
		w.fatal("parts of calls: %v", parts)
	}
	for lsn := base.LSN(1); lsn <= e.Index.LSN(); lsn++ {
		if _, ok := found[lsn]; !ok {
			w.fatal("record %d of %d is missing: %v", lsn, e.Index.LSN(), slices.Sorted(maps.Keys(found)))
		}
	}
	if len(found) != int(e.Index.LSN()) {
		w.fatal("%d records of %d", len(found), e.Index.LSN())
	}
	return found
}

// check compares a store that was opened with what it must hold: as a leader, all that may not be lost; of a
// restore, that up to its last record.
func (w *replicaWorld) check(m *machine, e *Engine, leader bool) {
	found := w.read(e)
	for lsn, call := range w.acked {
		if got, ok := found[lsn]; ok && got != call || !ok && (leader || lsn <= e.Index.LSN()) {
			w.fatal("%s has call %d as record %d, and %d was acknowledged (it has %d records)", m.client, got, lsn, call, e.Index.LSN())
		}
	}
	if !leader {
		return
	}
	for _, a := range m.acks {
		if found[a.lsn] != a.call {
			w.fatal("%s has lost call %d, record %d, which it had acknowledged", m.client, a.call, a.lsn)
		}
	}
	w.settled(m)
}

// checkTail checks that what a diverged directory has acknowledged is in its tail, if the lineage does not have it.
func (w *replicaWorld) checkTail(m *machine, cause error) {
	e, err := Open("store", Options{FS: m.fs, ReadOnly: true})
	if err != nil {
		w.fatal("%v", err)
	}
	defer func() { _ = e.Close() }()
	found := w.read(e)
	before := m.tails
	tail, first := w.tails(m, func(name string) bool { return !before[name] })
	if first == 0 {
		return // it was checked before
	}
	for lsn, call := range found {
		if lsn >= first && !tail[call] {
			w.fatal("the tail lacks call %d, record %d", call, lsn)
		}
		if was, ok := w.acked[lsn]; ok && lsn < first && was != call {
			w.fatal("the tail begins at record %d, and record %d diverged already", first, lsn)
		}
	}
	for _, a := range m.acks {
		if found[a.lsn] != a.call {
			w.fatal("%s has lost call %d, record %d, which it had acknowledged (%v)", m.client, a.call, a.lsn, cause)
		}
	}
}

// tails returns the calls that a directory has in files beside the store, and the first record of them.
func (w *replicaWorld) tails(m *machine, wanted func(name string) bool) (calls map[int]bool, first base.LSN) {
	calls = map[int]bool{}
	m.tails = maps.Clone(m.tails)
	names, err := m.fs.List("store")
	if err != nil {
		w.fatal("%v", err)
	}
	for _, name := range names {
		var lsn base.LSN
		if _, err := fmt.Sscanf(name, "diverged-%d", &lsn); err != nil || !strings.HasSuffix(name, ".tail") || !wanted(name) {
			continue
		}
		if m.tails == nil {
			m.tails = map[string]bool{}
		}
		m.tails[name] = true
		if first == 0 || lsn < first {
			first = lsn
		}
		f, err := m.fs.Open(filepath.Join("store", name))
		if err != nil {
			w.fatal("%v", err)
		}
		size, _ := f.Size()
		b := make([]byte, size)
		_, _ = f.ReadAt(b, 0)
		st, _, err := snapshot.Load(m.fs, "store")
		if err != nil {
			w.fatal("%v", err)
		}
		_, batches, err := replica.DecodeTail(replica.Options{Store: st.StoreID}, name, b)
		if err != nil {
			w.fatal("%v", err)
		}
		for _, b := range batches {
			for _, r := range b.Records {
				for _, found := range callName.FindAllSubmatch(r, -1) {
					call, _ := strconv.Atoi(string(found[1]))
					calls[call] = true
				}
			}
		}
	}
	return calls, first
}

var callName = regexp.MustCompile(`call-(\d{6})/`)

// settled notes what the lineage has by now: it is never lost.
func (w *replicaWorld) settled(m *machine) {
	if m.e == nil || m.e.replica.leader == nil {
		return
	}
	synced := m.e.replica.leader.Synced()
	for lsn, call := range w.read(m.e) {
		if lsn <= synced {
			w.ack(lsn, call)
		}
	}
}

func (w *replicaWorld) ack(lsn base.LSN, call int) {
	if was, ok := w.acked[lsn]; ok && was != call {
		w.fatal("calls %d and %d were both acknowledged as record %d", was, call, lsn)
	}
	w.acked[lsn] = call
}

// body is the value of an entry of a call: like those of other calls, so that it is stored as a patch.
func body(call, i int) string {
	return strings.Repeat(fmt.Sprintf("entry %d of a call, ", i), 20) + fmt.Sprint(call)
}

func (w *replicaWorld) put(m *machine) {
	n, call := 1+w.rng.IntN(3), w.calls
	w.calls++
	id := fmt.Sprint("p", w.rng.IntN(3))
	values := make([]Value, n)
	for i := range values {
		var err error
		if values[i], err = m.e.NewRevision(nil, Series{Partition: id, Name: fmt.Sprint("s", i)}, []byte(body(call, i))); err != nil {
			w.fatal("%v", err)
		}
	}
	err := m.e.CommitWith(w.t.Context(), CommitOptions{Deferred: w.rng.IntN(10) == 0 && w.mode == replica.Async}, []string{id}, func(tx *Tx) error {
		for i := range values {
			if err := tx.Put(id, fmt.Sprintf("call-%06d/%d/%d", call, i, n), 0, []SlotIn{{Name: fmt.Sprint("s", i), Value: &values[i]}}); err != nil {
				return err
			}
		}
		return nil
	})
	w.note("%s puts call %d in %s: %v", m.client, call, id, err)
	w.stats["puts"]++
	if err != nil {
		w.stats["refused"]++
		if !errors.Is(err, fault.ErrPoisoned) && !errors.Is(err, replica.ErrFenced) && !errors.Is(err, fault.ErrOutcomeUnknown) {
			w.fatal("%v", err)
		}
		if w.seed/3%3 == 2 && m.frozen < 0 && !errors.Is(err, replica.ErrFenced) {
			w.fatal("the bucket is well, and the commit failed: %v", err)
		}
		w.unseen(m, call)
		return
	}
	lsn := m.e.Index.LSN()
	if w.mode == replica.Sync {
		m.acks = append(m.acks, ack{lsn, call, m.fs.Len()})
		w.ack(lsn, call)
	} else if m.e.log.DurableLSN() >= lsn {
		m.acks = append(m.acks, ack{lsn, call, m.fs.Len()})
	}
	w.settled(m)
}

// unseen checks that a call that was not acknowledged is not visible.
func (w *replicaWorld) unseen(m *machine, call int) {
	for _, c := range w.read(m.e) {
		if c == call && w.mode == replica.Sync {
			w.fatal("call %d was not acknowledged, and is seen", call)
		}
	}
}

// kill ends a process, and perhaps the power.
func (w *replicaWorld) kill(m *machine, power bool) {
	if m.e != nil {
		m.e.replica.cancel()
		stopped := m.e
		m.e = nil
		defer func() { _ = stopped.log.Close() }() // its goroutines end; its files are closed
	}
	m.fs.Kill()
	if !power {
		w.note("%s is killed", m.client)
		w.stats["kills"]++
		return
	}
	cut := m.fs.Len()
	if m.frozen >= 0 {
		cut = m.frozen + w.rng.IntN(cut-m.frozen+1)
	}
	var states []crashfs.State
	for s := range m.fs.States(cut, crashfs.Options{Seed: w.rng.Uint64(), Random: 3, MaxTorn: 2, MaxSingle: 4}) {
		states = append(states, s)
	}
	m.fs = states[w.rng.IntN(len(states))].FS()
	for _, acks := range []*[]ack{&m.acks, &m.shown} {
		*acks = slices.DeleteFunc(*acks, func(a ack) bool { return a.at > cut })
		for i := range *acks {
			(*acks)[i].at = 0
		}
	}
	w.note("%s loses power at operation %d", m.client, cut)
	w.stats["power"]++
}

// restore makes a new machine from the bucket.
func (w *replicaWorld) restore(lsn base.LSN) *machine {
	w.lives++
	m := &machine{name: fmt.Sprint("m", w.lives), fs: crashfs.New(), frozen: -1}
	m.client = m.name + "-restore"
	got, err := RestoreStore(w.t.Context(), w.sim.Client(m.client), "store", lsn, time.Time{}, w.options(m.fs, ""))
	w.note("%s restores to %d: %d, %v", m.client, lsn, got, err)
	if err != nil {
		if errors.Is(err, fault.ErrCorrupt) {
			w.fatal("%v", err)
		}
		return nil
	}
	w.stats["restores"]++
	if lsn > 0 && got > lsn {
		w.fatal("restored up to %d, wanted %d", got, lsn)
	}
	e, err := Open("store", Options{FS: m.fs, ReadOnly: true})
	if err != nil {
		w.fatal("%v", err)
	}
	w.check(m, e, false)
	if err := e.Close(); err != nil {
		w.fatal("%v", err)
	}
	return m
}

// step makes one thing happen.
func (w *replicaWorld) step() {
	if w.rng.IntN(4) == 0 {
		w.stepFollower()
		return
	}
	names := slices.Sorted(maps.Keys(w.machines))
	if len(names) == 0 {
		if m := w.restore(0); m != nil {
			w.machines[m.name] = m
		}
		return
	}
	m := w.machines[names[w.rng.IntN(len(names))]]
	if m.e == nil {
		w.open(m)
		return
	}
	ctx := context.Background()
	var err error
	switch n := w.rng.IntN(100); {
	case n < 62:
		w.put(m)
	case n < 68:
		err = m.e.Flush(ctx)
		w.note("%s flushes: %v", m.client, err)
	case n < 71:
		err = m.e.WriteImage(ctx)
		w.note("%s writes an image: %v", m.client, err)
	case n < 73:
		_, err = m.e.CompactStep(ctx)
		w.note("%s compacts: %v", m.client, err)
	case n < 74:
		err = scrub(ctx, m.e.compactor, m.e.flusher, m.e.images, m.e.replica, nil)
		if err == nil {
			err = m.e.replica.pointBehind(ctx, m.e.log.LastLSN())
		}
		done := false
		if err == nil {
			done, err = m.e.replica.dropOlder(ctx)
		}
		w.note("%s scrubs: %t, %v", m.client, done, err)
		if done && err == nil {
			w.stats["scrubs"]++
		}
	case n < 79:
		err = m.e.replica.makePoint(ctx)
		w.note("%s makes a point: %v", m.client, err)
		if err == nil {
			w.stats["points"]++
		}
	case n < 83:
		if w.rng.IntN(2) == 0 {
			err = m.e.replica.feed(ctx)
			w.stats["fed"]++
		} else {
			_, err = m.e.replica.leader.Upload(ctx)
		}
		w.settled(m)
	case n < 85:
		err = m.e.replica.leader.Renew(ctx)
	case n < 88:
		err = m.e.Close()
		w.note("%s closes: %v", m.client, err)
		m.e = nil
	case n < 91:
		w.kill(m, false)
	case n < 94:
		w.kill(m, true)
	case n < 96:
		w.note("%s is lost", m.name)
		w.kill(m, false)
		delete(w.machines, m.name)
	case n < 98:
		w.restore(1 + base.LSN(w.rng.IntN(int(m.e.Index.LSN())+1)))
	default:
		if other := w.restore(0); other != nil { // a second one beside it
			w.machines[other.name] = other
			w.open(other)
		}
	}
	if err != nil && errors.Is(err, fault.ErrCorrupt) {
		w.fatal("%v", err)
	}
	if w.rng.IntN(20) == 0 {
		w.sim.Deliver()
	}
}

// TestReplicaHistories has machines that put, flush, crash, lose power, are lost, restored and take over from one another, while
// the bucket fails in every way. What is read is a prefix of the order of commits, of whole calls; nothing that may
// not be lost is; no two leaders acknowledge one record.
func TestReplicaHistories(t *testing.T) {
	t.Parallel()
	n := 30 / race.Every
	from := uint64(0)
	if s := os.Getenv("ENGINE_RUNS"); s != "" {
		var err error
		if n, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	if s := os.Getenv("STELE_SEED"); s != "" {
		var err error
		if from, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatal(err)
		}
		n = 1
	}
	total := map[string]int{}
	for i := range n {
		w := newReplicaWorld(t, from+uint64(i))
		first := &machine{name: "m", fs: crashfs.New(), frozen: -1}
		w.machines["m"] = first
		for range 120 {
			w.step()
		}
		w.sim.Deliver()
		for _, m := range w.followers {
			w.catchUp(m)
		}
		for _, ms := range []map[string]*machine{w.machines, w.followers} {
			for _, m := range ms {
				if m.e != nil {
					w.kill(m, false)
				}
			}
		}
		for k, v := range w.stats {
			total[k] += v
		}
	}
	t.Log(total)
	for _, k := range []string{"opened", "puts", "refused", "kills", "power", "restores", "points", "scrubs", "diverged", "follows", "polls", "promoted",
		"demoted", "rejoined", "refollows", "cuts"} {
		if total[k] == 0 && n >= 15 {
			t.Errorf("no %s: the histories prove less than they should", k)
		}
	}
}
