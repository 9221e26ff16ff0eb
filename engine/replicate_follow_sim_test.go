package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/vfs/crashfs"
	"github.com/stele-go/stele/replica"
)

// FollowStore and RejoinStore are those of package backup.
var (
	FollowStore func(dir string, o Options) (*Engine, error)
	RejoinStore func(ctx context.Context, dir string, o Options) (base.LSN, error)
)

// stepFollower makes one thing happen to a follower.
func (w *replicaWorld) stepFollower() {
	names := slices.Sorted(maps.Keys(w.followers))
	if len(names) == 0 || len(names) < 3 && w.rng.IntN(12) == 0 {
		w.lives++
		m := &machine{name: fmt.Sprint("f", w.lives), fs: crashfs.New(), frozen: -1}
		w.followers[m.name] = m
		w.follow(m)
		return
	}
	m := w.followers[names[w.rng.IntN(len(names))]]
	if m.e == nil {
		if w.rng.IntN(6) == 0 {
			w.promote(m)
			return
		}
		w.follow(m)
		return
	}
	ctx := context.Background()
	var err error
	switch n := w.rng.IntN(100); {
	case n < 66:
		w.poll(m)
	case n < 70:
		err = m.e.WriteImage(ctx)
		if !errors.Is(err, fault.ErrFollower) {
			w.fatal("%s writes an image when told to: %v", m.client, err)
		}
		m.e.images.mu.Lock()
		err = m.e.images.Write(false)
		m.e.images.mu.Unlock()
		w.note("%s writes an image: %v", m.client, err)
	case n < 74:
		_, err = m.e.compactor.step(ctx, nil)
		w.note("%s compacts: %v", m.client, err)
	case n < 78:
		err = m.e.Close()
		w.note("%s closes: %v", m.client, err)
		m.e = nil
	case n < 84:
		w.kill(m, false)
	case n < 90:
		w.kill(m, true)
	case n < 94:
		if err = m.e.Close(); err == nil {
			m.e = nil
			w.promote(m)
		}
	default:
		w.demote()
	}
	if err != nil && errors.Is(err, fault.ErrCorrupt) {
		w.fatal("%v", err)
	}
}

// live begins the life of a process.
func (w *replicaWorld) live(m *machine) {
	w.lives++
	m.client, m.frozen = fmt.Sprintf("%s-%d", m.name, w.lives), -1
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen[m.client] = func() { m.frozen = m.fs.Len() }
	if w.rng.IntN(4) == 0 {
		w.freeze[m.client] = w.rng.IntN(60)
	}
}

// follow opens a directory as a follower.
func (w *replicaWorld) follow(m *machine) {
	w.checkDurable(m)
	w.live(m)
	again := m.shown != nil
	m.shown = nil // it may have to be made anew
	e, err := FollowStore("store", w.options(m.fs, m.client))
	w.note("%s follows: %v", m.client, err)
	switch {
	case err == nil:
		m.e = e
		w.stats["follows"]++
		if again {
			w.stats["refollows"]++
		}
		w.shows(m, true)
	case errors.Is(err, replica.ErrDiverged), errors.Is(err, replica.ErrPointGone):
		if errors.Is(err, ErrSeed) {
			return // the bucket does not answer
		}
		w.rejoin(m, err)
	case errors.Is(err, fault.ErrCorrupt) && !errors.Is(err, ErrSeed):
		w.fatal("%s finds damage: %v", m.client, err)
	}
}

// checkDurable checks that the disk has what a follower has shown before it ended.
func (w *replicaWorld) checkDurable(m *machine) {
	last := base.LSN(0)
	for _, a := range m.shown {
		last = max(last, a.lsn)
	}
	if last == 0 {
		return
	}
	e, err := Open("store", Options{FS: m.fs, ReadOnly: true})
	if err != nil {
		if errors.Is(err, fault.ErrNotStore) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fault.ErrCorrupt) {
			w.fatal("%s has shown record %d, and is gone: %v", m.name, last, err)
		}
		return
	}
	if got := e.Index.LSN(); got < last {
		w.fatal("%s has shown record %d, and its disk has %d", m.name, last, got)
	}
	if err := e.Close(); err != nil {
		w.fatal("%v", err)
	}
}

