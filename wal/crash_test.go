package wal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"testing"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/race"
	"github.com/stele-go/stele/base/vfs/crashfs"
)

// life is one run of a store's log on a recording file system: what it was
// told, and when.
type life struct {
	fs   *crashfs.FS
	hook *hookFS
	w    *world
	l    *Log
	size func(base.LSN) int
	had  [][]byte // records found when this life began

	// Records refused for want of space, of refusedSize, may be found by a
	// crash before the caller heard of the refusal.
	refusals [][2]int

	mu sync.Mutex
	// deferred: the last commit did not ask to be durable.
	deferred bool
	files    []event // OnCreate: the manifest names the file from here on
	acks     []event // the records up to num are promised to the caller from here on
}

type event struct {
	at  int // operations recorded before
	num uint64
}

func newLife(fs *crashfs.FS, nums base.FileNum, files []base.FileNum, size func(base.LSN) int) *life {
	v := &life{fs: fs, hook: &hookFS{FS: fs}, size: size}
	v.w = newWorld(v.hook)
	v.w.num = nums
	for _, f := range files {
		v.files = append(v.files, event{0, uint64(f)})
		v.w.files = append(v.w.files, f)
	}
	return v
}

func (v *life) options(o *Options) {
	o.OnCreate = func(fi FileInfo) error {
		v.files = append(v.files, event{v.fs.Len(), uint64(fi.Num)})
		return v.w.created(fi)
	}
}

// content is what the record with an LSN must hold, whoever writes it.
func (v *life) content(lsn base.LSN) []byte {
	if int(lsn) <= len(v.had) {
		return v.had[lsn-1]
	}
	return cachedPayload(int(lsn), v.size(lsn))
}

const refusedSize = 900

// may reports whether a crash after cut operations may show b as a record.
func (v *life) may(cut int, lsn base.LSN, b []byte) bool {
	if bytes.Equal(b, v.content(lsn)) {
		return true
	}
	return v.refusing(cut) && bytes.Equal(b, cachedPayload(int(lsn), refusedSize))
}

// refusing reports whether a refusal was under way after cut operations.
func (v *life) refusing(cut int) bool {
	return slices.ContainsFunc(v.refusals, func(r [2]int) bool { return r[0] <= cut && cut < r[1] })
}

var payloads = map[[2]int][]byte{}

func cachedPayload(i, n int) []byte {
	k := [2]int{i, n}
	if payloads[k] == nil {
		payloads[k] = payload(i, n)
	}
	return payloads[k]
}

// commit commits n records as one batch.
func (v *life) commit(n int) error { return v.commitAs(n, false) }

func (v *life) commitAs(n int, deferred bool) error {
	l := v.l
	var reqs []*request
	l.q.mu.Lock()
	for range n {
		r := &request{done: make(chan error, 1), rec: &Record{Deferred: deferred, Prepare: func(lsn base.LSN) ([][]byte, error) {
			return [][]byte{v.content(lsn)}, nil
		}}}
		reqs = append(reqs, r)
		l.q.mu.ring = append(l.q.mu.ring, r)
		l.q.mu.depth++
	}
	l.q.mu.Unlock()
	l.q.signal()
	var first error
	for _, r := range reqs {
		if err := <-r.done; err != nil && first == nil {
			first = err
		}
	}
	v.mu.Lock()
	v.deferred = deferred
	v.mu.Unlock()
	v.ack()
	return first
}

// ack notes what is durable now. The LSN is read first: an operation between
// the two readings must not be credited to it.
func (v *life) ack() {
	v.mu.Lock()
	defer v.mu.Unlock()
	lsn := uint64(v.l.DurableLSN())
	if v.l.opts.Mode == SyncAlways && !v.deferred {
		// Whatever the log thinks of it: here a nil is a promise.
		lsn = uint64(v.l.LastLSN())
	}
	v.acks = append(v.acks, event{v.fs.Len(), lsn})
}

