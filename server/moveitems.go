package server

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/store"
)

// MoveOptions say what MoveItems moves.
type MoveOptions struct {
	// Store is that of the server. It must be a store.Mover, as those of stele are. Required.
	Store store.Store
	// Queue is that of the server: users who are known by runs alone are found there. It may be nil.
	Queue runs.Queue
	// Identities are the users whose items are moved. For a DryRun, none means all known users.
	// Otherwise Identities or Except is required: the namespace of a program cannot be told from the
	// former place of a user of that name, so it may be among those of known users.
	Identities []string
	// Except are users whose items are not moved: the items at their former places are a program's. If
	// no other users are left, servers no longer look for such items.
	Except []string
	// DryRun moves nothing, and reports what would be moved.
	DryRun bool
	// Logger reports records that cannot be decoded. Nil is slog.Default().
	Logger *slog.Logger
}

// MoveReport says what MoveItems did, or would do.
type MoveReport struct {
	DryRun bool         `json:"dry_run"`
	Users  []MovedItems `json:"users"` // those who have items at their former places
	// Settled: nothing is left at the former place of a known user, but of Except. Servers look no more.
	Settled bool `json:"settled"`
	// Unknown are, after a DryRun, the identities to which other items at the root of the store would
	// belong, at most 10,000. They are a program's, or of users who have no record any more. An
	// operator who recognises a user names it in Identities.
	Unknown []string `json:"unknown,omitempty"`
}

// MovedItems says which items of a user were moved.
type MovedItems struct {
	Identity   string          `json:"identity"`
	From       store.Namespace `json:"from"`
	To         store.Namespace `json:"to"`
	Namespaces int             `json:"namespaces"` // below From
	// Below are the first ten of them, after a DryRun: they tell a user's items from a program's.
	Below  []store.Namespace `json:"below,omitempty"`
	Items  int               `json:"items"` // that have left them
	Except bool              `json:"except,omitempty"`
	Left   []LeftItem        `json:"left,omitempty"`
}

// LeftItem is an item that was not moved; without a Key, a namespace of such items.
type LeftItem struct {
	Namespace store.Namespace `json:"namespace"`
	Key       string          `json:"key,omitempty"`
	Reason    string          `json:"reason"`
}

