package server

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"maps"
	"slices"

	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/store"
)

// BesideOptions say of which threads RemoveBeside removes what is kept of them beside their checkpoints, and where.
type BesideOptions struct {
	// Saver, Store and Queue are those of the server. Required.
	Saver saver.Saver
	Store store.Store
	Queue runs.Queue
	// Threads are the ids of the threads. They need not exist.
	Threads []string
	// DryRun writes nothing, and reports what would be removed.
	DryRun bool
	// Logger reports records that cannot be decoded. Nil is slog.Default().
	Logger *slog.Logger
}

// BesideReport says what RemoveBeside has removed, or would remove.
type BesideReport struct {
	// Children are further threads: those on which children of the threads run or ran, and theirs, before their parents'.
	// What is kept of these beside their checkpoints is removed, too.
	Children []string `json:"children"`
	// Found are the threads, children among them, of which anything is kept beside their checkpoints.
	Found     []string `json:"found"`
	Runs      int      `json:"runs"` // with their events
	Crons     int      `json:"crons"`
	Schedules int      `json:"schedules"`
	Actions   int      `json:"actions"` // what was still to be done, such as webhooks to be called
	// Unreadable is how many records and runs cannot be decoded: nobody knows of which thread they are, and they stay.
	Unreadable int `json:"unreadable"`
	// Notes are namespaces of the store with what RemoveBeside notes of the children, so that the same call finds them when
	// their runs are gone. They are to be removed behind Children, and before the other threads.
	Notes [][]string `json:"-"`
}

