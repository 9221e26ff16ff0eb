package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/index"
)

// A caller that gives up leaves its commit to the log, with its memory: what others store
// meanwhile does not get that.
func TestCommitOfACallerThatGaveUp(t *testing.T) {
	mem := vfs.NewMem(vfs.MemOptions{})
	e := mustOpen(t, Options{FS: mem, ManualWork: true})
	for i := range 8 { // commits that leave memory to those after them
		mustPut(t, e, fmt.Sprint("before", i), "k", strings.Repeat("b", 100))
	}
	ctx, cancel := context.WithCancel(t.Context())
	begun, goOn, given := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	late, err := NewValue([]byte("late"))
	must(t, err)
	go func() {
		given <- e.Commit(ctx, []string{"late"}, func(tx *Tx) error {
			close(begun)
			<-goOn
			return tx.Put("late", "k", index.FlagHead, []SlotIn{{Name: "v", Value: &late}})
		})
	}()
	<-begun
	cancel()
	if err := <-given; !errors.Is(err, fault.ErrOutcomeUnknown) {
		t.Fatalf("a call that gave up: %v", err)
	}
	const others = 8
	stored := make(chan error, others)
	for i := range others {
		v, err := NewValue([]byte(fmt.Sprint("value", i)))
		must(t, err)
		go func() {
			id := fmt.Sprint("other", i)
			stored <- e.Commit(t.Context(), []string{id}, func(tx *Tx) error {
				return tx.Put(id, "k", index.FlagHead, []SlotIn{{Name: "v", Value: &v}})
			})
		}()
	}
	close(goOn)
	for range others {
		must(t, <-stored)
	}
	must(t, e.Sync(t.Context()))
	check := func() {
		t.Helper()
		want := map[string]string{"late": "late"}
		for i := range others {
			want[fmt.Sprint("other", i)] = fmt.Sprint("value", i)
		}
		for id, v := range want {
			if got, err := read(e, id, "k"); err != nil || got != v {
				t.Errorf("%s: %q, %v", id, got, err)
			}
		}
	}
	check()
	must(t, e.Close())
	e = mustOpen(t, Options{FS: mem, ManualWork: true})
	check()
	must(t, e.Close())
}

// Memory of a commit that is over keeps nothing of it, and no more than most commits need.
func TestReleasedCommitKeepsNothing(t *testing.T) {
	v, err := NewValue([]byte("value"))
	must(t, err)
	for _, n := range []int{1, maxReusedValues + 1} {
		tx := new(Engine).newTx(func(*Tx) error { return nil })
		tx.answer = "answer"
		tx.head = make([]byte, n*maxReusedHead/maxReusedValues)
		for range n {
			tx.values, tx.body = append(tx.values, txValue{val: &v}), append(tx.body, []byte("value"))
		}
		tx.loaded.set("t", new(index.Partition))
		tx.release()
		if tx.e != nil || tx.fn != nil || tx.answer != nil || len(tx.loaded.list) != 0 || tx.loadedRoom[0].v != nil || len(tx.head)+len(tx.values)+len(tx.body) != 0 {
			t.Errorf("%d values: %+v", n, tx)
		}
		for i, s := range tx.values[:cap(tx.values)] {
			if s.val != nil {
				t.Errorf("%d values: value %d is %+v", n, i, s)
			}
		}
		for i, b := range tx.body[:cap(tx.body)] {
			if b != nil {
				t.Errorf("%d values: bytes %d are %q", n, i, b)
			}
		}
		if most := max(cap(tx.values), cap(tx.body)); most > maxReusedValues || cap(tx.head) > maxReusedHead {
			t.Errorf("%d values: room for %d and a head of %d is kept", n, most, cap(tx.head))
		}
	}
}
