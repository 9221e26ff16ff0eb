package replica

import (
	"testing"

	"github.com/stele-go/stele/replica/bucket/buckettest"
)

// TestStood: what one Follower of a process has watched for a TTL, another need not watch again, as long as HEAD is the same. Once the
// leader has renewed its lease, or another has it, nobody takes over by what was seen before.
func TestStood(t *testing.T) {
	s := buckettest.NewSim(nil)
	a := newMachine(t, s, "a")
	l := a.begin(Sync)
	a.ship(l, "one")
	b := newMachine(t, s, "b")
	f := b.follow()
	b.c.pass(b.o.TTL)
	if err := f.Look(t.Context()); err != nil || !f.Vacant() {
		t.Fatalf("%v, vacant %v", err, f.Vacant())
	}
	b.o.Stood = f.Stood()
	if next := b.follow(); !next.Vacant() {
		t.Error("it has to watch again")
	}
	if err := l.Renew(t.Context()); err != nil {
		t.Fatal(err)
	}
	late := b.follow()
	_, err := late.TakeOver(t.Context(), TakeOver{Mode: Sync}, b.d.apply)
	wants(t, "take over from a leader that lives", err, ErrLeased)
}
