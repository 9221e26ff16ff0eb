package server

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/saver/layout"
	"github.com/stele-go/stele/store"
)

// usersThings are what is found of a user.
type usersThings struct {
	threads    map[string]*usersThread
	known      map[string]bool   // threads of which it is known whether they are in threads
	shared     map[string]bool   // threads that are not the user's alone: true if no record says so
	runs       map[string]string // their threads, by id
	parents    map[string]string // of threads that children run on, as runs say
	owned      ownedBy
	notes      [][]string // namespaces of the store that note children, if threads are erased and not a user
	crons      []cron
	assistants []string
	actions    []deferredAction
	schedules  []string
	items      []store.Op // deletions; nil in a directory, where they are in planned
	planned    int
	unreadable int
}

// usersThread is what is found on a thread of a user, beside its runs, that is not the user's by itself. It goes with
// the thread.
type usersThread struct {
	crons     []cron
	schedules []string
	actions   []deferredAction
}

func (f *usersThings) nothing() bool {
	return len(f.threads)+len(f.runs)+len(f.crons)+len(f.assistants)+len(f.actions)+len(f.schedules)+len(f.items) == 0
}

func newThings() *usersThings {
	return &usersThings{threads: map[string]*usersThread{}, known: map[string]bool{}, shared: map[string]bool{}, runs: map[string]string{}, parents: map[string]string{}, owned: ownedBy{}}
}

// childrenFirst are the threads that were found, those of children before those of their parents: a child is the user's
// because its parent is.
func (f *usersThings) childrenFirst() []string {
	depth := map[string]int{}
	for id := range f.threads {
		var chain []string
		at := id
		for ; f.threads[at] != nil && depth[at] == 0; at = f.parents[at] {
			depth[at] = -1 // until it is known: a program can make its parents a circle
			chain = append(chain, at)
		}
		above := max(depth[at], 0)
		for i, id := range slices.Backward(chain) {
			depth[id] = above + len(chain) - i
		}
	}
	ids := slices.Sorted(maps.Keys(f.threads))
	slices.SortStableFunc(ids, func(a, b string) int { return depth[b] - depth[a] })
	return ids
}