// at is what the manifest and the callers knew after cut operations.
func (v *life) at(cut int) (files []base.FileNum, acked base.LSN) {
	files = []base.FileNum{}
	for _, e := range v.files {
		if e.at <= cut {
			files = append(files, base.FileNum(e.num))
		}
	}
	for _, e := range v.acks {
		if e.at <= cut {
			acked = max(acked, base.LSN(e.num))
		}
	}
	return files, acked
}

// crashes counts and checks crash states.
type crashes struct {
	t        *testing.T
	listed   bool // with a manifest
	checked  int
	distinct map[uint64]bool
	seen     map[string]bool
	second   int // crashes within the recovery from another
	torn     int
	copies   int
}

// explore checks every crash of a life. every is the share of states whose
// recovery is crashed in turn.
func (c *crashes) explore(v *life, o crashfs.Options, every int) {
	c.t.Helper()
	c.exploreFrom(0, v, o, every)
}

// exploreFrom is explore without the crashes before the log was opened.
func (c *crashes) exploreFrom(start int, v *life, o crashfs.Options, every int) {
	c.t.Helper()
	for cut := start; cut <= v.fs.Len(); cut += race.Every {
		files, acked := v.at(cut)
		for s := range v.fs.States(cut, o) {
			key := fmt.Sprint(s.Fingerprint(), files, acked, v.refusing(cut), cut == v.fs.Len())
			if c.seen[key] {
				continue
			}
			c.seen[key] = true
			c.distinct[s.Fingerprint()] = true
			c.checked++
			next := c.check(v, s, files, acked)
			if every > 0 && c.checked%every == 0 {
				before := c.checked
				c.explore(next, crashfs.Options{Seed: o.Seed + 1, Random: 1, MaxTorn: 3, MaxSingle: 4, Adversarial: o.Adversarial}, 0)
				c.second += c.checked - before
			}
			if c.t.Failed() {
				return
			}
		}
	}
}

// check opens the log after a crash, writes on, closes and reads again.
func (c *crashes) check(from *life, s crashfs.State, files []base.FileNum, acked base.LSN) *life {
	c.t.Helper()
	v := newLife(s.FS(), from.w.num, files, from.size)
	v.w.keys = from.w.keys
	v.acks = []event{{0, uint64(acked)}}
	fail := func(format string, args ...any) {
		c.t.Helper()
		c.t.Errorf("%s\nmanifest %v, acknowledged %d: %s", s, files, acked, fmt.Sprintf(format, args...))
	}
	if !c.listed {
		v.w.files = nil
	}
	l, r, got, err := v.w.reopenCrashed(c.listed, acked, v)
	if err != nil {
		fail("open: %v", err)
		return v
	}
	v.l = l
	if base.LSN(len(got)) < acked {
		fail("%d records, torn %+v", len(got), r.Torn)
	}
	for i, b := range got {
		if !from.may(s.Cut(), base.LSN(i+1), b) {
			fail("record %d has wrong bytes", i+1)
		}
	}
	v.had = got
	if r.Torn.Bytes > 0 {
		c.torn++
	}
	if r.Unpromised.Records > 0 {
		c.copies++
	}
	if s.Cut() == from.fs.Len() && !r.Clean {
		// Every life here ends with Close.
		fail("not clean after Close: %+v", r)
	}
	// What a reader has been shown must stay.
	v.acks = append(v.acks, event{v.fs.Len(), uint64(len(got))})
	for _, n := range []int{1, 2} {
		if err := v.commit(n); err != nil {
			fail("write on: %v", err)
		}
	}
	if err := l.Close(); err != nil {
		fail("close: %v", err)
	}
	o := v.w.recoverOptions()
	if !c.listed {
		o.Files = nil
	}
	o.DurableLSN = base.LSN(len(got) + 3)
	again, r, err := readLog(o)
	for i, b := range again {
		if !bytes.Equal(b, v.content(base.LSN(i+1))) {
			fail("read again: record %d has wrong bytes", i+1)
		}
	}
	if err != nil || len(again) != len(got)+3 || !r.Clean {
		fail("read again: %d records, had %d and wrote 3, %+v, %v", len(again), len(got), r, err)
	}
	return v
}

