package channel

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/stele-go/stele/saver/serde"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// stored is a decoded value, as a checkpoint hands it out.
type stored struct{ v any }

func (s stored) Any() (any, error)    { return s.v, nil }
func (s stored) Decode(dst any) error { return serde.Assign(dst, s.v) }

func update(t *testing.T, c Channel, values ...any) bool {
	t.Helper()
	changed, err := c.Update(values)
	if err != nil {
		t.Fatalf("update %v: %v", values, err)
	}
	return changed
}

func wantValue(t *testing.T, c Channel, want any) {
	t.Helper()
	got, ok := c.Get()
	if !ok || !reflect.DeepEqual(got, want) {
		t.Errorf("value = %v, %v; want %v", got, ok, want)
	}
}

func wantEmpty(t *testing.T, c Channel) {
	t.Helper()
	if v, ok := c.Get(); ok || c.Available() {
		t.Errorf("value = %v; want none", v)
	}
}

// reopen stores c's checkpoint through the serializer and restores it.
func reopen(t *testing.T, c Channel) Channel {
	t.Helper()
	v, ok := c.Checkpoint()
	if !ok {
		d, err := c.Restore(nil)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	typed, err := serde.Default().Encode(v)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := serde.Default().Decode(typed)
	if err != nil {
		t.Fatal(err)
	}
	d, err := c.Restore(stored{plain})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func wantUpdateError(t *testing.T, c Channel, text string, values ...any) {
	t.Helper()
	before, had := c.Get()
	_, err := c.Update(values)
	var ue *UpdateError
	if !errors.As(err, &ue) || !errors.Is(err, ErrInvalidUpdate) || ue.Channel != c.Key() || !strings.Contains(err.Error(), text) {
		t.Errorf("update %v: %v; want an UpdateError with %q", values, err, text)
	}
	if after, has := c.Get(); has != had || !reflect.DeepEqual(before, after) {
		t.Errorf("a refused update changed %v to %v", before, after)
	}
}

func TestLastValue(t *testing.T) { // CHN-01
	c := LastValue[int]().Named("k")
	wantEmpty(t, c)
	wantUpdateError(t, c, "At key 'k': Can receive only one value per step", 5, 6)
	wantUpdateError(t, c, "wrong type", "text")
	for _, n := range []any{3, int64(4)} {
		if !update(t, c, n) {
			t.Error("a write is a change")
		}
	}
	if update(t, c) {
		t.Error("no write is no change")
	}
	wantValue(t, c, 4)
	wantValue(t, reopen(t, c), 4)
	d := c.Copy()
	update(t, d, 9)
	wantValue(t, c, 4)
}

func TestTopic(t *testing.T) { // CHN-02, CHN-03
	c := Topic[string](PerStep).Named("k")
	update(t, c, "a", "b")
	if !update(t, c, []string{"c", "d"}, "d") {
		t.Error("new content is a change")
	}
	wantValue(t, c, []string{"c", "d", "d"})
	wantValue(t, reopen(t, c), []string{"c", "d", "d"})
	if !update(t, c) || update(t, c) {
		t.Error("emptying is a change, staying empty is none")
	}
	wantEmpty(t, c)
	wantEmpty(t, reopen(t, c))

	acc := Topic[string](Accumulate).Named("k")
	update(t, acc, "a", "b")
	update(t, acc, "b", []any{"c", "d"}, "d")
	if update(t, acc) {
		t.Error("an accumulating topic does not change without writes")
	}
	wantValue(t, reopen(t, acc), []string{"a", "b", "b", "c", "d", "d"})
	old, err := c.Restore(stored{[]any{serde.Set{"x"}, []any{"x", "y"}}})
	if err != nil {
		t.Fatal(err)
	}
	wantValue(t, old, []string{"x", "y"})
}

func TestReduce(t *testing.T) { // CHN-04, CHN-09..11
	c := Reduce(Add[int]).Named("k")
	wantValue(t, c, 0)
	update(t, c, 1, 2, 3)
	wantValue(t, c, 6)
	update(t, c, int64(4))
	wantValue(t, reopen(t, c), 10)

	list := Reduce(Append[string]).Named("k")
	update(t, list, []string{"a"})
	update(t, list, []string{"lost"}, serde.Overwrite{Value: []string{"b"}}, []string{"ignored"})
	wantValue(t, list, []string{"b"})
	for _, form := range []any{map[string]any{"__overwrite__": []any{"c"}}, map[string]any{"type": "__overwrite__", "value": []any{"c"}}} {
		update(t, list, form)
		wantValue(t, list, []string{"c"})
	}
	wantUpdateError(t, list, "Can receive only one Overwrite value per super-step.", serde.Overwrite{}, serde.Overwrite{})
	first := Reduce(func(a, b any) any { return []any{a, b} }).Named("k")
	wantEmpty(t, first)
	update(t, first, serde.Overwrite{Value: "x"})
	wantValue(t, first, "x")
}

// Appending in place must not be seen by a copy of the channel, nor by another.
func TestReduceCopiesDoNotShareCapacity(t *testing.T) {
	c := Reduce(Append[int]).Named("k")
	update(t, c, []int{1, 2, 3})
	update(t, c, []int{4})
	one, two := c.Copy(), c.Copy()
	update(t, one, []int{5})
	update(t, two, []int{6})
	update(t, c, []int{7})
	wantValue(t, one, []int{1, 2, 3, 4, 5})
	wantValue(t, two, []int{1, 2, 3, 4, 6})
	wantValue(t, c, []int{1, 2, 3, 4, 7})
}

// Nor by a node that appends to what it got, nor through a slice it wrote.
func TestReduceDoesNotShareCapacityWithNodes(t *testing.T) {
	c := Reduce(Append[int]).Named("k")
	update(t, c, []int{1, 2, 3})
	update(t, c, []int{4})
	v, _ := c.Get()
	mine := append(v.([]int), 100)
	update(t, c, []int{5})
	wantValue(t, c, []int{1, 2, 3, 4, 5})
	if !slices.Equal(mine, []int{1, 2, 3, 4, 100}) {
		t.Errorf("the channel wrote into a node's slice: %v", mine)
	}
	written := append(make([]int, 0, 8), 7)
	update(t, c, serde.Overwrite{Value: written})
	update(t, c, []int{8})
	if got := written[:2]; got[1] == 8 {
		t.Errorf("the channel appended to the slice a node wrote: %v", got)
	}
}

func TestEphemeralAndUntracked(t *testing.T) { // CHN-05, CHN-14
	c := Ephemeral[string](Guarded).Named("k")
	update(t, c, "x")
	wantValue(t, reopen(t, c), "x")
	wantUpdateError(t, c, "can receive only one value per step", "a", "b")
	if !update(t, c) || update(t, c) {
		t.Error("only the first step without a write clears")
	}
	loose := Ephemeral[string](Unguarded).Named("k")
	update(t, loose, "a", "b")
	wantValue(t, loose, "b")

	u := UntrackedValue[string](Guarded).Named("k")
	update(t, u, "secret")
	if update(t, u) {
		t.Error("an untracked value stays")
	}
	wantValue(t, u, "secret")
	if _, ok := u.Checkpoint(); ok {
		t.Error("an untracked value was stored")
	}
	wantEmpty(t, reopen(t, u))

	a := AnyValue[int]().Named("k")
	update(t, a, 1, 1)
	wantValue(t, a, 1)
	if !update(t, a) {
		t.Error("a step without a write clears it")
	}
	wantEmpty(t, a)
}

func TestAfterFinish(t *testing.T) {
	c := LastValueAfterFinish[string]().Named("k")
	update(t, c, "a", "b")
	wantEmpty(t, c)
	if !c.Finish() || c.Finish() {
		t.Error("finishing is a change once")
	}
	wantValue(t, c, "b")
	wantValue(t, reopen(t, c), "b")
	if !c.Consume() || c.Consume() {
		t.Error("consuming is a change once")
	}
	wantEmpty(t, c)
}

func TestBarriers(t *testing.T) {
	for _, deferred := range []bool{false, true} {
		c := NamedBarrier("a", "b").Named("k")
		if deferred {
			c = NamedBarrierAfterFinish("a", "b").Named("k")
		}
		wantUpdateError(t, c, "Value x not in {a, b}", "a", "x")
		if !update(t, c, "a") || update(t, c, "a") {
			t.Error("only a new name is a change")
		}
		if c = reopen(t, c); c.Available() {
			t.Error("half a barrier is open")
		}
		update(t, c, "b")
		if c.Available() == deferred {
			t.Errorf("deferred %v: available %v", deferred, c.Available())
		}
		if c.Finish() != deferred {
			t.Error("only a deferred barrier finishes")
		}
		if c = reopen(t, c); !c.Available() || !c.Consume() || c.Available() || c.Consume() {
			t.Error("an open barrier is consumed once")
		}
	}
}

func TestDelta(t *testing.T) { // CHN-06..08
	merge := func(s map[string]int, ws []map[string]int) (map[string]int, error) {
		for _, w := range ws {
			s = MergeMaps(s, w)
		}
		return s, nil
	}
	c := Delta(0, merge).Named("k")
	d, err := c.Restore(nil)
	if err != nil {
		t.Fatal(err)
	}
	wantValue(t, d, map[string]int{})
	update(t, d, map[string]int{"a": 1})
	update(t, d, map[string]int{"b": 2})
	wantValue(t, d, map[string]int{"a": 1, "b": 2})
	if _, ok := d.Checkpoint(); ok {
		t.Error("a delta channel stored its value")
	}
	snap, err := c.Restore(stored{d.(DeltaChannel).Snapshot()})
	if err != nil {
		t.Fatal(err)
	}
	wantValue(t, snap, map[string]int{"a": 1, "b": 2})
	writes := []any{map[string]any{"a": int64(1)}, serde.Overwrite{Value: map[string]any{"x": int64(10), "y": int64(20)}}, map[string]any{"z": int64(30)}}
	if err := snap.(DeltaChannel).Replay(writes); err != nil {
		t.Fatal(err)
	}
	wantValue(t, snap, map[string]int{"x": 10, "y": 20, "z": 30})
	wantUpdateError(t, d, "only one Overwrite", serde.Overwrite{}, serde.Overwrite{})
	if f := c.(DeltaChannel).SnapshotFrequency(); f != DefaultSnapshotFrequency {
		t.Errorf("frequency %d", f)
	}
	seed, err := Delta(0, func(s any, ws []any) (any, error) { return append(ws, s), nil }).Restore(stored{nil})
	if err != nil {
		t.Fatal(err)
	}
	wantValue(t, seed, nil)
	null, err := c.Restore(stored{nil})
	if err != nil {
		t.Fatal(err)
	}
	wantValue(t, null, map[string]int{})
	sum := Delta(0, func(s int, ws []int) (int, error) { return s + len(ws), nil }).Named("k")
	if null, err = sum.Restore(stored{nil}); err != nil {
		t.Fatal(err)
	}
	update(t, null, 5)
	wantValue(t, null, 1)
}

func TestMessages(t *testing.T) { // MSG-01
	n := 0
	c := Messages(func() string { n++; return "id" + string(rune('0'+n)) }).Named("messages")
	update(t, c, Message{Role: "human", Content: "hi"})
	update(t, c, []Message{{ID: "x", Role: "ai", Content: "one"}, {ID: "x", Role: "ai", Content: "two"}})
	texts := func() []string {
		v, _ := c.Get()
		var out []string
		for _, m := range v.([]Message) {
			out = append(out, m.ID+"="+m.Content.(string))
		}
		return out
	}
	if got := texts(); !slices.Equal(got, []string{"id1=hi", "x=two"}) {
		t.Errorf("messages %q", got)
	}
	update(t, c, map[string]any{"id": "id1", "role": "human", "content": "edited"})
	update(t, c, RemoveMessage("x"))
	if got := texts(); !slices.Equal(got, []string{"id1=edited"}) {
		t.Errorf("messages %q", got)
	}
	wantUpdateError(t, c, "ID that doesn't exist ('nobody')", RemoveMessage("nobody"))
	update(t, c, []Message{{ID: "lost"}, RemoveMessage(RemoveAll), {ID: "kept", Role: "ai", Content: "new"}})
	if got := texts(); !slices.Equal(got, []string{"kept=new"}) {
		t.Errorf("messages %q", got)
	}
}

func TestConvert(t *testing.T) {
	if n, err := Convert[int8](int64(-7)); err != nil || n != -7 {
		t.Errorf("int8: %v %v", n, err)
	}
	for _, bad := range []any{int64(300), 1.5, "1", true, nil} {
		if n, err := Convert[int8](bad); err == nil {
			t.Errorf("%v became %v", bad, n)
		}
	}
	if _, err := Convert[uint](int64(-1)); err == nil {
		t.Error("a negative number lost its sign")
	}
	if _, err := Convert[float64](int64(1<<53 + 1)); err == nil {
		t.Error("a number lost digits")
	}
	type point struct {
		X int `json:"x"`
	}
	if p, err := Convert[point](map[string]any{"x": int64(3)}); err != nil || p.X != 3 {
		t.Errorf("struct: %v %v", p, err)
	}
}

func TestEqual(t *testing.T) {
	specs := []Channel{LastValue[int](), AnyValue[int](), Ephemeral[int](Guarded), Ephemeral[int](Unguarded), UntrackedValue[int](Guarded),
		Topic[int](PerStep), Topic[int](Accumulate), Reduce(Add[int]), Delta(1, func(n int, _ []int) (int, error) { return n, nil }),
		NamedBarrier("a"), NamedBarrier("b"), NamedBarrierAfterFinish("a"), LastValueAfterFinish[int]()}
	for i, a := range specs {
		for j, b := range specs {
			if a.Equal(b) != (i == j) {
				t.Errorf("spec %d equal to spec %d: %v", i, j, a.Equal(b))
			}
		}
	}
}