// RemoveBeside removes what a server and a queue keep of threads beside their checkpoints: runs, events, crons, schedules,
// webhooks that are still to be called, and the records of the threads, also of the children that they have started. It
// leaves checkpoints and signals, for who erases these next: a filter finds the threads by them if the call is repeated.
//
// Runs that have not ended are interrupted, and waited for, as by EraseUser, those of parents first. A run that is submitted
// meanwhile, and what it starts, may stay, so end what submits them first. After a crash, or an error, the same
// call goes on. Missing options are an error, before anything is written.
func RemoveBeside(ctx context.Context, o BesideOptions) (BesideReport, error) {
	if o.Saver == nil || o.Store == nil || o.Queue == nil {
		return BesideReport{}, errors.New("server: Saver, Store and Queue are required")
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	s := &Server{cfg: Config{Saver: o.Saver, Store: o.Store, Queue: o.Queue, Auth: NoAuth(), Logger: o.Logger}}
	s.assemble(ctx)
	return s.operator.users.removeBeside(ctx, o)
}

func (s *userErasure) removeBeside(ctx context.Context, o BesideOptions) (rep BesideReport, err error) {
	f, err := s.findFamily(ctx, o.Threads)
	if err == nil && !o.DryRun {
		f, err = s.endFamily(ctx, o.Threads, f)
	}
	if err != nil {
		return rep, err
	}
	order := f.childrenFirst()
	nobody := EraseOptions{Identity: rand.Text()} // so all that is found is on the threads
	own := Grant{Filter: map[string]any{"owner": nobody.Identity}}
	nobody.Filter = own.Filter
	if err := s.findRuns(ctx, &nobody, own, f); err != nil {
		return rep, err
	}
	if err := s.findRecords(ctx, nobody.Identity, own, f); err != nil {
		return rep, err
	}
	rep = BesideReport{Children: []string{}, Found: []string{}, Runs: len(f.runs), Unreadable: f.unreadable, Notes: f.notes}
	named, begun := map[string]bool{}, map[string]bool{}
	for _, id := range o.Threads {
		named[id] = true
	}
	for _, id := range f.runs {
		begun[id] = true
	}
	for _, id := range order {
		on := f.threads[id]
		rep.Crons += len(on.crons)
		rep.Schedules += len(on.schedules)
		rep.Actions += len(on.actions)
		if !named[id] {
			rep.Children = append(rep.Children, id)
		}
		_, recorded, err := s.threads.records.get(ctx, id)
		if err != nil && !errors.Is(err, errUndecoded) {
			return rep, err
		}
		if recorded || err != nil || len(on.crons)+len(on.schedules)+len(on.actions) > 0 || begun[id] {
			rep.Found = append(rep.Found, id)
		}
	}
	if o.DryRun {
		return rep, nil
	}
	for _, id := range order {
		if err := s.removeOn(ctx, id, f.threads[id]); err != nil {
			return rep, err
		}
	}
	return rep, nil
}

// endFamily ends the runs of all threads of f, those of parents before those of children: a run that hears that its child has
// ended may start another. It returns all that are found then, since one may have started a child until it ended.
// Children are noted before.
func (s *userErasure) endFamily(ctx context.Context, threads []string, f *usersThings) (*usersThings, error) {
	for turn, ended := 0, 0; len(f.threads) > ended; turn++ {
		if turn == eraseTurns {
			return nil, errors.New("runs of the threads start more and more children meanwhile: stop who starts these runs, then erase again")
		}
		ended = len(f.threads)
		var notes []store.Op
		for child, parent := range f.parents {
			op, err := s.childrenNoted(parent).op(child, struct{}{})
			if err != nil {
				return nil, err
			}
			notes = append(notes, op)
		}
		if err := store.Batched(s.threads.store.Batch).InBatches(ctx, notes); err != nil {
			return nil, err
		}
		for _, id := range slices.Backward(f.childrenFirst()) {
			if _, err := s.threads.endRuns(ctx, id); err != nil {
				return nil, err
			}
		}
		var err error
		if f, err = s.findFamily(ctx, threads); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// removeOn removes what is kept of a thread beside its checkpoints and signals.
func (s *userErasure) removeOn(ctx context.Context, id string, on *usersThread) error {
	defer s.threads.locks.thread(id)()
	if err := s.deleteSubmitters(ctx, on.crons, on.schedules); err != nil {
		return err
	}
	if err := s.threads.crons.removeOf(ctx, id); err != nil {
		return err
	}
	if err := s.deleteActions(ctx, on.actions); err != nil {
		return err
	}
	if err := s.threads.unfinished.delete(ctx, id); err != nil {
		return err
	}
	all, err := s.threads.endRuns(ctx, id)
	if err != nil {
		return err
	}
	return s.threads.forget(ctx, id, all)
}

// findFamily finds threads, and those on which children of these run or ran, and theirs, by their runs, and by the notes of an
// erasure that has removed these.
func (s *userErasure) findFamily(ctx context.Context, threads []string) (*usersThings, error) {
	f := newThings()
	for _, id := range threads {
		f.threads[id] = &usersThread{}
	}
	under := map[string][]string{}
	for r, err := range s.threads.queue.List(ctx, runs.Query{}) {
		if errors.Is(err, runs.ErrUnreadable) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if r.Parent != "" {
			under[r.Parent] = append(under[r.Parent], r.ThreadID)
		}
	}
	for next := slices.Collect(maps.Keys(f.threads)); len(next) > 0; next = next[1:] {
		parent := next[0]
		children := under[parent]
		noted := s.childrenNoted(parent)
		for item, err := range noted.each(ctx) {
			if err != nil {
				return nil, err
			}
			children = append(children, item.Key)
		}
		if len(children) > len(under[parent]) {
			f.notes = append(f.notes, noted.ns)
		}
		for _, child := range children {
			if f.threads[child] == nil {
				f.threads[child], f.parents[child] = &usersThread{}, parent
				next = append(next, child)
			}
		}
	}
	return f, nil
}

// childrenNoted are the threads of the children of a thread whose erasure has begun, in a namespace that goes with it.
func (s *userErasure) childrenNoted(parent string) records[struct{}] {
	r := newRecords[struct{}](s.threads.store, s.threads.log, "erasing")
	r.ns = append(r.ns, "%children", placeLabel(parent)) // no identity has that label
	return r
}
