package channel

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/stele-go/stele/saver/serde"
)

func concat(s []int, ws [][]int) ([]int, error) {
	for _, w := range ws {
		s = append(s, w...)
	}
	return s, nil
}

func ints(t *rapid.T, label string) []int {
	return rapid.SliceOfN(rapid.IntRange(0, 9), 0, 3).Draw(t, label)
}

// spec is a kind of channel with what may be written to it.
type spec struct {
	name  string
	make  func() Channel
	write func(t *rapid.T) any
	many  bool // several writes in one step are allowed
}

func specs() []spec {
	number := func(t *rapid.T) any { return rapid.IntRange(-9, 9).Draw(t, "n") }
	list := func(t *rapid.T) any { return ints(t, "list") }
	name := func(t *rapid.T) any { return rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "name") }
	return []spec{
		{"LastValue", func() Channel { return LastValue[int]() }, number, false},
		{"LastValueAfterFinish", func() Channel { return LastValueAfterFinish[int]() }, number, true},
		{"AnyValue", func() Channel { return AnyValue[int]() }, number, true},
		{"Ephemeral", func() Channel { return Ephemeral[int](Guarded) }, number, false},
		{"Ephemeral unguarded", func() Channel { return Ephemeral[int](Unguarded) }, number, true},
		{"Topic", func() Channel { return Topic[int](PerStep) }, func(t *rapid.T) any {
			if rapid.Bool().Draw(t, "list") {
				return ints(t, "list")
			}
			return number(t)
		}, true},
		{"Topic accumulating", func() Channel { return Topic[int](Accumulate) }, number, true},
		{"Reduce", func() Channel { return Reduce(Append[int]) }, list, true},
		{"Reduce sum", func() Channel { return Reduce(Add[int]) }, number, true},
		{"NamedBarrier", func() Channel { return NamedBarrier("a", "b", "c") }, name, true},
		{"NamedBarrierAfterFinish", func() Channel { return NamedBarrierAfterFinish("a", "b", "c") }, name, true},
	}
}

// shows is everything that can be seen of a channel.
func shows(c Channel) string {
	v, ok := c.Get()
	stored, has := c.Checkpoint()
	return fmt.Sprint(v, ok, c.Available(), stored, has)
}

// throughStore is c as a checkpoint brings it back.
func throughStore(t *rapid.T, c Channel) Channel {
	v, ok := c.Checkpoint()
	var s Stored
	if ok {
		typed, err := serde.Default().Encode(v)
		if err != nil {
			t.Fatal(err)
		}
		plain, err := serde.Default().Decode(typed)
		if err != nil {
			t.Fatal(err)
		}
		s = stored{plain}
	}
	d, err := c.Restore(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// Whatever is done to a channel, a copy that went through the store is
// indistinguishable from it, then and after everything that is done to both; a
// plain copy is left as it was; a refused update changes nothing.
func TestRoundTripAtEveryPoint(t *testing.T) {
	for _, s := range specs() {
		t.Run(s.name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				c := s.make().Named("k")
				for range rapid.IntRange(1, 8).Draw(t, "steps") {
					d := throughStore(t, c)
					if shows(c) != shows(d) {
						t.Fatalf("stored %s, came back as %s", shows(c), shows(d))
					}
					frozen, before := c.Copy(), shows(c)
					var did [2]string
					kind := rapid.SampledFrom([]string{"update", "update", "consume", "finish"}).Draw(t, "do")
					var values []any
					if kind == "update" {
						for range rapid.IntRange(0, 3).Draw(t, "writes") {
							values = append(values, s.write(t))
						}
					}
					for i, x := range []Channel{c, d} {
						switch kind {
						case "consume":
							did[i] = fmt.Sprint(x.Consume())
						case "finish":
							did[i] = fmt.Sprint(x.Finish())
						default:
							changed, err := x.Update(values)
							did[i] = fmt.Sprint(changed, err)
							if (err != nil) != (len(values) > 1 && !s.many) {
								t.Fatalf("update %v: %v", values, err)
							}
							if err != nil && shows(x) != before {
								t.Fatalf("the refused update %v changed %s to %s", values, before, shows(x))
							}
						}
					}
					if did[0] != did[1] || shows(c) != shows(d) {
						t.Fatalf("%s %v: %s and %s, then %s and %s", kind, values, did[0], did[1], shows(c), shows(d))
					}
					if shows(frozen) != before {
						t.Fatalf("%s %v on a channel changed a copy of it from %s to %s", kind, values, before, shows(frozen))
					}
				}
			})
		})
	}
}

// overwrites draws writes with at most two Overwrites among them, in any of the
// forms an Overwrite has.
func overwrites(t *rapid.T) (values []any, lists [][]int, at []int) {
	for i := range rapid.IntRange(0, 6).Draw(t, "writes") {
		list := ints(t, "list")
		lists = append(lists, list)
		var v any = list
		if len(at) < 2 && rapid.IntRange(0, 3).Draw(t, "overwrite") == 0 {
			at = append(at, i)
			v = []any{serde.Overwrite{Value: list}, &serde.Overwrite{Value: list}, map[string]any{"__overwrite__": list},
				map[string]any{"type": "__overwrite__", "value": list}}[rapid.IntRange(0, 3).Draw(t, "form")]
		}
		values = append(values, v)
	}
	return values, lists, at
}

