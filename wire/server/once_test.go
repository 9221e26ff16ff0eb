package server_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/memory"
	"github.com/stele-go/stele/store"
	"github.com/stele-go/stele/wire"
	"github.com/stele-go/stele/wire/internal/calls"
	"github.com/stele-go/stele/wire/server"
)

// repeated is a call, what undoes its effect in a way that shows if it is done again, and
// whether it was.
type repeated struct {
	method string
	params func(t *testing.T, c *wire.Call) []byte
	undo   func(t *testing.T, n *node)
	redone func(t *testing.T, n *node) bool
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func put(t *testing.T, s saver.Saver, thread, id string) {
	t.Helper()
	_, err := s.Put(context.Background(), saver.Config{ThreadID: thread}, saver.Checkpoint{V: 4, ID: id}, saver.Metadata{"run_id": "run of " + thread}, nil)
	must(t, err)
}

var ctx = context.Background()

// repeatedCalls are calls that change what is there: each would do harm, or say something else, if it were done
// again.
func repeatedCalls() []repeated {
	anew := func(t *testing.T, n *node) { put(t, n.d, "t", "9") }
	gone := func(t *testing.T, n *node) bool { return n.ids("t") != "9" }
	return []repeated{
		{"put", func(t *testing.T, c *wire.Call) []byte { return checkpoint(t, "new", "1", "", c) },
			func(t *testing.T, n *node) { must(t, n.d.DeleteThread(ctx, "new")) },
			func(_ *testing.T, n *node) bool { return n.ids("new") != "" }},
		{"put_writes", func(t *testing.T, c *wire.Call) []byte {
			p := wire.PutWrites{Config: saver.Config{ThreadID: "w", CheckpointID: "1"}, Task: "task", Writes: []saver.Write{{Channel: saver.ChannelResume, Value: saver.ValueOf("first")}}}
			p.Call = c
			b, err := wire.Encode(&p)
			must(t, err)
			return b
		}, func(t *testing.T, n *node) {
			put(t, n.d, "w", "1")
			must(t, n.d.PutWrites(ctx, saver.Config{ThreadID: "w", CheckpointID: "1"}, []saver.Write{{Channel: saver.ChannelResume, Value: saver.ValueOf("second")}}, "task", ""))
		}, func(t *testing.T, n *node) bool {
			tup, err := n.d.GetTuple(ctx, saver.Config{ThreadID: "w"})
			must(t, err)
			v, err := tup.PendingWrites[0].Value.Any()
			must(t, err)
			return v != "second"
		}},
		{"delete_thread", func(_ *testing.T, c *wire.Call) []byte { return threads(wire.Threads{Thread: "t"}, c) }, anew, gone},
		{"delete_for_runs", func(_ *testing.T, c *wire.Call) []byte { return threads(wire.Threads{Runs: []string{"run of t"}}, c) }, anew, gone},
		{"prune", func(_ *testing.T, c *wire.Call) []byte {
			return threads(wire.Threads{Threads: []string{"t"}, Strategy: saver.PruneAll}, c)
		}, anew, gone},
		{"copy_thread", func(_ *testing.T, c *wire.Call) []byte { return threads(wire.Threads{Thread: "t", To: "copy"}, c) },
			func(t *testing.T, n *node) { must(t, n.d.DeleteThread(ctx, "copy")) },
			func(_ *testing.T, n *node) bool { return n.ids("copy") != "" }},
		{"set_ttl", func(_ *testing.T, c *wire.Call) []byte {
			return threads(wire.Threads{Thread: "t", TTL: time.Microsecond}, c)
		},
			func(t *testing.T, n *node) { must(t, n.d.SetTTL(ctx, "t", saver.NoTTL)) },
			func(t *testing.T, n *node) bool {
				rep, err := n.d.Sweep(ctx)
				must(t, err)
				return rep.Expired > 0
			}},
		{"erase", func(_ *testing.T, c *wire.Call) []byte { return threads(wire.Threads{Threads: []string{"t"}}, c) }, anew, gone},
		{"retain", func(_ *testing.T, c *wire.Call) []byte {
			p := wire.Retain{Policy: saver.RetentionPolicy{KeepLast: 1}}
			p.Call = c
			return wire.MustEncode(&p)
		}, func(t *testing.T, n *node) { put(t, n.d, "t", "8"); put(t, n.d, "t", "9") },
			func(_ *testing.T, n *node) bool { return n.ids("t") == "9" }},
		{"count_attempt", func(_ *testing.T, c *wire.Call) []byte {
			p := wire.At{Config: saver.Config{ThreadID: "t"}}
			p.Call = c
			return wire.MustEncode(&p)
		}, func(*testing.T, *node) {}, func(t *testing.T, n *node) bool {
			count, err := n.d.CountAttempt(ctx, saver.Config{ThreadID: "t"})
			must(t, err)
			return count != 2
		}},
		{"store_batch", func(t *testing.T, c *wire.Call) []byte {
			p := wire.Batch{Ops: []store.Op{store.GetOp{Namespace: store.Namespace{"n"}, Key: "k"}, store.PutOp{Namespace: store.Namespace{"n"}, Key: "k", Value: map[string]any{"v": int64(1)}}}}
			p.Call = c
			b, err := wire.Encode(&p)
			must(t, err)
			return b
		}, func(t *testing.T, n *node) {
			items, err := store.On(n.d, store.Options{})
			must(t, err)
			must(t, items.Delete(ctx, store.Namespace{"n"}, "k"))
		}, func(t *testing.T, n *node) bool {
			items, err := store.On(n.d, store.Options{})
			must(t, err)
			_, err = items.Get(ctx, store.Namespace{"n"}, "k")
			return err == nil
		}},
	}
}

// TestRepeated: a call that is asked again, of the same server or of one that was started
// since, has no effect, and the same answer.
func TestRepeated(t *testing.T) {
	for _, r := range repeatedCalls() {
		for _, restart := range []bool{false, true} {
			name := r.method
			if restart {
				name += " across a restart"
			}
			t.Run(name, func(t *testing.T) {
				dir := t.TempDir()
				n := start(t, dir, nil)
				put(t, n.d, "t", "1")
				put(t, n.d, "t", "2")
				first := n.greeted().does(r.method, r.params(t, call(7, 5)))
				r.undo(t, n)
				if restart {
					n.stop()
					n = start(t, dir, nil)
				}
				c := n.greeted()
				second := c.does(r.method, r.params(t, again(call(7, 5))))
				if !bytes.Equal(first, second) {
					t.Errorf("answered %q, first %q", second, first)
				}
				if r.redone(t, n) {
					t.Error("it was done again")
				}
				c.refuses(r.method, r.params(t, again(call(7, 4))), wire.CodeStale)
			})
		}
	}
}

// TestRepeatedInMemory: a server of a store that remembers no calls does.
func TestRepeatedInMemory(t *testing.T) {
	s := memory.New(memory.Options{})
	n := start(t, t.TempDir(), func(o *server.Options) { o.Saver, o.Items = s, nil })
	c := n.greeted()
	put(t, s, "t", "1")
	first := c.does("delete_for_runs", threads(wire.Threads{Runs: []string{"run of t"}}, call(0, 1)))
	put(t, s, "t", "2")
	if second := c.does("delete_for_runs", threads(wire.Threads{Runs: []string{"run of t"}}, again(call(0, 1)))); !bytes.Equal(first, second) {
		t.Errorf("answered %q, first %q", second, first)
	}
	if _, err := s.GetTuple(ctx, saver.Config{ThreadID: "t"}); err != nil {
		t.Errorf("the call was done again: %v", err)
	}
	c.refuses("delete_thread", threads(wire.Threads{Thread: "t"}, call(0, 0)), wire.CodeStale)
	c.does("delete_thread", threads(wire.Threads{Thread: "t"}, call(0, 2)))
}

// TestRefusedIsNotRemembered: a call that was refused is done when it is asked again.
func TestRefusedIsNotRemembered(t *testing.T) {
	n := start(t, t.TempDir(), nil)
	put(t, n.d, "t", "1")
	put(t, n.d, "there", "1")
	c := n.greeted()
	p := threads(wire.Threads{Thread: "t", To: "there"}, call(0, 1))
	c.refuses("copy_thread", p, wire.CodeThreadExists)
	must(t, n.d.DeleteThread(ctx, "there"))
	c.does("copy_thread", p)
	if n.ids("there") != "1" {
		t.Error("the copy was not made")
	}
}

// TestCallsAreHidden: what is remembered of calls is in no listing.
func TestCallsAreHidden(t *testing.T) {
	n := start(t, t.TempDir(), nil)
	c := n.greeted()
	for i := range 20 {
		c.does("put", checkpoint(t, "t", "1", "", call(uint16(i), 1)))
	}
	for info, err := range n.d.Threads(ctx, saver.ThreadQuery{}) {
		if must(t, err); info.ThreadID != "t" {
			t.Errorf("thread %q", info.ThreadID)
		}
	}
	items, err := store.On(n.d, store.Options{})
	must(t, err)
	spaces, err := items.ListNamespaces(ctx, store.NamespaceQuery{})
	if must(t, err); len(spaces) > 0 {
		t.Errorf("namespaces %v", spaces)
	}
	if got, err := calls.Expire(ctx, n.d); got != 0 || err != nil {
		t.Errorf("%d clients forgotten, %v", got, err)
	}
}

// TestBatchIsOneCall: a batch that renews items that it reads, and puts, is remembered with
// its puts.
func TestBatchIsOneCall(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	n := startAt(t, t.TempDir(), func() time.Time { return now }, nil)
	c := n.greeted()
	batch := func(number uint64, ops ...store.Op) []byte {
		p := wire.Batch{Ops: ops}
		p.Call = call(0, number)
		b, err := wire.Encode(&p)
		must(t, err)
		return b
	}
	ns := store.Namespace{"n"}
	c.does("store_batch", batch(1, store.PutOp{Namespace: ns, Key: "old", Value: map[string]any{}, TTL: time.Hour}))
	now = now.Add(30 * time.Minute) // the read renews it
	get := store.GetOp{Namespace: ns, Key: "old"}
	c.does("store_batch", batch(2, get, store.PutOp{Namespace: ns, Key: "new", Value: map[string]any{}}))
	items, err := store.On(n.d, store.Options{})
	must(t, err)
	if _, err := items.Get(ctx, ns, "new"); err != nil {
		t.Errorf("the put of a batch that reads: %v", err)
	}
}