// reopenCrashed is reopen with what a store knows after a crash.
func (w *world) reopenCrashed(listed bool, acked base.LSN, v *life) (*Log, Recovery, [][]byte, error) {
	o := w.recoverOptions()
	o.DurableLSN = acked
	if !listed {
		o.Files = nil
	}
	got, r, err := readLog(o)
	if err != nil {
		return nil, r, got, err
	}
	start, fi, err := copyEnd(CopyOptions{FS: w.fs, Dir: w.dir, NewFileNum: w.newNum, Rand: w.salt, Keys: w.keys}, r)
	if err != nil {
		return nil, r, got, err
	}
	if fi != nil {
		v.files = append(v.files, event{v.fs.Len(), uint64(fi.Num)})
		_ = w.created(*fi)
	}
	if err := removeStrays(w.fs, w.dir, r); err != nil {
		return nil, r, got, err
	}
	lo := w.options()
	lo.Start = start
	v.options(&lo)
	l, err := New(lo)
	return l, r, got, err
}

// scenarios are the lives to crash. Between them they reach every order of
// writes, syncs and names that the log produces.
var scenarios = []struct {
	name  string
	mode  Mode
	heavy int // states cost this much more than those of small records
	size  func(base.LSN) int
	run   func(v *life) error
}{
	{"append", SyncAlways, 1, small, func(v *life) error {
		return errors.Join(v.commit(1), v.commit(3), v.commit(1), v.commit(8), v.commit(1))
	}},
	{"append, no syncs", SyncNever, 1, small, func(v *life) error {
		err := errors.Join(v.commit(1), v.commit(3), v.commit(1), v.l.Sync(context.Background()))
		v.ack()
		return errors.Join(err, v.commit(2), v.commit(1))
	}},
	{"deferred", SyncAlways, 4, small, deferredScenario},
	{"at once", SyncAlways, 1, small, func(v *life) error {
		return errors.Join(v.commitAll(3, false), v.commitAll(1, true), v.commitAll(5, true), v.commit(1), v.commitAll(4, false), v.commit(1), v.commitAll(2, false))
	}},
	{"rotation", SyncAlways, 20, func(lsn base.LSN) int { return 5000 + int(lsn)*300 }, func(v *life) error {
		for range 16 {
			if err := v.commit(1); err != nil {
				return err
			}
		}
		return nil
	}},
	{"rotation, no syncs", SyncNever, 30, func(lsn base.LSN) int { return 20000 }, func(v *life) error {
		return errors.Join(v.commit(2), v.commit(2), v.commit(1), v.commit(1))
	}},
	{"rotation asked for", SyncAlways, 1, small, func(v *life) error {
		return errors.Join(v.commit(2), v.l.Rotate(context.Background()), v.commit(1), v.l.Rotate(context.Background()), v.l.Rotate(context.Background()), v.commit(1))
	}},
	{"large record", SyncAlways, 400, func(lsn base.LSN) int { return map[bool]int{true: 1<<20 + 77, false: 300}[lsn == 2] }, func(v *life) error {
		return errors.Join(v.commit(1), v.commit(1), v.commit(1))
	}},
	{"sync marks", SyncAlways, 1, small, func(v *life) error {
		for range 3 {
			if err := v.commit(2); err != nil {
				return err
			}
			v.mark()
		}
		return nil
	}},
	{"background", SyncAlways, 10, func(lsn base.LSN) int { return 1500 }, func(v *life) error {
		// Four writers, with the preallocator on its own goroutine.
		var wg sync.WaitGroup
		errs := make([]error, 4)
		for g := range errs {
			wg.Go(func() {
				for range 6 {
					errs[g] = errors.Join(errs[g], v.commit(1))
				}
			})
		}
		wg.Wait()
		return errors.Join(errs...)
	}},
	{"disk full", SyncAlways, 1, small, func(v *life) error {
		if err := v.commit(2); err != nil {
			return err
		}
		right := v.size
		for _, let := range []int{40, 700, 2000} {
			// The refused record has other bytes and another length; should it
			// come back, the check sees it.
			v.hook.set(failOn("write", &shortWrite{let, syscall.ENOSPC}))
			v.size = func(base.LSN) int { return refusedSize }
			from := v.fs.Len()
			if err := v.commit(3); !errors.Is(err, fault.ErrDiskFull) {
				return fmt.Errorf("with the disk full: %v", err)
			}
			v.refusals = append(v.refusals, [2]int{from, v.fs.Len()})
			v.hook.set(nil)
			v.size = right
			if err := v.commit(1); err != nil {
				return err
			}
		}
		return nil
	}},
}