// The rules of Overwrite: Reduce folds what comes before it away and ignores
// what comes after; Delta discards all the rest of the superstep; two of them
// are refused.
func TestOverwriteRules(t *testing.T) {
	for name, ch := range map[string]func() Channel{
		"CHN-09,CHN-10,CHN-11/Reduce": func() Channel { return Reduce(Append[int]) },
		"DLT-14/Delta":                func() Channel { return Delta(0, concat) },
	} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				c := ch().Named("k")
				want := []int{}
				for range 4 {
					values, lists, at := overwrites(t)
					changed, err := c.Update(values)
					if (err != nil) != (len(at) > 1) {
						t.Fatalf("%v: %v", values, err)
					}
					switch {
					case err != nil:
					case len(at) == 1:
						want = slices.Clone(lists[at[0]])
					default:
						want = slices.Concat(append([][]int{want}, lists...)...)
					}
					if err == nil && changed != (len(values) > 0) {
						t.Fatalf("%v: changed %v", values, changed)
					}
					got, _ := c.Get()
					if g, _ := got.([]int); !slices.Equal(g, want) {
						t.Fatalf("%v: value %v, want %v", values, got, want)
					}
				}
			})
		})
	}
}

// CHN-07, CHN-08: what supersteps made of their writes is what replaying all of
// them at once makes, from a snapshot at any point.
func TestDeltaReplaysToTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := Delta(0, concat).Named("k")
		live, err := spec.Restore(nil)
		if err != nil {
			t.Fatal(err)
		}
		rebuilt := live.Copy()
		var since []any
		for range rapid.IntRange(1, 6).Draw(t, "steps") {
			values, _, at := overwrites(t)
			if len(at) > 1 {
				continue
			}
			if len(at) == 1 { // the engine stores the channel whole after an Overwrite
				values = values[at[0] : at[0]+1]
			}
			if _, err := live.Update(values); err != nil {
				t.Fatal(err)
			}
			since = append(since, values...)
			if rapid.IntRange(0, 3).Draw(t, "snapshot") == 0 {
				if rebuilt, err = spec.Restore(stored{live.(DeltaChannel).Snapshot()}); err != nil {
					t.Fatal(err)
				}
				since = nil
			}
		}
		if err := rebuilt.(DeltaChannel).Replay(since); err != nil {
			t.Fatal(err)
		}
		a, _ := live.Get()
		b, _ := rebuilt.Get()
		if !reflect.DeepEqual(a, b) {
			t.Fatalf("live %v, rebuilt %v", a, b)
		}
	})
}

// The write that becomes a channel's first value, or replaces it, stays the
// writer's: folding into the channel must not show in the array it shares.
func TestFirstWriteIsNotAppendedInto(t *testing.T) {
	for _, first := range []func([]any) any{func(l []any) any { return l }, func(l []any) any { return serde.Overwrite{Value: l} }} {
		shared := make([]any, 1, 8)
		shared[0] = "x"
		join := func(a, b any) any { return append(a.([]any), b.([]any)...) }
		one, two := Reduce(join).Named("one"), Reduce(join).Named("two")
		for i, c := range []Channel{one, two} {
			for _, w := range []any{first(shared), []any{i}} {
				if _, err := c.Update([]any{w}); err != nil {
					t.Fatal(err)
				}
			}
		}
		wantValue(t, one, []any{"x", 0})
		wantValue(t, two, []any{"x", 1})
	}
}

// No stored value makes Restore panic, or a channel that panics.
func FuzzRestore(f *testing.F) {
	for _, v := range []any{nil, 3, "text", []any{1, "a"}, []any{serde.Set{"a"}, true}, []any{[]any{1}, false}, serde.Set{"a", "b"}, serde.Set{1},
		map[string]any{"a": 1}, serde.DeltaSnapshot{Value: []any{1}}, serde.Overwrite{Value: 1}} {
		typed, err := serde.Default().Encode(v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(typed.Kind, []byte(typed.Data))
	}
	f.Fuzz(func(t *testing.T, kind string, data []byte) {
		v, err := serde.Default().Decode(serde.Typed{Kind: kind, Data: data})
		if err != nil {
			return
		}
		all := append(specs(), spec{make: func() Channel { return Delta(0, concat) }}, spec{make: func() Channel { return Messages(nil) }},
			spec{make: func() Channel { return UntrackedValue[int](Guarded) }}, spec{make: func() Channel { return LastValue[any]() }})
		for _, s := range all {
			c, err := s.make().Named("k").Restore(stored{v})
			if err != nil {
				continue
			}
			c.Available()
			c.Get()
			c.Finish()
			c.Consume()
			if _, err := c.Update(nil); err != nil {
				t.Errorf("%T: no writes: %v", c, err)
			}
			c.Checkpoint()
		}
	})
}
