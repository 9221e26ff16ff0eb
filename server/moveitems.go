package server

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"

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
	// Identities are the users whose items are moved; nil are all who are known.
	Identities []string
	// Except are users whose items are not moved: what lies where theirs would be is a program's.
	Except []string
	// DryRun moves nothing, and reports what would be.
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
}

// MovedItems says what of a user was moved.
type MovedItems struct {
	Identity   string          `json:"identity"`
	From       store.Namespace `json:"from"`
	To         store.Namespace `json:"to"`
	Namespaces int             `json:"namespaces"` // below From
	Items      int             `json:"items"`      // that have left them
	Except     bool            `json:"except,omitempty"`
	Left       []LeftItem      `json:"left,omitempty"`
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
// reported. After an error, or a crash, another call goes on.
//
// Users are known as owners of threads, assistants and crons, and by whose the runs are. What lies below
// (identity) may be a program's all the same: if somebody is called "users", and a program stores below
// ("users", …), nobody but its operator knows which is which. So look at what a DryRun reports, and choose
// with Identities and Except. What lies at (identity) itself is a program's, and stays.
func MoveItems(ctx context.Context, o MoveOptions) (MoveReport, error) {
	rep := MoveReport{DryRun: o.DryRun, Users: []MovedItems{}, Settled: true}
	mover, ok := o.Store.(store.Mover)
	if !ok {
		return rep, fmt.Errorf("server: a %T is no store.Mover", o.Store)
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	for _, id := range slices.Concat(o.Identities, o.Except) {
		if !movable(id) {
			return rep, &saver.InvalidError{Field: "identity", Reason: fmt.Sprintf("no items of a user %q can be at %q", id, []string(formerPlace(id)))}
		}
	}
	cfg := Config{Store: o.Store, Queue: o.Queue, Logger: o.Logger}
	known := map[string]bool{}
	for id, err := range owners(ctx, cfg) {
		if err != nil {
			return rep, err
		}
		known[id] = true
	}
	for _, id := range o.Identities {
		known[id] = true
	}
	all := make([]string, 0, len(known))
	for id := range known {
		all = append(all, id)
	}
	slices.Sort(all)
	for _, id := range all {
		m, err := moveItemsOf(ctx, mover, o, id)
		if err != nil {
			return rep, fmt.Errorf("items of %q: %w", id, err)
		}
		named := slices.Contains(o.Identities, id)
		if m.Namespaces == 0 && !named {
			continue
		}
		chosen := named || o.Identities == nil
		if rep.Settled = rep.Settled && (m.Except || chosen && len(m.Left) == 0); chosen || m.Except {
			rep.Users = append(rep.Users, m)
		}
	}
	if rep.Settled && !o.DryRun {
		return rep, newRecords[struct{}](cfg, settledKind).put(ctx, settledKind, struct{}{})
	}
	return rep, nil
}

// moveItemsOf moves the items of one user, if it is chosen.
func moveItemsOf(ctx context.Context, mover store.Mover, o MoveOptions, identity string) (MovedItems, error) {
	m := MovedItems{Identity: identity, From: formerPlace(identity), To: ItemsOf(identity), Except: slices.Contains(o.Except, identity)}
	below, err := formerOf(ctx, o.Store, identity, store.NoLimit)
	m.Namespaces = len(below)
	if err != nil || m.Except || o.Identities != nil && !slices.Contains(o.Identities, identity) {
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

// movable reports whether a user of earlier versions may have had items: what lies at the former place of
// others is the server's, or other users'.
func movable(identity string) bool {
	return identity != "" && !reserved(formerPlace(identity))
}

// formerOf are the namespaces, at most so many, below the former place of an identity.
func formerOf(ctx context.Context, s store.Store, identity string, limit int) ([]store.Namespace, error) {
	return s.ListNamespaces(ctx, store.NamespaceQuery{Limit: limit, Match: []store.Match{{Kind: store.MatchPrefix, Path: append(formerPlace(identity), store.Wildcard)}}})
}

// owners yields the identities that records and, if cfg has a Queue, runs name; some more than once.
func owners(ctx context.Context, cfg Config) iter.Seq2[string, error] {
	type owned struct {
		Metadata map[string]any `json:"metadata"`
		User     User           `json:"user"`
	}
	return func(yield func(string, error) bool) {
		for _, kind := range []string{"threads", "assistants", "crons"} {
			for r, err := range newRecords[owned](cfg, kind).all(ctx) {
				owner, _ := r.Metadata["owner"].(string)
				for _, id := range []string{owner, r.User.Identity} {
					if (err != nil || movable(id)) && !yield(id, err) {
						return
					}
				}
			}
		}
		if cfg.Queue == nil {
			return
		}
		for r, err := range cfg.Queue.List(ctx, runs.Query{}) {
			if errors.Is(err, runs.ErrUnreadable) {
				continue
			}
			id, _ := r.Configurable["langgraph_auth_user_id"].(string)
			if (err != nil || movable(id)) && !yield(id, err) {
				return
			}
		}
	}
}

// settledKind is the kind, and the key, of the record that says that no items of users are at former places.
const settledKind = "places"

// lookForUnmoved looks, when a server of this version begins, for items at the former places of users. A
// store that has none is not looked through again.
func (s *Server) lookForUnmoved(ctx context.Context) error {
	_, done, err := s.settled.get(ctx, settledKind)
	if done || err != nil {
		return err
	}
	looked := map[string]bool{}
	cfg := s.cfg
	cfg.Queue = nil // a run has a thread
	for id, err := range owners(ctx, cfg) {
		if err != nil {
			return err
		}
		if looked[id] {
			continue
		}
		looked[id] = true
		found, err := formerOf(ctx, s.cfg.Store, id, 1)
		if err != nil {
			return err
		}
		if len(found) > 0 {
			s.unmoved = true
			s.cfg.Logger.Warn("items of users are where an earlier version kept them, and no client sees them there: move them with stele move-items", "identity", id, "namespace", found[0])
			return nil
		}
	}
	return s.settled.put(ctx, settledKind, struct{}{})
}

// isUnmoved reports whether items of users were at former places when the server began, and nobody has
// moved them since.
func (s *Server) isUnmoved(ctx context.Context) bool {
	if !s.unmoved {
		return false
	}
	_, done, err := s.settled.get(ctx, settledKind)
	return err != nil || !done
}
