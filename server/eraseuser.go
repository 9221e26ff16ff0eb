package server

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stele-go/stele/base/metrics"
	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/admin"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/saver/rules"
	"github.com/stele-go/stele/store"
	"github.com/stele-go/stele/store/cache"
)

// EraseOptions say of whom EraseUser erases everything, and where.
type EraseOptions struct {
	// Saver, Store and Queue are those of the server. Required. The server may be at work meanwhile.
	Saver saver.Saver
	Store store.Store
	Queue runs.Queue
	// Caches are further caches of results of nodes, beside that in the directory of Saver. Each is cleared
	// as a whole: no entry says whose it is.
	Caches []cache.Cache
	// Identity is the user's. Required.
	Identity string
	// Filter is the metadata of what is the user's; each value is a text, a number or a boolean. Nil is that of
	// OwnThings: Identity as owner. Where Authorize grants another filter, give that one. What belongs to
	// several, as by $contains, is not the user's alone, and stays.
	Filter map[string]any
	// Items are namespaces of the store that are the user's, too, with all below them, beside ItemsOf(Identity).
	Items []store.Namespace
	// Backups are directories with backups of a store in a directory, to be named in the report beside those that lie
	// next to it.
	Backups []string
	// DryRun writes nothing, and reports what would be erased.
	DryRun bool
	// Logger reports records that cannot be decoded. Nil is slog.Default().
	Logger *slog.Logger
}

// EraseReport says what EraseUser has erased, or would erase.
type EraseReport struct {
	Identity    string         `json:"identity"`
	Filter      map[string]any `json:"filter"`
	DryRun      bool           `json:"dry_run"`
	Threads     int            `json:"threads"`
	Checkpoints int            `json:"checkpoints"` // of all namespaces
	Runs        int            `json:"runs"`
	Events      int            `json:"events"` // of the runs
	Crons       int            `json:"crons"`
	Schedules   int            `json:"schedules"`
	Assistants  int            `json:"assistants"` // also those of which an earlier version was the user's, and goes
	Items       int            `json:"items"`
	Actions     int            `json:"actions"` // what was still to be done, such as webhooks to be called
	// Pending is how many erasures of the store an earlier call did not finish: what they were to erase is deleted, but
	// files may still hold bytes of it. A call that is not a dry run finishes them.
	Pending int `json:"pending"`
	// Shared are threads of others on which the user had runs, and threads without a record that are not the user's
	// alone. The user's runs go; what they left in the state, and the identity in the metadata of checkpoints, stay.
	Shared []string `json:"shared"`
	// Former is how many namespaces lie where an earlier version kept items of the user. They may be a program's,
	// and stay: MoveItems moves them, or Items names them.
	Former int `json:"former"`
	// Unreadable is how many records and runs cannot be decoded: nobody knows whose they are, and they stay.
	Unreadable int `json:"unreadable"`
	// Erased: no file of the store has a byte of it; in a dry run, none will have. Else it is only deleted.
	Erased bool `json:"erased"`
	// Backups hold what they held when they were made, until they are replaced or removed. Beyond says
	// what else may.
	Backups []admin.FoundBackup `json:"backups"`
	Beyond  string              `json:"beyond"`
	Took    time.Duration       `json:"took_ns"`
}

// What may still hold something, where the store erases and where it only deletes.
const (
	beyondErased  = "copies and snapshots of the directory that were made before, what the device keeps of removed files, and logs and traces"
	beyondDeleted = "the store's own files, as it does not erase (PostgreSQL: dead rows until VACUUM FULL, and the write-ahead log), caches of results in other processes, replicas, backups and dumps that were made before, and logs and traces"
)

// ErrUserActive: while EraseUser was at work, more and more of the user came. What it found is deleted. End the
// user's access, and call again.
var ErrUserActive = errors.New("the user goes on meanwhile: end the user's access, then erase again")

