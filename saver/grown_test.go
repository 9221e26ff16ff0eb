package saver_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"github.com/stele-go/stele/internal/vfs"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/serde"
)

// grower counts what is encoded from where it grew.
type grower struct {
	serde.Serializer
	grown, refused atomic.Int64
}

func (g *grower) Grower() (serde.Grower, bool) { return g, true }

func (g *grower) EncodeGrown(was serde.Typed, list any, n int) (serde.Grown, bool) {
	out, ok := serde.Default().EncodeGrown(was, list, n)
	if ok {
		g.grown.Add(1)
	} else {
		g.refused.Add(1)
	}
	return out, ok
}

// growing is a store, and beside it what each of its checkpoints must hold.
type growing struct {
	t     *rapid.T
	codec *grower
	fs    vfs.FS
	s     *saver.Disk
	n     int
	lists map[string][]any // by checkpoint id
	ids   []string
}

func (g *growing) open() {
	s, err := saver.OpenSimulated("store", saver.Options{Serializer: g.codec}, saver.Simulation{FS: g.fs})
	if err != nil {
		g.t.Fatal(err)
	}
	g.s = s
}

// put stores list upon parent, said to be the parent's with the last n appended. A
// conflict stores nothing.
func (g *growing) put(parent string, list []any, n int, expect *string) {
	g.n++
	id, ver := fmt.Sprintf("%08d", g.n), saver.StringVersion(fmt.Sprintf("v%d", g.n))
	cfg := saver.Config{ThreadID: "t", CheckpointID: parent, ExpectHead: expect}
	_, err := g.s.Put(context.Background(), cfg,
		saver.Checkpoint{V: 4, ID: id, TS: "2026-01-01T00:00:00+00:00", Values: map[string]saver.Value{"c": saver.ValueGrown(list, n)},
			Versions: map[string]saver.Version{"c": ver}}, saver.Metadata{"source": "loop", "step": g.n}, map[string]saver.Version{"c": ver})
	if expect != nil && errors.Is(err, saver.ErrConflict) {
		return
	}
	if err != nil {
		g.t.Fatal(err)
	}
	g.lists[id] = slices.Clone(list)
	g.ids = append(g.ids, id)
}

func (g *growing) check() {
	for id, list := range g.lists {
		want, err := serde.Default().Encode(list)
		if err != nil {
			g.t.Fatal(err)
		}
		tuple, err := g.s.GetTuple(context.Background(), saver.Config{ThreadID: "t", CheckpointID: id})
		if err != nil {
			g.t.Fatal(err)
		}
		got, err := tuple.Checkpoint.Values["c"].Typed()
		if err != nil {
			g.t.Fatal(err)
		}
		if got.Kind != want.Kind || string(got.Data) != string(want.Data) {
			g.t.Fatalf("checkpoint %s holds %d bytes that are not the whole list's %d", id, len(got.Data), len(want.Data))
		}
	}
}

func (g *growing) fresh(n int) []any {
	out := make([]any, n)
	for i := range out {
		out[i] = map[string]any{"id": g.n*10 + i, "content": strings.Repeat(fmt.Sprintf("message %d ", g.n), 20)}
	}
	return out
}