func small(lsn base.LSN) int { return 60 + int(lsn*97)%500 }

// mark makes the committer write a sync mark, as it does when idle.
func (v *life) mark() {
	done := make(chan struct{})
	r := &Record{Prepare: func(base.LSN) ([][]byte, error) {
		v.l.idleMark() // on the committer's goroutine, nothing in its hands
		close(done)
		return nil, errors.New("only a mark")
	}}
	_ = v.l.Commit(context.Background(), r)
	<-done
}

func TestCrash(t *testing.T) {
	total, distinct := 0, 0
	for _, sc := range scenarios {
		for _, how := range []struct {
			listed, sealed bool
		}{{true, false}, {false, false}, {true, true}} {
			listed, heavy := how.listed, sc.heavy
			if sc.heavy > 100 && !listed || how.sealed && sc.heavy > 4 && sc.name != "rotation" {
				continue // the large bytes are no different without a manifest, or with keys
			}
			name, seldom := fmt.Sprintf("%s/manifest=%v", sc.name, listed), 1
			if how.sealed {
				name, heavy, seldom = name+"/sealed", 6*sc.heavy, min(sc.heavy, 5) // a share: frames, marks and files are the same
			}
			if race.Enabled {
				heavy, seldom = 4*heavy, min(seldom, 2) // fewer states, and all kinds of them
			}
			t.Run(name, func(t *testing.T) {
				v := newLife(crashfs.New(), 0, nil, sc.size)
				if how.sealed {
					v.w.keys = testKeys(t, 5)
				}
				if err := errors.Join(v.fs.SyncDir("/"), v.fs.SyncDir(testDir)); err != nil {
					t.Fatal(err)
				}
				start := v.fs.Len()
				v.l = v.w.open(t, v.options, func(o *Options) { o.Mode, o.Inline = sc.mode, sc.name != "background" })
				if err := sc.run(v); err != nil {
					t.Fatal(err)
				}
				v.ack()
				if err := v.l.Close(); err != nil {
					t.Fatal(err)
				}
				v.acks = append(v.acks, event{v.fs.Len(), uint64(v.l.LastLSN())})
				c := &crashes{t: t, listed: listed, distinct: map[uint64]bool{}, seen: map[string]bool{}}
				// WAL_CRASH_SCALE multiplies the states; SEED changes the random ones.
				scale := envInt("WAL_CRASH_SCALE", 1)
				o := crashfs.Options{Seed: uint64(envInt("SEED", 1)), Adversarial: true}
				o.Random = max(1, 12/heavy) * scale
				o.MaxTorn = max(2, 16/heavy) * scale
				o.MaxSingle = max(2, 12/heavy) * scale
				c.exploreFrom(start, v, o, max(4, seldom*(40+2*min(sc.heavy, 30))/scale/race.Every))
				t.Logf("%d crash states (%d within a recovery), %d distinct disks; %d with a torn tail, %d copies",
					c.checked, c.second, len(c.distinct), c.torn, c.copies)
				if c.torn == 0 || c.second == 0 || c.copies == 0 {
					t.Fatal("the crashes miss what they are for")
				}
				total += c.checked
				distinct += len(c.distinct)
			})
		}
	}
	t.Logf("%d crash states, %d distinct", total, distinct)
}