// EraseUser erases everything about a user that a server and its stores keep:
//
//   - threads whose metadata matches Filter, with their checkpoints in all namespaces, pending writes, runs,
//     events and crons. Of a thread that the server has no record of, the metadata of its checkpoints and runs
//     counts, which may also say by User.Configurable that the user ran them; it goes if none says that it is
//     another's. A thread that a child runs on (pregel.Child), and that has no record, goes with its parent's;
//   - runs of the user on threads of others, with their events, crons and schedules of the user, and
//     the webhooks of all these that are still to be called;
//   - assistants whose metadata matches, and versions that match of those that were given to others;
//   - items below ItemsOf(Identity) and Items, expired ones included;
//   - signals to threads that are gone: nobody knows any more whose they are;
//   - all cached results of nodes.
//
// A session of MCP is a run on a thread of its own, and goes with it. What others have taken over is theirs: a copy of
// a thread, or in their runs the configuration of an assistant of the user.
//
// # Deleted and erased
//
// What is deleted nobody can read any more. What is erased is in no file either. Everything is deleted
// first, each thing as the server deletes it: last the record that says whose it is. So after a crash, or an
// error, the same call finds what is left and goes on.
//
// If Saver is a *disk.Saver, and Store and Queue are in its directory, all files are then rewritten once, as by
// disk.Saver.EraseRequest; Erased says so. The ids of the threads are noted in the store until then: of these,
// too, only salted hashes stay. An error that matches saver.ErrEraseUnfinished came when all was deleted; the same call,
// or the next disk.Open, finishes the rewrite. Elsewhere, as on PostgreSQL, nothing rewrites the files, and the ids of
// deleted threads are remembered as after DeleteThread; see EraseReport.Beyond.
//
// # Beside the user's runs
//
// A run of the user that has not ended is cancelled, and its end is waited for; if it does not end within
// 15 seconds the error says so, as of one whose server has died on PostgreSQL: it ends when another one runs.
// EraseUser looks again until it finds nothing; a user who goes on all the same is
// ErrUserActive, and what came after the last look stays. So end the user's access first.
//
// A thread is looked at again under its lock before it goes, so that one that was given to somebody else, or made anew, stays. The lock
// is this process's: what another server on one PostgreSQL changes between that look and the removal is not seen, as with every
// change of one record by two servers at once. Give threads away before.
//
// A run that was to be rolled back when its server was killed needs a server first, also in a directory: until then its
// checkpoints are there, and on a thread of others they stay.
//
// It reads the records of all threads, assistants, crons and runs, and the metadata of the checkpoints of threads without a
// record. Wrong options are a saver.InvalidError, before
// anything is written. After an error the report says what was deleted.
func EraseUser(ctx context.Context, o EraseOptions) (EraseReport, error) {
	if o.Saver == nil || o.Store == nil || o.Queue == nil {
		return EraseReport{}, errors.New("server: Saver, Store and Queue are required")
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	s := &Server{cfg: Config{Saver: o.Saver, Store: o.Store, Queue: o.Queue, Auth: NoAuth(), Logger: o.Logger}}
	s.assemble(ctx)
	return s.operator.users.erase(ctx, ctx, o)
}

// userErasure erases users.
type userErasure struct {
	threads    *threadAPI
	runs       *runAPI
	assistants *assistantAPI
}

// eraseTurns bounds how often EraseUser looks for more.
const eraseTurns = 4

// erase erases a user. Once all is deleted it goes on until rewriting ends, though ctx does.
func (s *userErasure) erase(ctx, rewriting context.Context, o EraseOptions) (rep EraseReport, err error) {
	start := time.Now()
	defer func() { rep.Took = time.Since(start) }()
	if err := o.check(); err != nil {
		return rep, err
	}
	d := s.directory()
	rep = EraseReport{Identity: o.Identity, Filter: o.Filter, DryRun: o.DryRun, Shared: []string{}, Erased: d != nil && o.DryRun,
		Backups: []admin.FoundBackup{}, Beyond: beyondDeleted}
	if d == nil && len(o.Backups) > 0 {
		return rep, saver.Invalidf("backups", "only those of a store in one directory can be looked into")
	}
	if d != nil {
		rep.Beyond = beyondErased
		if rep.Backups, err = admin.BackupsOf(d, o.Backups...); err != nil {
			return rep, err
		}
		if rep.Pending, err = d.PendingErasures(); err != nil {
			return rep, err
		}
		for _, err := range s.noted(o.Identity).each(ctx) {
			if err != nil {
				return rep, err
			}
			rep.Pending++
		}
	}
	if at := formerPlace(o.Identity); movable(o.Identity) && !slices.ContainsFunc(o.Items, func(ns store.Namespace) bool { return slices.Equal(ns, at) }) {
		former, err := formerOf(ctx, s.threads.store, o.Identity)
		if err != nil {
			return rep, err
		}
		rep.Former = len(former)
	}
	if w, ok := s.threads.store.(store.Sweeper); ok && d == nil && !o.DryRun {
		if _, err := w.Sweep(ctx); err != nil { // no search finds what has expired
			return rep, err
		}
	}
	for turn := 0; ; turn++ {
		f, err := s.find(ctx, &o, d)
		if err != nil {
			return rep, err
		}
		if turn == 0 {
			rep.Unreadable, rep.Items = f.unreadable, f.planned
		}
		for id := range f.shared {
			if at, named := slices.BinarySearch(rep.Shared, id); !named {
				rep.Shared = slices.Insert(rep.Shared, at, id)
			}
		}
		if f.nothing() {
			break
		}
		if turn == eraseTurns {
			return rep, ErrUserActive
		}
		if err := s.count(ctx, f, d, &rep); err != nil || o.DryRun {
			return rep, err
		}
		if err := s.delete(ctx, &o, f, d); err != nil {
			return rep, err
		}
	}
	if o.DryRun {
		return rep, nil
	}
	if d != nil {
		results, err := cache.On(d, cache.Options{})
		if err != nil {
			return rep, err
		}
		o.Caches = append(o.Caches[:len(o.Caches):len(o.Caches)], results)
	}
	for _, c := range o.Caches {
		if err := c.Clear(rewriting); err != nil {
			return rep, err
		}
	}
	if d == nil {
		return rep, nil
	}
	if err := s.eraseFiles(rewriting, &o, d); err != nil {
		return rep, err
	}
	rep.Erased = true
	rep.Beyond = strings.Join(append([]string{beyondErased}, admin.LeftOf(rewriting, d)...), "; ")
	return rep, nil
}

// eraseFiles erases what is deleted from all files. Of the threads noted, one that is there has been made anew
// since, maybe by another user. No request makes one until the ids are deleted, too.
func (s *userErasure) eraseFiles(ctx context.Context, o *EraseOptions, d *disk.Saver) error {
	notes, noted := s.noted(o.Identity), map[string]bool{}
	strays, err := s.strays(ctx)
	if err != nil {
		return err
	}
	for _, id := range strays {
		noted[id] = true
	}
	req := disk.EraseRequest{Items: append(o.prefixes(), notes.ns)} // the note goes behind the threads
	var locked []func()
	unlock := sync.OnceFunc(func() {
		for _, u := range locked {
			u()
		}
	})
	defer unlock()
	req.Progress = func(metrics.EraseProgress) { unlock() } // all is deleted
	for item, err := range notes.each(ctx) {
		if err != nil {
			return err
		}
		noted[item.Key] = true
	}
	for _, id := range slices.Sorted(maps.Keys(noted)) { // by id, as for whoever else needs several locks
		locked = append(locked, s.threads.locks.thread(id))
		there, err := s.isThere(ctx, id)
		if err != nil {
			return err
		}
		if !there {
			req.Threads = append(req.Threads, id) // with the signals to it
		}
	}
	err = d.EraseRequest(ctx, req)
	if !errors.Is(err, saver.ErrEraseUnfinished) {
		return err
	}
	if plan, failed := d.PlanErase(ctx, disk.EraseRequest{Items: o.prefixes()}); failed != nil || itemsOf(plan) > 0 {
		return &partlyDeleted{err}
	}
	return err
}

// partlyDeleted is an error of an erasure that has left items. It does not match saver.ErrEraseUnfinished, by which
// everything is deleted.
type partlyDeleted struct{ err error }

// Error is that of the erasure.
func (p *partlyDeleted) Error() string { return p.err.Error() }

// Is implements what errors.Is asks for.
func (p *partlyDeleted) Is(target error) bool {
	return target != saver.ErrEraseUnfinished && errors.Is(p.err, target)
}

// As implements what errors.As asks for.
func (p *partlyDeleted) As(target any) bool { return errors.As(p.err, target) }

// check completes the options.
func (o *EraseOptions) check() error {
	if o.Identity == "" {
		return saver.Invalidf("identity", "is empty: name the user")
	}
	if o.Filter == nil {
		o.Filter = map[string]any{"owner": o.Identity}
	}
	if len(o.Filter) == 0 {
		return saver.Invalidf("filter", "is empty, and would select the things of everybody")
	}
	o.Filter = maps.Clone(o.Filter)
	for key, v := range o.Filter {
		if n, ok := v.(json.Number); ok {
			if v, ok = asInteger(n); !ok {
				v, _ = asNumber(n)
			}
			o.Filter[key] = v
		}
		if _, number := asNumber(v); number {
			continue
		}
		switch v.(type) {
		case string, bool:
		default: // nil would select what has no such key
			return saver.Invalidf("filter", "the value of %q is no text, number or boolean", key)
		}
	}
	for _, ns := range o.Items {
		if reserved(ns) && !ownPlace(ns, o.Identity) {
			return saver.Invalidf("items", "%q is the server's, a queue's, or another user's", []string(ns))
		}
	}
	return rules.ValidateErase(nil, o.prefixes())
}

// prefixes are where the items of the user are.
func (o *EraseOptions) prefixes() [][]string {
	all := [][]string{ItemsOf(o.Identity)}
	for _, ns := range o.Items {
		all = append(all, ns)
	}
	return all
}

// directory is the store in which everything is; nil if that is not one directory.
func (s *userErasure) directory() *disk.Saver {
	d, ok := s.threads.saver.(*disk.Saver)
	for _, part := range []any{s.threads.store, s.threads.queue} {
		l, shares := part.(interface{ SharesLog(x any) bool })
		ok = ok && shares && l.SharesLog(d)
	}
	if !ok {
		return nil
	}
	return d
}

// noted are the threads whose erasure has begun, in a namespace that goes with them.
func (s *userErasure) noted(identity string) records[struct{}] {
	r := newRecords[struct{}](s.threads.store, s.threads.log, "erasing")
	r.ns = append(r.ns, placeLabel(identity))
	return r
}

// count adds what was found to a report.
func (s *userErasure) count(ctx context.Context, f *usersThings, d *disk.Saver, rep *EraseReport) error {
	rep.Threads += len(f.threads)
	rep.Runs += len(f.runs)
	rep.Crons += len(f.crons)
	rep.Schedules += len(f.schedules)
	rep.Assistants += len(f.assistants)
	rep.Actions += len(f.actions)
	rep.Items += len(f.items)
	for _, on := range f.threads {
		rep.Crons += len(on.crons)
		rep.Schedules += len(on.schedules)
		rep.Actions += len(on.actions)
	}
	ids := slices.Sorted(maps.Keys(f.threads))
	if d != nil {
		plan, err := d.PlanErase(ctx, disk.EraseRequest{Threads: ids})
		if err != nil {
			return err
		}
		for _, t := range plan.Threads {
			rep.Checkpoints += t.Checkpoints
		}
		ids = nil
	}
	for _, id := range ids {
		for _, err := range s.threads.saver.List(ctx, saver.Query{ThreadID: id}) {
			if err != nil {
				return err
			}
			rep.Checkpoints++
		}
	}
	for id := range f.runs {
		for after := int64(0); ; {
			events, err := s.threads.queue.Events(ctx, id, after, page)
			if errors.Is(err, runs.ErrUnreadable) {
				break
			}
			if err != nil {
				return err
			}
			if rep.Events += len(events); len(events) < page {
				break
			}
			after = events[len(events)-1].Seq
		}
	}
	return nil
}

// delete deletes what was found. What submits more goes first, and a record that says whose something is behind it.
func (s *userErasure) delete(ctx context.Context, o *EraseOptions, f *usersThings, d *disk.Saver) error {
	if d != nil {
		if err := s.note(ctx, o.Identity, f.threads); err != nil {
			return err
		}
	}
	if err := s.deleteSubmitters(ctx, f.crons, f.schedules); err != nil {
		return err
	}
	if err := s.deleteActions(ctx, f.actions); err != nil {
		return err
	}
	for _, id := range f.assistants {
		if err := s.removeAssistant(ctx, id, Grant{Filter: o.Filter}); err != nil {
			return err
		}
	}
	for id, thread := range f.runs {
		if f.threads[thread] != nil {
			continue
		}
		r, err := s.threads.queue.Get(ctx, id)
		if err == nil {
			err = s.threads.endRun(ctx, r, runs.Interrupt)
		}
		if err == nil {
			err = s.clearConfig(ctx, r)
		}
		if err == nil {
			err = s.runs.remove(ctx, r)
		}
		if err != nil && !errors.Is(err, runs.ErrNotFound) {
			return err
		}
	}
	if err := s.endParents(ctx, o, f); err != nil {
		return err
	}
	for _, id := range f.childrenFirst() {
		if err := s.removeThread(ctx, o, id, f); err != nil {
			return err
		}
	}
	return store.Batched(s.threads.store.Batch).InBatches(ctx, f.items)
}

// endParents ends the runs that could start more children when theirs are removed.
func (s *userErasure) endParents(ctx context.Context, o *EraseOptions, f *usersThings) error {
	for child, parent := range f.parents {
		if f.threads[child] == nil || f.threads[parent] == nil {
			continue
		}
		w, err := s.whose(ctx, o, parent, f.owned) // it may have been given away
		if err == nil && w.alone() {
			_, err = s.threads.endRuns(ctx, parent)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *userErasure) deleteSubmitters(ctx context.Context, crons []cron, schedules []string) error {
	for _, id := range schedules {
		if err := s.threads.queue.DeleteSchedule(ctx, id); err != nil {
			return err
		}
	}
	for _, k := range crons {
		if err := s.threads.crons.remove(ctx, k); err != nil {
			return err
		}
	}
	return nil
}

func (s *userErasure) deleteActions(ctx context.Context, actions []deferredAction) error {
	for _, a := range actions {
		s.threads.deferred.pending.Delete(a.key())
		if err := s.threads.deferred.records.delete(ctx, a.key()); err != nil {
			return err
		}
	}
	return nil
}

// clearConfig clears what the record of a thread has of a run.
func (s *userErasure) clearConfig(ctx context.Context, r runs.Run) error {
	defer s.threads.locks.thread(r.ThreadID)()
	t, ok, err := s.threads.records.get(ctx, r.ThreadID)
	if errors.Is(err, errUndecoded) {
		return nil
	}
	if err != nil || !ok || t.Run != r.ID {
		return err
	}
	t.Config = map[string]any{}
	return s.threads.records.put(ctx, t.ID, t)
}

// removeThread removes a thread of the user, with all that is on it, unless it is another's since it was found: it was
// given away, or somebody has made one of its id anew.
func (s *userErasure) removeThread(ctx context.Context, o *EraseOptions, id string, f *usersThings) error {
	on := f.threads[id]
	if w, err := s.whose(ctx, o, id, f.owned); err != nil || !w.alone() {
		return err
	}
	if err := s.deleteSubmitters(ctx, on.crons, on.schedules); err != nil {
		return err
	}
	if err := s.threads.crons.removeOf(ctx, id); err != nil {
		return err
	}
	gone, err := s.removeOwned(ctx, o, id, f)
	if err != nil || !gone {
		return err
	}
	return s.threads.crons.removeOf(ctx, id)
}

// removeOwned is removeThread under the lock of the thread.
func (s *userErasure) removeOwned(ctx context.Context, o *EraseOptions, id string, f *usersThings) (gone bool, err error) {
	defer s.threads.locks.thread(id)()
	if w, err := s.whose(ctx, o, id, f.owned); err != nil || !w.alone() {
		return false, err
	}
	if err := s.deleteActions(ctx, f.threads[id].actions); err != nil {
		return false, err
	}
	if err := s.threads.unfinished.delete(ctx, id); err != nil {
		return false, err
	}
	return true, s.threads.removeLocked(ctx, id)
}

// note notes threads whose ids are to be erased, by this call or another one.
func (s *userErasure) note(ctx context.Context, identity string, threads map[string]*usersThread) error {
	var ops []store.Op
	noted := s.noted(identity)
	for id := range threads {
		op, err := noted.op(id, struct{}{})
		if err != nil {
			return err
		}
		ops = append(ops, op)
	}
	return store.Batched(s.threads.store.Batch).InBatches(ctx, ops)
}

// removeAssistant removes an assistant of a user, or the user's versions of it.
func (s *userErasure) removeAssistant(ctx context.Context, id string, own Grant) error {
	defer s.assistants.locks.assistant(id)()
	a, ok, err := s.assistants.records.get(ctx, id)
	if err != nil || !ok {
		return err
	}
	if left, n := a.without(own); n >= 0 {
		return s.assistants.records.put(ctx, id, left)
	}
	return s.assistants.records.delete(ctx, id)
}
