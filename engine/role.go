package engine

import (
	"errors"
	"sync"
)

// role is what an open store is in its lineage: its leader, or a follower. It ends once, at a leader when another has taken
// over, at a follower when that can go on no more, or finds that it may take over. The store stays open: whoever has it closes
// it, and opens it in its next role. A store without a replica has a role that does not end before it is closed.
type role struct {
	mu   sync.Mutex
	over chan struct{} // made by whoever asks
	why  error         // not nil once it is over
}

// ErrVacant ends the role of a follower.
var ErrVacant = errors.New("the place of the leader is free: this follower may take over")

// end ends the role. The first reason counts.
func (r *role) end(why error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.why != nil {
		return
	}
	r.why = why
	close(r.ended())
}

// ended is closed when the role is over. mu is held.
func (r *role) ended() chan struct{} {
	if r.over == nil {
		r.over = make(chan struct{})
	}
	return r.over
}

// Follows reports whether the store follows a leader.
func (s *Store) Follows() bool { return s.Opts.follows }

// RoleOver is closed when the store's role in its lineage is over, and RoleEnd is nil until then. At a leader RoleEnd
// is replica.ErrFenced. At a follower it is why that follows no more; or ErrVacant: the lease is free, its
// Replica.AcceptLoss allows to take over, and the bucket can be restored. With Options.TakeOver the directory has
// taken over in the bucket by then, and OpenFree goes on from there. Of a store that was opened by OpenAway see
// there.
func (e *Engine) RoleOver() <-chan struct{} {
	e.role.mu.Lock()
	defer e.role.mu.Unlock()
	return e.role.ended()
}

// RoleEnd is why the role is over; see RoleOver.
func (e *Engine) RoleEnd() error {
	e.role.mu.Lock()
	defer e.role.mu.Unlock()
	return e.role.why
}

// OpenFree is Open for a store that leads at once, or not at all: replica.ErrLeased if another leader has the lease, or has not been silent
// for its TTL.
func OpenFree(dir string, opts Options) (*Engine, error) {
	opts.Replica.impatient = true
	return Open(dir, opts)
}