// shows checks what a follower shows: whole calls, in the order of commits, no fewer than before; once it has looked, all that is in the
// lineage. What it shows is never lost.
func (w *replicaWorld) shows(m *machine, looked bool) {
	w.check(m, m.e, looked)
	for _, a := range m.shown {
		if a.lsn > m.e.Index.LSN() {
			w.fatal("%s shows %d records, and has shown %d", m.client, m.e.Index.LSN(), a.lsn)
		}
	}
	for lsn, call := range w.read(m.e) {
		w.ack(lsn, call)
	}
	if _, err := checkPatches(m.e); err != nil {
		w.fatal("%s: %v", m.client, err)
	}
	m.shown = append(m.shown, ack{lsn: m.e.Index.LSN(), at: m.fs.Len()})
}

func (w *replicaWorld) poll(m *machine) {
	was := m.e.flushes.Load()
	err := m.e.follower.poll(context.Background())
	w.note("%s looks: %v; it has %d", m.client, err, m.e.Index.LSN())
	w.stats["polls"]++
	w.stats["cuts"] += int(m.e.flushes.Load() - was)
	if errors.Is(err, fault.ErrCorrupt) || errors.Is(err, replica.ErrDiverged) {
		w.fatal("%v", err)
	}
	w.shows(m, err == nil)
	if err := tryPut(context.Background(), m.e, "other"); !errors.Is(err, fault.ErrFollower) {
		w.fatal("a follower takes a commit: %v", err)
	}
}

// catchUp has a follower look until the bucket has answered.
func (w *replicaWorld) catchUp(m *machine) {
	w.mu.Lock()
	delete(w.freeze, m.client)
	w.mu.Unlock()
	for try := 0; m.e != nil && m.e.follower.trouble != nil && m.e.follower.ended == nil; try++ {
		if try > 100 {
			w.fatal("%s does not catch up: %v", m.client, m.e.follower.trouble)
		}
		w.poll(m)
	}
}

// promote makes a directory that followed the leader.
func (w *replicaWorld) promote(m *machine) {
	w.checkDurable(m)
	m.shown = nil
	delete(w.followers, m.name)
	w.machines[m.name] = m
	if w.open(m) {
		w.stats["promoted"]++
	}
}

// demote makes a directory that led, and whose process has ended, a follower.
func (w *replicaWorld) demote() {
	for _, name := range slices.Sorted(maps.Keys(w.machines)) {
		if m := w.machines[name]; m.e == nil && len(w.machines) > 1 {
			delete(w.machines, name)
			w.followers[name] = m
			w.stats["demoted"]++
			w.follow(m)
			return
		}
	}
}

// rejoin has a directory that cannot follow give up what it has alone, which is saved.
func (w *replicaWorld) rejoin(m *machine, cause error) {
	e, err := Open("store", Options{FS: m.fs, ReadOnly: true})
	if err != nil {
		w.fatal("%v", err)
	}
	had := w.read(e)
	if err := e.Close(); err != nil {
		w.fatal("%v", err)
	}
	w.live(m)
	first, err := RejoinStore(context.Background(), "store", w.options(m.fs, m.client))
	w.note("%s rejoins after %v: from %d, %v", m.client, cause, first, err)
	m.acks, m.shown = nil, nil
	if err != nil {
		delete(w.followers, m.name)
		return
	}
	w.stats["rejoined"]++
	tail, _ := w.tails(m, func(string) bool { return true })
	if e, err = Open("store", Options{FS: m.fs, ReadOnly: true}); err != nil {
		w.fatal("%v", err)
	}
	has := w.read(e)
	if err := e.Close(); err != nil {
		w.fatal("%v", err)
	}
	for lsn, call := range had {
		if has[lsn] != call && !tail[call] {
			w.fatal("%s has lost call %d, record %d, and no file has it", m.client, call, lsn)
		}
	}
}