// MoveItems moves the items of users from where earlier versions had them to their places, ItemsOf: from
// below (identity), at the root of the store, where no client finds them any more. Each item keeps its
// value, times, TTL and vectors. One that is at its new place already, with another value, stays and is
// reported. After an error the report says what was moved; after it, or a crash, another call goes on.
//
// Users are known as owners of threads, assistants and crons, and by whose the runs are. What lies below
// (identity) may be a program's all the same: if somebody is called "users", and a program stores below
// ("users", …), nobody but its operator knows which is which. So look at what a DryRun reports, and choose
// with Identities and Except. What lies at (identity) itself is a program's, and stays.
func MoveItems(ctx context.Context, o MoveOptions) (MoveReport, error) {
	rep := MoveReport{DryRun: o.DryRun, Users: []MovedItems{}}
	mover, ok := o.Store.(store.Mover)
	if !ok {
		return rep, fmt.Errorf("server: a %T is no store.Mover", o.Store)
	}
	if !o.DryRun && len(o.Identities)+len(o.Except) == 0 {
		return rep, &saver.InvalidError{Field: "identities", Reason: "none is named; a dry run says who there are"}
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	for _, id := range slices.Concat(o.Identities, o.Except) {
		if !movable(id) {
			return rep, &saver.InvalidError{Field: "identity", Reason: fmt.Sprintf("no items of a user %q can be at %q", id, []string(formerPlace(id)))}
		}
	}
	known := map[string]bool{}
	for id, err := range owners(ctx, o.Store, o.Queue, o.Logger) {
		if err != nil {
			return rep, err
		}
		known[id] = true
	}
	for _, id := range slices.Concat(o.Identities, o.Except) {
		known[id] = true
	}
	settled := true
	for _, id := range slices.Sorted(maps.Keys(known)) {
		named := slices.Contains(o.Identities, id)
		chosen := named || o.DryRun && len(o.Identities) == 0
		m, err := moveItemsOf(ctx, mover, o, id, chosen)
		if (chosen || m.Except) && (named || m.Namespaces > 0) {
			rep.Users = append(rep.Users, m)
		}
		if err != nil {
			return rep, fmt.Errorf("items of %q: %w", id, err)
		}
		settled = settled && (m.Namespaces == 0 || m.Except || chosen && len(m.Left) == 0)
	}
	if rep.Settled = settled; settled && !o.DryRun {
		return rep, newRecords[struct{}](o.Store, o.Logger, settledKind).put(ctx, settledKind, struct{}{})
	}
	if !o.DryRun {
		return rep, nil
	}
	roots, err := formerRoots(ctx, o.Store)
	for _, label := range slices.Sorted(maps.Keys(roots)) {
		id := strings.NewReplacer("%25", "%", "%2E", ".", "%2A", "*").Replace(label)
		if !known[id] && formerPlace(id)[0] == label {
			rep.Unknown = append(rep.Unknown, id)
		}
	}
	return rep, err
}

// moveItemsOf moves the items of one user, if it is chosen.
func moveItemsOf(ctx context.Context, mover store.Mover, o MoveOptions, identity string, chosen bool) (MovedItems, error) {
	m := MovedItems{Identity: identity, From: formerPlace(identity), To: ItemsOf(identity), Except: slices.Contains(o.Except, identity)}
	below, err := formerOf(ctx, o.Store, identity)
	if m.Namespaces = len(below); o.DryRun {
		m.Below = below[:min(len(below), 10)]
	}
	if err != nil || m.Except || !chosen {
		return m, err
	}
	for _, from := range below {
		moved, err := mover.Move(ctx, from, slices.Concat(m.To, from[1:]), o.DryRun)
		m.Items += moved.Moved
		if errors.Is(err, saver.ErrTooLarge) {
			m.Left, err = append(m.Left, LeftItem{Namespace: from, Reason: err.Error()}), nil
		}
		if err != nil {
			return m, err
		}
		for _, key := range moved.Left {
			m.Left = append(m.Left, LeftItem{from, key, "there is another one at its new place"})
		}
	}
	return m, nil
}

// movable reports whether a user of earlier versions may have had items. The former place of any other
// identity belongs to the server, or to other users.
func movable(identity string) bool {
	return identity != "" && !reserved(formerPlace(identity))
}

// formerOf lists the namespaces below formerPlace(identity), where earlier versions kept the items
// of this user. That namespace itself is not among them.
func formerOf(ctx context.Context, s store.Store, identity string) ([]store.Namespace, error) {
	return s.ListNamespaces(ctx, store.NamespaceQuery{Limit: store.NoLimit, Match: []store.Match{{Kind: store.MatchPrefix,
		Path: append(formerPlace(identity), store.Wildcard)}}})
}

// rootsMost bounds the labels at the root of a store that are looked at.
const rootsMost = 10_000

// formerRoots returns the labels at the root of a store that have namespaces below them, except the
// server's.
func formerRoots(ctx context.Context, s store.Store) (map[string]bool, error) {
	roots, err := s.ListNamespaces(ctx, store.NamespaceQuery{Limit: rootsMost, MaxDepth: 1, Match: []store.Match{{Kind: store.MatchPrefix,
		Path: []string{store.Wildcard, store.Wildcard}}}})
	labels := make(map[string]bool, len(roots))
	for _, ns := range roots {
		if !reserved(ns) {
			labels[ns[0]] = true
		}
	}
	return labels, err
}

// owners yields the identities that records and, unless queue is nil, runs name; some more than once.
func owners(ctx context.Context, items store.Store, queue runs.Queue, log *slog.Logger) iter.Seq2[string, error] {
	type owned struct {
		Metadata map[string]any `json:"metadata"`
		User     User           `json:"user"`
	}
	return func(yield func(string, error) bool) {
		for _, kind := range []string{"threads", "assistants", "crons"} {
			for r, err := range newRecords[owned](items, log, kind).all(ctx) {
				owner, _ := r.Metadata["owner"].(string)
				for _, id := range []string{owner, r.User.Identity} {
					if (err != nil || movable(id)) && !yield(id, err) {
						return
					}
				}
			}
		}
		if queue == nil {
			return
		}
		for r, err := range queue.List(ctx, runs.Query{}) {
			if errors.Is(err, runs.ErrUnreadable) {
				continue
			}
			id, _ := r.Configurable[authID].(string)
			if (err != nil || movable(id)) && !yield(id, err) {
				return
			}
		}
	}
}

// settledKind is the kind, and the key, of the record that says that no items of users are at former places.
const settledKind = "places"

// unmovedItems finds items of users that are at their former places.
type unmovedItems struct {
	settled records[struct{}]
	store   store.Store
	auth    *Auth
	log     *slog.Logger
	found   atomic.Bool   // see any
	looked  chan struct{} // closed when look has ended
}

// ownersMost bounds how many identities in records a server checks when it begins.
const ownersMost = 200_000

// look looks, when a server begins, for items at the former places of users, and warns if there are any.
// It runs beside requests, and an error of it hinders none. That it finds nothing does not say that all is
// settled: no record may be left of a user who has items there. A server with an Authorize of its own may
// grant these places still, so it does not call look.
func (s *unmovedItems) look(ctx context.Context) {
	defer close(s.looked)
	id, err := s.find(ctx)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		s.log.Error("look for items where an earlier version kept them; stele move-items lists them", "error", err)
	case id != "":
		s.found.Store(true)
		s.log.Warn("items of users are where an earlier version kept them, and no client sees them there: move them with stele move-items", "identity", id)
	}
}

// find is a user who has items at the former place.
func (s *unmovedItems) find(ctx context.Context) (string, error) {
	_, done, err := s.settled.get(ctx, settledKind)
	if done || err != nil {
		return "", err
	}
	roots, err := formerRoots(ctx, s.store)
	if len(roots) == 0 || err != nil {
		return "", err
	}
	items := s.store
	if _, ok := items.(*store.Local); !ok { // another may hold in memory all that it scans: it is read in pages
		items = struct{ store.Store }{items}
	}
	n := 0
	for id, err := range owners(ctx, items, nil, s.log) { // a run has a thread
		if err != nil {
			return "", err
		}
		if roots[formerPlace(id)[0]] && s.grantsPlace(ctx, id) {
			return id, nil
		}
		if n++; n == ownersMost {
			return "", fmt.Errorf("looked at the first %d owners alone", n)
		}
	}
	return "", nil
}

// grantsPlace reports whether a user's items are where ItemsOf says. Config.Auth may have another
// Authorize, which may grant another namespace, even the former one, and may panic for a user that has
// only a name.
func (s *unmovedItems) grantsPlace(ctx context.Context, id string) (yes bool) {
	if s.auth.open {
		return true
	}
	defer func() { yes = recover() == nil && yes }()
	g, err := s.auth.grant(ctx, &User{Identity: id}, Access{Resource: "store", Action: "search"})
	return err == nil && slices.Equal(g.Namespace, ItemsOf(id))
}

// any reports whether the server has found items of users at former places, and nobody has moved them
// since.
func (s *unmovedItems) any(ctx context.Context) bool {
	if !s.found.Load() {
		return false
	}
	_, done, err := s.settled.get(ctx, settledKind)
	return err != nil || !done
}
