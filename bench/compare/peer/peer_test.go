package peer_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"

	"github.com/stele-go/stele/bench"
	"github.com/stele-go/stele/bench/compare/peer"
)

const steps = 6

// TestEnginesAnswerAlike stores the same steps in every engine and mode, and
// reads them back before and after a reopen and a compaction: what was measured was
// done.
func TestEnginesAnswerAlike(t *testing.T) {
	for _, e := range peer.Engines() {
		if why := e.Why(); why != nil {
			t.Logf("%s is left out: %v", e.Name, why)
			continue
		}
		for _, mode := range e.Modes {
			t.Run(e.Name+"/"+string(mode), func(t *testing.T) {
				t.Parallel()
				checkEngine(t, e, peer.Options{Dir: t.TempDir(), Mode: mode, Writers: 1})
			})
		}
	}
}

func checkEngine(t *testing.T, e peer.Engine, o peer.Options) {
	threads := map[string][]bench.Step{"a": bench.NewData(7).Chat(steps)}
	fleet := bench.NewFleet(7, 2, 3*steps)
	for th := range 2 {
		for n := range 3 * steps {
			threads[fleet.Thread(th)] = append(threads[fleet.Thread(th)], fleet.Step(th, n))
		}
	}
	s := open(t, e, o)
	for thread, all := range threads {
		fill(t, s, thread, all)
	}
	checkAll := func() {
		for thread, all := range threads {
			check(t, s, thread, all)
		}
	}
	checkAll()
	must(t, s.Close())
	s = open(t, e, o)
	checkAll()
	must(t, s.Flush())
	checkAll()
	must(t, s.Compact())
	checkAll()
	must(t, s.Close())
}

func fill(t *testing.T, s peer.Store, thread string, all []bench.Step) {
	t.Helper()
	parent := ""
	for i := range all {
		must(t, s.Put(thread, parent, &all[i]))
		must(t, s.Put(thread+"b", parent, &all[i])) // a name the other is a prefix of
		parent = all[i].Checkpoint.ID
		for k := range all[i].Writes {
			must(t, s.PutWrites(thread, parent, []string{"task-1", "task-2"}[k], all[i].Writes[k:k+1]))
		}
	}
}

func open(t *testing.T, e peer.Engine, o peer.Options) peer.Store {
	t.Helper()
	s, err := e.Open(o)
	must(t, err)
	return s
}

// check compares all the ways to read with what was put.
func check(t *testing.T, s peer.Store, thread string, chat []bench.Step) {
	t.Helper()
	for i := range chat {
		got, err := s.Get(thread, chat[i].Checkpoint.ID)
		must(t, err)
		same(t, got, chat, i, true)
	}
	got, err := s.Get(thread, "")
	must(t, err)
	same(t, got, chat, len(chat)-1, true)
	for _, limit := range []int{0, 2} {
		n := 0
		must(t, s.List(thread, limit, false, func(got *peer.Tuple) error {
			same(t, got, chat, len(chat)-1-n, false)
			n++
			return nil
		}))
		if want := max(limit, len(chat)*(1-limit/2)); n != want {
			t.Errorf("listed %d with limit %d, want %d", n, limit, want)
		}
	}
	for _, id := range []string{"", "1"} {
		if _, err := s.Get("b", id); !errors.Is(err, peer.ErrNotFound) {
			t.Errorf("checkpoint %q of an unknown thread: %v", id, err)
		}
	}
}

func same(t *testing.T, got *peer.Tuple, chat []bench.Step, i int, values bool) {
	t.Helper()
	want, parent := chat[i], ""
	if i > 0 {
		parent = chat[i-1].Checkpoint.ID
	}
	if got.ID != want.Checkpoint.ID || got.Parent != parent {
		t.Fatalf("got %s upon %q, want %s upon %q", got.ID, got.Parent, want.Checkpoint.ID, parent)
	}
	if fmt.Sprint(got.Metadata) != fmt.Sprint(want.Metadata) { // one store keeps numbers as JSON does
		t.Errorf("metadata of %s: %v, want %v", got.ID, got.Metadata, want.Metadata)
	}
	if record := peer.RecordOf(&want.Checkpoint); !reflect.DeepEqual(got.Record(), record) {
		t.Errorf("%s is %+v, want %+v", got.ID, got.Record(), record)
	}
	if !values {
		return
	}
	typed := want.Typed()
	if !slices.Equal(slices.Sorted(maps.Keys(got.Values)), slices.Sorted(maps.Keys(typed.Checkpoint.Values))) {
		t.Errorf("%s: channels %v", got.ID, slices.Sorted(maps.Keys(got.Values)))
	}
	for channel, v := range typed.Checkpoint.Values {
		a, err := got.Values[channel].Typed()
		must(t, err)
		b, err := v.Typed()
		must(t, err)
		if a.Kind != b.Kind || !bytes.Equal(a.Data, b.Data) {
			t.Errorf("%s: value of %s differs", got.ID, channel)
		}
	}
	if len(got.Writes) != len(want.Writes) {
		t.Fatalf("%s: %d writes, want %d", got.ID, len(got.Writes), len(want.Writes))
	}
	for k, w := range got.Writes {
		a, err := w.Value.Typed()
		must(t, err)
		b, err := typed.Writes[k].Value.Typed()
		must(t, err)
		if w.Channel != want.Writes[k].Channel || !bytes.Equal(a.Data, b.Data) || w.Index != 0 {
			t.Errorf("%s: write %d differs", got.ID, k)
		}
	}
	must(t, got.Decode())
}

func TestItemsAnswerAlike(t *testing.T) {
	for _, e := range peer.Engines() {
		if e.OpenItems == nil {
			continue
		}
		t.Run(e.Name, func(t *testing.T) {
			t.Parallel()
			s, err := e.OpenItems(peer.Options{Dir: t.TempDir(), Mode: peer.Durable, Writers: 1})
			must(t, err)
			items := s.(peer.Items)
			must(t, items.PutItems("ns", []peer.Item{{Key: "a", Value: map[string]any{"name": "x", "age": 1}}}))
			must(t, items.PutItems("ns", []peer.Item{{Key: "b", Value: map[string]any{"name": "y", "age": 9}}}))
			must(t, items.PutItems("ns", []peer.Item{{Key: "a", Value: map[string]any{"name": "z", "age": 2}}}))
			got, err := items.GetItem("ns", "a")
			must(t, err)
			if got["name"] != "z" {
				t.Errorf("got %v", got)
			}
			if _, err := items.GetItem("n", "a"); !errors.Is(err, peer.ErrNotFound) {
				t.Errorf("unknown item: %v", err)
			}
			if search, ok := s.(peer.Searcher); ok {
				keys, err := search.Search("ns", "age", 5)
				must(t, err)
				if !slices.Equal(keys, []string{"b"}) {
					t.Errorf("found %v", keys)
				}
			}
			must(t, s.Close())
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