func (s *userErasure) find(ctx context.Context, o *EraseOptions, d *disk.Saver) (*usersThings, error) {
	f := newThings()
	own := Grant{Filter: o.Filter}
	steps := []func() error{
		func() error { return s.findThreads(ctx, o, own, f) },
		func() error { return s.findRuns(ctx, o, own, f) },
		func() error { return s.findRecords(ctx, o.Identity, own, f) },
		func() error { return s.findAssistants(ctx, own, f) },
		func() error { return s.findItems(ctx, o, d, f) },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return f, nil
}

func (s *userErasure) findThreads(ctx context.Context, o *EraseOptions, own Grant, f *usersThings) error {
	for t, err := range decodable(ctx, s.threads.records, f) {
		if err != nil {
			return err
		}
		if f.known[t.ID] = true; own.admits(t.Metadata) {
			f.threads[t.ID] = &usersThread{}
		}
	}
	var unrecorded []string
	for info, err := range s.threads.saver.Threads(ctx, saver.ThreadQuery{WithoutNotes: true}) { // no metadata is read: some may be damaged
		if err != nil {
			return err
		}
		if !f.known[info.ThreadID] {
			unrecorded = append(unrecorded, info.ThreadID)
		}
	}
	for _, id := range unrecorded {
		if err := s.addUnrecorded(ctx, o, id, f); err != nil {
			return err
		}
	}
	return nil
}

// addUnrecorded adds a thread that was not among the records, if it is the user's.
func (s *userErasure) addUnrecorded(ctx context.Context, o *EraseOptions, id string, f *usersThings) error {
	if f.known[id] {
		return nil
	}
	f.known[id] = true
	w, err := s.whose(ctx, o, id, f.owned)
	switch {
	case err != nil && isOfThread(err):
		s.threads.log.Error("a thread cannot be read", "thread", id, "error", err)
		f.unreadable++
		return nil
	case w.alone():
		f.threads[id] = &usersThread{}
	case w.user:
		f.shared[id] = true
	}
	return err
}

// whose says who has a part in a thread.
type whose struct{ user, other bool }

func (w whose) alone() bool { return w.user && !w.other }

// ownedBy has, of threads that were looked at, by which one of them and those above a thread is the user's; "" if by none.
type ownedBy map[string]string

// whose is who has a part in a thread. If there is a record, that says whose it is: a run on it may have been given any
// metadata. Else the thread of a child is the user's if that of its parent is, and what its checkpoints and runs say. Of threads
// above it, known is believed as far as it leads to one that is the user's still.
func (s *userErasure) whose(ctx context.Context, o *EraseOptions, id string, known ownedBy) (w whose, err error) {
	var chain []string // the thread, its parent, and so on
	for at, seen := id, map[string]bool{}; at != ""; {
		seen[at] = true
		chain = append(chain, at)
		if at, err = s.above(ctx, at); err != nil {
			return w, err
		}
		if seen[at] { // a program can make its parents a circle, of which each is above the others
			known = ownedBy{}
			break
		}
		owner, looked := known[at]
		if looked && owner != "" {
			if w, err = s.itself(ctx, o, owner); err != nil {
				return w, err
			}
			if !w.alone() { // it was given away
				return s.whose(ctx, o, id, ownedBy{})
			}
			known.add(owner, chain)
			return w, nil
		}
		if looked {
			break
		}
	}
	for i, at := range slices.Backward(chain) {
		if w, err = s.itself(ctx, o, at); err != nil {
			return w, err
		}
		if w.alone() {
			known.add(at, chain[:i+1])
			return w, nil
		}
		known[at] = ""
	}
	return w, nil
}

func (k ownedBy) add(owner string, of []string) {
	for _, id := range of {
		k[id] = owner
	}
}

// above is the thread that has started a thread as its child; "" if none has, or the thread has a record.
func (s *userErasure) above(ctx context.Context, id string) (string, error) {
	_, recorded, err := s.threads.records.get(ctx, id)
	if recorded || errors.Is(err, errUndecoded) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	for r, err := range s.threads.queue.List(ctx, runs.Query{ThreadID: id, Limit: 1}) {
		if err == nil {
			return r.Parent, nil
		}
	}
	return "", nil
}

// itself is whose, without the threads above.
func (s *userErasure) itself(ctx context.Context, o *EraseOptions, id string) (w whose, err error) {
	t, ok, err := s.threads.records.get(ctx, id)
	if errors.Is(err, errUndecoded) {
		return w, nil
	}
	if err != nil || ok {
		w.user = ok && Grant{Filter: o.Filter}.admits(t.Metadata)
		return whose{w.user, !w.user}, err
	}
	for _, by := range []map[string]any{o.Filter, {userID: o.Identity}} {
		for _, err := range s.threads.saver.Threads(ctx, saver.ThreadQuery{ThreadID: id, Metadata: by, WithoutNotes: true}) {
			if err != nil {
				return w, err
			}
			w.user = true
		}
	}
	for r, err := range s.threads.queue.List(ctx, runs.Query{ThreadID: id}) {
		if errors.Is(err, runs.ErrUnreadable) {
			continue
		}
		if err != nil {
			return w, err
		}
		by := o.partOf(runMetadata(r))
		w = whose{w.user || by.user, w.other || by.other}
	}
	if !w.alone() {
		return w, nil
	}
	for at, err := range s.threads.saver.List(ctx, saver.Query{ThreadID: id, Namespace: saver.InNamespace("")}) {
		if err != nil {
			return w, err
		}
		if o.partOf(at.Metadata).other {
			return whose{true, true}, nil
		}
	}
	return w, nil
}

// userID is where the configurable of a run has its user's identity, and the metadata of its checkpoints.
const userID = authPrefix + "user_id"

// runMetadata is the metadata of a run, with whose run it is.
func runMetadata(r runs.Run) map[string]any {
	return merged(r.Metadata, map[string]any{userID: r.Configurable[userID]})
}

// partOf says whose a checkpoint or a run with this metadata is. What says it for Filter counts more than who ran it: an
// operator may work at a user's thread.
func (o *EraseOptions) partOf(metadata map[string]any) (w whose) {
	if w.user = (Grant{Filter: o.Filter}).admits(metadata); w.user {
		return w
	}
	for key, want := range o.Filter {
		w.other = w.other || metadata[key] != nil && !same(metadata[key], want)
	}
	if by := metadata[userID]; by != nil && !w.other {
		return whose{by == o.Identity, by != o.Identity}
	}
	return w
}

func (s *userErasure) findRuns(ctx context.Context, o *EraseOptions, own Grant, f *usersThings) error {
	for r, err := range s.threads.queue.List(ctx, runs.Query{}) {
		unreadable := errors.Is(err, runs.ErrUnreadable)
		if err != nil && !unreadable {
			return err
		}
		if r.Parent != "" && !unreadable {
			f.parents[r.ThreadID] = r.Parent
		}
		its := !unreadable && o.partOf(runMetadata(r)).user
		if its {
			if err := s.addUnrecorded(ctx, o, r.ThreadID, f); err != nil {
				return err
			}
		}
		switch {
		case f.threads[r.ThreadID] != nil:
			f.runs[r.ID] = r.ThreadID
		case !unreadable && r.Configurable[userID] == o.Identity, its && f.shared[r.ThreadID]:
			f.runs[r.ID] = r.ThreadID
			if _, known := f.shared[r.ThreadID]; !known {
				f.shared[r.ThreadID] = false
			}
		case unreadable:
			f.unreadable++
		}
	}
	all, err := s.threads.queue.Schedules(ctx)
	for _, k := range all {
		switch {
		case k.Unreadable != nil:
			f.unreadable++
		case own.admits(k.Spec.Metadata), k.Spec.Configurable[userID] == o.Identity:
			f.schedules = append(f.schedules, k.ID)
		default:
			if on := f.threads[k.Spec.ThreadID]; on != nil {
				on.schedules = append(on.schedules, k.ID)
			}
		}
	}
	return err
}

func (s *userErasure) findRecords(ctx context.Context, identity string, own Grant, f *usersThings) error {
	crons, with := map[string]bool{}, map[string]*usersThread{}
	for k, err := range decodable(ctx, s.threads.crons.records, f) {
		if err != nil {
			return err
		}
		if k.User.Identity == identity || own.admits(k.Metadata) {
			f.crons, crons[k.ID] = append(f.crons, cron{ID: k.ID, ThreadID: k.ThreadID}), true
		} else if on := f.threads[k.ThreadID]; on != nil {
			on.crons, with[k.ID] = append(on.crons, cron{ID: k.ID, ThreadID: k.ThreadID}), on
		}
	}
	for a, err := range decodable(ctx, s.threads.deferred.records, f) {
		if err != nil {
			return err
		}
		if on := cmp.Or(f.threads[a.Thread], with[a.Run]); on != nil {
			on.actions = append(on.actions, a)
			continue
		}
		_, its := f.runs[a.Run]
		if its = its || crons[a.Run]; !its && a.Kind == deferredWebhook { // what a call that was cut off has left
			_, err := s.threads.queue.Get(ctx, a.Run)
			if errors.Is(err, runs.ErrNotFound) {
				_, there, err := s.threads.records.get(ctx, a.Thread) // if it is, this may be another queue than the server's
				its = err == nil && !there
			}
		}
		if its {
			f.actions = append(f.actions, a)
		}
	}
	return nil
}

func (s *userErasure) findAssistants(ctx context.Context, own Grant, f *usersThings) error {
	for a, err := range decodable(ctx, s.assistants.records, f) {
		if err != nil {
			return err
		}
		if _, left := a.without(own); left < len(a.Versions) {
			f.assistants = append(f.assistants, a.ID)
		}
	}
	return nil
}

// without is an assistant without the versions that a grant shows, and how many are left; none if the assistant
// itself is its. That of a graph is nobody's.
func (a assistant) without(own Grant) (assistant, int) {
	if a.System {
		return a, len(a.Versions)
	}
	if own.admits(a.Metadata) {
		return a, -1
	}
	a.Versions = slices.DeleteFunc(slices.Clone(a.Versions), func(v version) bool { return own.admits(v.Metadata) })
	return a, len(a.Versions)
}

func (s *userErasure) findItems(ctx context.Context, o *EraseOptions, d *disk.Saver, f *usersThings) error {
	strays, err := s.strays(ctx)
	if err != nil {
		return err
	}
	all := o.prefixes()
	for _, id := range strays {
		inbox, former := layout.Inbox(id)
		all = append(all, inbox, former)
	}
	if d != nil { // no value is read: one may be damaged
		plan, err := d.PlanErase(ctx, disk.EraseRequest{Items: all})
		f.planned = itemsOf(plan)
		return err
	}
	for _, prefix := range all {
		at := records[struct{}]{items: s.threads.store, ns: prefix}
		for item, err := range at.each(ctx) {
			if err != nil {
				return err
			}
			f.items = append(f.items, store.PutOp{Namespace: item.Namespace, Key: item.Key})
		}
	}
	return nil
}

// strays are threads that are gone, and to which signals are left: whoever deleted one has not deleted these, and nobody
// knows any more whose they are.
func (s *userErasure) strays(ctx context.Context) (ids []string, err error) {
	found, err := s.threads.store.ListNamespaces(ctx, store.NamespaceQuery{Match: []store.Match{{Kind: store.MatchPrefix, Path: []string{signalsSpace}}}, MaxDepth: 2, Limit: store.NoLimit})
	if err != nil {
		return nil, err
	}
	for _, ns := range found {
		id, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(ns[len(ns)-1], "~"))
		if err != nil || len(ns) != 2 {
			continue
		}
		there, err := s.isThere(ctx, string(id))
		if err != nil {
			return nil, err
		}
		if !there {
			ids = append(ids, string(id))
		}
	}
	return ids, nil
}

// isThere reports whether there is a record, a state or a run of a thread.
func (s *userErasure) isThere(ctx context.Context, id string) (bool, error) {
	_, there, err := s.threads.records.get(ctx, id)
	if errors.Is(err, errUndecoded) {
		return true, nil
	}
	if err != nil || there {
		return there, err
	}
	return s.threads.begun(ctx, id)
}

// itemsOf is how many items a plan has.
func itemsOf(plan disk.ErasePlan) (n int) {
	for _, p := range plan.Items {
		n += p.Items
	}
	return n
}

// decodable yields the records that can be decoded, and counts the others.
func decodable[T any](ctx context.Context, r records[T], f *usersThings) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for item, err := range r.each(ctx) {
			var v T
			if err == nil {
				v, err = r.of(item)
			}
			if errors.Is(err, errUndecoded) {
				r.log.Error("a record cannot be decoded", "error", err)
				f.unreadable++
				continue
			}
			if !yield(v, err) || err != nil {
				return
			}
		}
	}
}
