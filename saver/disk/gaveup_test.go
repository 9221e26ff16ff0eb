package disk

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/engine"
	"github.com/stele-go/stele/saver"
)

// slowRider holds up the committer before the call that it rides on.
type slowRider struct{ begun, goOn chan struct{} }

func (r slowRider) Partition() string { return "slow" }
func (r slowRider) Before(*engine.Tx) error {
	close(r.begun)
	<-r.goOn
	return nil
}
func (r slowRider) After(*engine.Tx, any) error { return nil }
func (r slowRider) Size() int64                 { return 0 }

// A Put whose caller gave up is stored as it was handed over, whatever is put meanwhile.
func TestPutOfACallerThatGaveUp(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 8 { // puts that leave memory to those after them
		mustPut(t, s, fmt.Sprint("before", i), "c1", "", i)
	}
	ctx, cancel := context.WithCancel(t.Context())
	slow := slowRider{make(chan struct{}), make(chan struct{})}
	given := make(chan error, 1)
	put := func(ctx context.Context, thread string) error {
		v := saver.IntVersion(1)
		_, err := s.Put(ctx, saver.Config{ThreadID: thread}, saver.Checkpoint{V: 4, ID: "c1", TS: thread, Values: map[string]saver.Value{thread: saver.ValueOf(thread)},
			Versions: map[string]saver.Version{thread: v}}, saver.Metadata{"thread": thread}, map[string]saver.Version{thread: v})
		return err
	}
	go func() { given <- put(engine.WithRider(ctx, slow), "late") }()
	<-slow.begun
	cancel()
	if err := <-given; !errors.Is(err, fault.ErrOutcomeUnknown) {
		t.Fatalf("a call that gave up: %v", err)
	}
	const others = 8
	stored := make(chan error, others)
	for i := range others {
		go func() { stored <- put(t.Context(), fmt.Sprint("other", i)) }()
	}
	close(slow.goOn)
	for range others {
		if err := <-stored; err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(s.Sync(t.Context()), s.Close()); err != nil {
		t.Fatal(err)
	}
	if s, err = Open(dir, Options{}); err != nil {
		t.Fatal(err)
	}
	for i := range others + 1 {
		thread := "late"
		if i < others {
			thread = fmt.Sprint("other", i)
		}
		tup, err := s.GetTuple(t.Context(), saver.Config{ThreadID: thread})
		if err != nil {
			t.Fatalf("%s: %v", thread, err)
		}
		v, err := tup.Checkpoint.Values[thread].Any()
		if err != nil || v != thread || tup.Checkpoint.TS != thread || tup.Metadata["thread"] != thread || len(tup.Checkpoint.Values) != 1 {
			t.Errorf("%s: %v, %+v, %v", thread, v, tup.Checkpoint, err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
