package crash

import (
	"fmt"
	"strings"
	"sync/atomic"
)

// promise is one of the promises of docs/durability.md, by its number there. The
// ninth is the engine's, and is held to it in test/resume.
type promise int

const (
	durable promise = iota + 1
	prefix
	whole
	damageNamed
	goesOn
	deleted
	moment
	forks
	numPromises
)

var promiseNames = [numPromises]string{durable: "durable on return", prefix: "prefix", whole: "all or nothing",
	damageNamed: "damage is named, and a crash is none", goesOn: "goes on", deleted: "deleted stays deleted",
	moment: "a reader sees one moment", forks: "forks never mix"}

func (p promise) String() string { return fmt.Sprintf("promise %d (%s)", int(p), promiseNames[p]) }

// broken is an error that says which promise does not hold.
func (p promise) broken(format string, args ...any) error {
	return fmt.Errorf("%v is broken: %w", p, fmt.Errorf(format, args...))
}

// oracle counts how often each promise was looked at and held.
type oracle [numPromises]atomic.Int64

func (o *oracle) held(ps ...promise) {
	for _, p := range ps {
		o[p].Add(1)
	}
}

func (o *oracle) String() string {
	var b strings.Builder
	b.WriteString("promises held:")
	for p := durable; p < numPromises; p++ {
		fmt.Fprintf(&b, " %d %s %d,", int(p), promiseNames[p], o[p].Load())
	}
	return strings.TrimSuffix(b.String(), ",")
}

// standing is what a crash may have done to one call.
type standing uint8

const (
	absent       standing = iota // it had not begun: it must not be there
	maybe                        // it had begun, or was acknowledged and not yet durable
	acknowledged                 // it must be there
)

func (s standing) String() string {
	return [...]string{absent: "absent", maybe: "maybe", acknowledged: "acknowledged"}[s]
}

// standings are those of all calls at a crash after cut operations. What survives
// is a prefix, so they never rise again.
func (t *trace) standings(cut int) []standing {
	out := make([]standing, len(t.calls))
	lo, hi := t.bounds(cut)
	for i := range out {
		switch {
		case i < lo:
			out[i] = acknowledged
		case i < hi:
			out[i] = maybe
		}
	}
	return out
}

// judge holds what an open store shows against the model: after which numbers of
// calls the model was in this state.
func (t *trace) judge(o *oracle, got string, lo, hi int) ([]int, error) {
	if ks := t.matching(got, lo, hi); len(ks) > 0 {
		// The text has every checkpoint with its values by hash, each read through
		// List, as the head and by its id.
		o.held(durable, prefix, whole, moment, forks)
		return ks, nil
	}
	for k, want := range t.dumps {
		switch {
		case want != got:
		case k < lo:
			return nil, durable.broken("the store is as after %d calls, %d were durable", k, lo)
		default:
			return nil, prefix.broken("the store is as after %d calls, %d had begun", k, hi)
		}
	}
	return nil, whole.broken("the store is in no state it ever was in; against the last: %s", difference(got, t.dumps[hi]))
}