// Whatever is said to have grown, and whatever happens in between, the bytes stored
// are those of the whole list.
func TestGrownValues(t *testing.T) {
	var grown, refused int64
	rapid.Check(t, func(t *rapid.T) {
		g := &growing{t: t, codec: &grower{Serializer: serde.Default()}, fs: vfs.NewMem(vfs.MemOptions{}), lists: map[string][]any{}}
		g.open()
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			var head string
			if len(g.ids) > 0 {
				head = g.ids[len(g.ids)-1]
			}
			n := rapid.IntRange(1, 3).Draw(t, "n")
			grow := func(id string) []any { return append(slices.Clone(g.lists[id]), g.fresh(n)...) }
			switch what := rapid.IntRange(0, 19).Draw(t, "what"); {
			case what < 11:
				g.put(head, grow(head), n, nil)
			case what == 11 && len(g.ids) > 0: // a fork
				from := rapid.SampledFrom(g.ids).Draw(t, "from")
				g.put(from, grow(from), n, nil)
			case what == 12: // another length than was said
				g.put(head, grow(head), n+1, nil)
			case what == 13 && len(g.lists[head]) > 0: // the last one changed
				list := grow(head)
				list[len(list)-n-1] = "changed"
				g.put(head, list, n, nil)
			case what == 14: // a new list
				g.put(head, g.fresh(n+2), n, nil)
			case what == 15: // refused, and what was refused is not built upon
				other := "another"
				g.put(head, grow(head), n, &other)
			case what == 16:
				if err := g.s.Close(); err != nil {
					t.Fatal(err)
				}
				g.open()
			case what == 17:
				if err := g.s.Flush(context.Background()); err != nil {
					t.Fatal(err)
				}
			case what == 18: // the thread begins anew
				if err := g.s.DeleteThread(context.Background(), "t"); err != nil {
					t.Fatal(err)
				}
				g.lists, g.ids = map[string][]any{}, nil
			default: // without a parent
				g.put("", g.fresh(n), n, nil)
			}
		}
		g.check()
		if err := g.s.Close(); err != nil {
			t.Fatal(err)
		}
		g.open()
		g.check()
		if err := g.s.Close(); err != nil {
			t.Fatal(err)
		}
		grown, refused = grown+g.codec.grown.Load(), refused+g.codec.refused.Load()
	})
	if grown < 10 || refused < 2 {
		t.Errorf("%d values were encoded from where they grew, %d were refused: the test tests nothing", grown, refused)
	}
}

// A list that grows step by step is encoded whole but once after each open.
func TestGrownIsEncodedOnce(t *testing.T) {
	g := &grower{Serializer: serde.Default()}
	dir := filepath.Join(t.TempDir(), "store")
	list, parent := []any{}, ""
	for life := range 2 {
		s := openStoreWith(t, dir, g)
		for i := range 10 {
			list = append(list, strings.Repeat(fmt.Sprintf("message %d ", len(list)), 100))
			id := fmt.Sprintf("%d-%d", life, i)
			ver := saver.StringVersion("v" + id)
			_, err := s.Put(context.Background(), saver.Config{ThreadID: "t", CheckpointID: parent},
				saver.Checkpoint{V: 4, ID: id, Values: map[string]saver.Value{"c": saver.ValueGrown(list, 1)}, Versions: map[string]saver.Version{"c": ver}},
				saver.Metadata{"source": "loop"}, map[string]saver.Version{"c": ver})
			if err != nil {
				t.Fatal(err)
			}
			parent = id
		}
		if n := g.grown.Load(); n != int64(9*(life+1)) {
			t.Errorf("%d of %d values were encoded from where they grew", n, 10*(life+1))
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func openStoreWith(t *testing.T, dir string, codec serde.Serializer) *saver.Disk {
	t.Helper()
	s, err := saver.Open(dir, saver.Options{Serializer: codec})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// redacting is a serializer that changes what it is given, and leaves the rest to the
// Codec it embeds.
type redacting struct{ *serde.Codec }

func (r redacting) Encode(v any) (serde.Typed, error) {
	if list, ok := v.([]any); ok {
		out := make([]any, len(list))
		for i, x := range list {
			out[i] = strings.ReplaceAll(x.(string), "secret", "xxxxxx")
		}
		v = out
	}
	return r.Codec.Encode(v)
}

// What a Codec does that Encode does not is not taken for what a type does that
// embeds it.
func TestEmbeddedCodecIsNotTrusted(t *testing.T) {
	s := openStoreWith(t, filepath.Join(t.TempDir(), "store"), redacting{serde.Default()})
	list, parent := []any{strings.Repeat("harmless ", 200)}, ""
	for i := range 3 {
		list = append(list, "secret")
		id, ver := fmt.Sprint(i), saver.StringVersion(fmt.Sprint(i))
		cfg, err := s.Put(context.Background(), saver.Config{ThreadID: "t", CheckpointID: parent},
			saver.Checkpoint{V: 4, ID: id, Values: map[string]saver.Value{"c": saver.ValueGrown(list, 1)}, Versions: map[string]saver.Version{"c": ver}},
			saver.Metadata{"source": "loop"}, map[string]saver.Version{"c": ver})
		if err != nil {
			t.Fatal(err)
		}
		tuple, err := s.GetTuple(context.Background(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		typed, err := tuple.Checkpoint.Values["c"].Typed()
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(typed.Data), "secret") {
			t.Fatalf("put %d stored what its serializer takes out", i)
		}
		parent = id
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
