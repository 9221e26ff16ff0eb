package serde

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/tinylib/msgp/msgp"

	"github.com/stele-go/stele/base/race"
)

// allocated is what f allocates. Others may allocate meanwhile, so it is the least of
// a few tries, which end when one is within most.
func allocated(most int64, f func()) int64 {
	least := int64(1<<63 - 1)
	for range 4 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		f()
		runtime.ReadMemStats(&after)
		if least = min(least, int64(after.TotalAlloc-before.TotalAlloc)); least <= most {
			break
		}
	}
	return least
}

// checkCost decodes in, and many of it in a list, and compares what that allocates
// with what was counted.
func checkCost(t testing.TB, c *Codec, in Typed) {
	t.Helper()
	copies := min(max(20_000/(len(in.Data)+1), 1), 400)
	many := Typed{Kind: in.Kind, Data: append(msgp.AppendArrayHeader(nil, uint32(copies)), bytes.Repeat(in.Data, copies)...)}
	if in.Kind == KindJSON {
		many.Data = []byte("[" + strings.Repeat(string(in.Data)+",", copies-1) + string(in.Data) + "]")
	}
	for _, typed := range []Typed{in, many} {
		cost := costOf(t, c, typed)
		if typed.Kind == KindMsgpack && cost > costFixed+costPerByte*int64(len(typed.Data)) {
			t.Fatalf("%d bytes cost %d, more than %d each:\n%.200x", len(typed.Data), cost, costPerByte, in.Data)
		}
		most := cost
		if race.Enabled { // the detector allocates beside
			most += cost/4 + 16<<10
		}
		if took := allocated(most, func() { _, _ = c.Decode(typed) }); took > most {
			t.Fatalf("%d bytes allocate %d, and %d were counted:\n%.200x", len(typed.Data), took, cost, in.Data)
		}
	}
}

// costOf is the least limit with which typed is not refused.
func costOf(t testing.TB, c *Codec, typed Typed) int64 {
	t.Helper()
	if typed.Kind == KindMsgpack {
		cost, _ := treeCost(typed.Data, 1<<60, c.opts.Plain)
		return cost
	}
	_, b, _ := c.decode(typed, nil)
	return b.tree + b.spent
}

// TestCostIsAboveAllocations takes the values that cost the most for their length.
func TestCostIsAboveAllocations(t *testing.T) {
	texts := map[string]string{
		"nil": "c0", "small int": "07", "int": "cd0400", "float": "cb3ff0000000000001", "empty string": "a0", "letter": "a161",
		"empty list": "90", "list of one": "91c0", "empty map": "80", "pair": "81a0c0", "pair of nil": "81c0c0", "mixed keys": "82a0c0c0c0",
		"two mixed": "83a0c0a161c0c0c0", "bytes": "c400", "byte": "c40101", "key of bytes": "81c400c0", "key of a tuple": "8190c0", "long tuple": "819401020304c0",
		"raw ext": "d400c0", "unknown ext": "d47fc0", "delta": "d407c0", "delta of ext": "c70307d407c0", "failed named": "d6009300a0a0",
		"twice failed": "d70093d600930000", "set": "c7180093a86275696c74696e73a966726f7a656e73657491920102",
	}
	vals := map[string]any{
		"time": time.Date(2026, 1, 2, 3, 4, 5, 6000, time.FixedZone("", 3600)), "delta time": time.Hour, "uuid": UUID{}, "path": NewPath("/a/b/c"),
		"send": Send{Node: "n"}, "interrupt": Interrupt{Value: 1, ID: "i"}, "command": Command{Goto: "x"}, "array": NDArray{DType: "<f8", Shape: []int64{1, 2, 3}},
		"model": NewExt(ExtPydanticV2, "m", "N", map[string]any{"b": 1, "a": 2}, ""), "words": strings.Fields(strings.Repeat("word and more ", 300)),
		"apart": []any{"a", make([]byte, 900), "b", make([]byte, 900), "c", make([]byte, 900)}, "text": strings.Repeat("x", 40_000),
		"regexp": Regexp{Pattern: "a+"}, "clock": TimeOfDay{Hour: 1, TZ: FixedOffset{Offset: time.Hour, Name: "n"}},
	}
	for _, n := range []int{8, 9, 15, 57, 897, 1793, 7169} {
		m, k := map[string]any{}, map[any]any{}
		for i := range n {
			m[fmt.Sprint(i)], k[int64(i)] = nil, nil
		}
		vals[fmt.Sprint("map of ", n)], vals[fmt.Sprint("numbers to ", n)] = m, k
	}
	codecs := map[string]*Codec{"open": Default(), "strict": mustNew(t, Options{Strict: true}), "plain": mustNew(t, Options{Plain: true})}
	for mode, c := range codecs {
		for name, text := range texts {
			t.Run(mode+"/"+name, func(t *testing.T) { checkCost(t, c, Typed{Kind: KindMsgpack, Data: unhex(t, text)}) })
		}
		for name, v := range vals {
			typed, err := c.Encode(v)
			if err != nil {
				t.Fatal(err)
			}
			t.Run(mode+"/"+name, func(t *testing.T) { checkCost(t, c, typed) })
		}
	}
	for _, text := range []string{
		`[]`, `{}`, `{"a":1}`, `""`, `"abc"`, `"a\nb"`, `1`, `1.5`, `300`, `"` + strings.Repeat(`\u00e4`, 1000) + `"`,
		`{"lc":2,"type":"constructor","id":["uuid","UUID"],"args":["00000000000000000000000000000000"]}`,
		`{"lc":2,"type":"constructor","id":["builtins","set"],"args":[[1,2,3,4]]}`, `{"type":"constructor"}`,
	} {
		t.Run("JSON/"+text[:min(len(text), 20)], func(t *testing.T) { checkCost(t, Default(), Typed{Kind: KindJSON, Data: []byte(text)}) })
	}
}

// TestEmptyContainers: 60 MiB of what is nothing is refused before it is allocated.
func TestEmptyContainers(t *testing.T) {
	const n = 60 << 20
	for name, b := range map[string]byte{"lists": 0x90, "maps": 0x80} {
		data := append(msgp.AppendArrayHeader(nil, uint32(n)), bytes.Repeat([]byte{b}, n)...)
		for _, typed := range []Typed{{Kind: KindMsgpack, Data: data}, {Kind: KindMsgpack, Data: closeExt(append(make([]byte, extRoom), data...), 0, ExtDelta)}} {
			var err error
			took := allocated(1<<20, func() { _, err = Default().Decode(typed) })
			if !errors.Is(err, ErrDecodeLimit) || !errors.Is(err, ErrTooLarge) || errors.Is(err, ErrMalformed) || took > 1<<20 {
				t.Errorf("%s: %v after %d bytes", name, err, took)
			}
			var de *DecodeError
			if !errors.As(err, &de) {
				t.Errorf("%s: %T", name, err)
			}
		}
	}
	c := mustNew(t, Options{DecodeLimit: 1 << 20})
	_, err := c.Decode(Typed{Kind: KindJSON, Data: []byte("[" + strings.Repeat("{},", n/3) + "{}]")})
	if !errors.Is(err, ErrDecodeLimit) {
		t.Errorf("JSON: %v", err)
	}
}

type costLeaf struct {
	Name  string
	Tags  []string
	Count map[string]int32
	Next  *costLeaf
	Pad   [40]int64 `json:",omitempty"`
}

type costTree struct {
	*costLeaf
	Leaves []costLeaf
	ByID   map[int]costLeaf
	Any    any
	Extra  map[string]any `stele:",extra"`
}

// randomLeaf and randomTree make values of Go types, of any size.
func randomLeaf(r *rand.Rand) costLeaf {
	l := costLeaf{Name: strings.Repeat("n", r.IntN(400))}
	for range r.IntN(4) {
		l.Tags = append(l.Tags, "tag")
	}
	if r.IntN(2) == 0 {
		l.Count = map[string]int32{"a": r.Int32(), "b": 1}
	}
	if r.IntN(3) == 0 {
		next := randomLeaf(r)
		l.Next = &next
	}
	return l
}

func randomTree(r *rand.Rand) costTree {
	tree := costTree{ByID: map[int]costLeaf{}}
	if r.IntN(2) == 0 {
		l := randomLeaf(r)
		tree.costLeaf = &l
	}
	for i := range r.IntN(20) {
		tree.Leaves = append(tree.Leaves, randomLeaf(r))
		tree.ByID[i*r.IntN(5)] = randomLeaf(r)
	}
	tree.Any = []any{randomLeaf(r), []costLeaf{randomLeaf(r)}, time.Hour}
	if r.IntN(2) == 0 {
		tree.Extra = map[string]any{"x": 1, "y": []any{}}
	}
	return tree
}

// TestEncodeRefusesWhatDecodeWould: with any limit, what is written can be read with
// it, as plain data and as the type it had, and filling that type stays within it.
func TestEncodeRefusesWhatDecodeWould(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	reg := &Registry{}
	if err := RegisterStruct[costLeaf](reg, "app", "Leaf"); err != nil {
		t.Fatal(err)
	}
	wrote, refused := 0, 0
	for i := range 400 {
		tree := randomTree(r)
		open := mustNew(t, Options{Registry: reg, DecodeLimit: -1})
		typed, err := open.Encode(tree)
		if err != nil {
			t.Fatal(err)
		}
		plain := costOf(t, open, typed)
		limit := plain/2 + r.Int64N(2*plain)
		c := mustNew(t, Options{Registry: reg, DecodeLimit: limit})
		_, err = c.Encode(tree)
		switch {
		case err == nil:
			wrote++
			var back costTree
			var into error
			took := allocated(limit, func() { back = costTree{}; into = c.DecodeInto(typed, &back) })
			if into != nil || took > limit {
				t.Fatalf("tree %d, limit %d: written, and not read: %v, after %d bytes", i, limit, into, took)
			}
			v, err := c.Decode(typed)
			if err != nil {
				t.Fatalf("tree %d, limit %d: written, and not read: %v", i, limit, err)
			}
			want, err := open.Decode(typed)
			if a, b := fmt.Sprintf("%T %#v", v, v), fmt.Sprintf("%T %#v", want, want); err != nil || typeShape(v) != typeShape(want) {
				t.Fatalf("tree %d: with a limit it is read as another type, %v:\n%.300s\n%.300s", i, err, a, b)
			}
		default:
			refused++
			var ee *EncodeError
			if !errors.Is(err, ErrDecodeLimit) || !errors.As(err, &ee) {
				t.Fatalf("tree %d: %v", i, err)
			}
		}
		if _, err := c.Decode(typed); (err != nil) != (plain > limit) || err != nil && !errors.Is(err, ErrDecodeLimit) {
			t.Fatalf("tree %d costs %d, the limit is %d: %v", i, plain, limit, err)
		}
	}
	if wrote == 0 || refused == 0 {
		t.Fatalf("%d written, %d refused: the limits test nothing", wrote, refused)
	}
}

// TestFillIsCounted: data that is within the limit is refused where the Go type that is
// to be filled from it is not.
func TestFillIsCounted(t *testing.T) {
	list, m := make([]any, 1000), map[string]any{}
	for i := range list {
		list[i] = map[string]any{}
		m[fmt.Sprint(i)] = list[i]
	}
	for limit, v := range map[int64]any{150_000: list, 300_000: m} {
		c := mustNew(t, Options{DecodeLimit: limit})
		typed, err := c.Encode(v)
		if err != nil {
			t.Fatal(err)
		}
		dsts := []any{new([]costLeaf), new([]*costLeaf)}
		if limit == 300_000 {
			dsts = []any{new(map[string]costLeaf)}
		}
		for _, dst := range dsts {
			var de *DecodeError
			if err := c.DecodeInto(typed, dst); !errors.Is(err, ErrDecodeLimit) || !errors.As(err, &de) {
				t.Errorf("%T: %v", dst, err)
			}
			if err := mustNew(t, Options{}).DecodeInto(typed, dst); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Encode(dst); !errors.Is(err, ErrDecodeLimit) {
				t.Errorf("%T is written: %v", dst, err)
			}
		}
	}
}

// typeShape names the types in v, from the top.
func typeShape(v any) string {
	switch v := v.(type) {
	case []any:
		s := "["
		for _, x := range v {
			s += typeShape(x) + ","
		}
		return s + "]"
	case map[string]any:
		return typeShape(v["Any"])
	}
	return fmt.Sprintf("%T", v)
}

// TestGrownRefusesWhatDecodeWould: a list that grows to the limit is not passed on from
// where it grew.
func TestGrownRefusesWhatDecodeWould(t *testing.T) {
	list := make([]map[string]any, 2000)
	for i := range list {
		list[i] = map[string]any{}
	}
	was, err := Default().Encode(list[:1999])
	if err != nil {
		t.Fatal(err)
	}
	grown := 0
	for limit := int64(50_000); limit < 5_000_000; limit += 50_000 {
		c := mustNew(t, Options{DecodeLimit: limit})
		_, err := c.Encode(list)
		if err != nil && !errors.Is(err, ErrDecodeLimit) {
			t.Fatal(err)
		}
		if _, ok := c.EncodeGrown(was, list, 1); ok {
			if grown++; err != nil {
				t.Fatalf("limit %d: grown, though %v", limit, err)
			}
		}
	}
	if grown == 0 {
		t.Fatal("it never grew")
	}
}

// TestLargestValue: 64 MiB are 64 MiB.
func TestLargestValue(t *testing.T) {
	const most = 64 << 20
	for _, v := range []any{make([]byte, most), strings.Repeat("x", most-5), ByteArray(make([]byte, most))} {
		typed, err := Default().Encode(v)
		if err != nil || len(typed.Data) != most {
			t.Fatalf("%T: %d bytes, %v", v, len(typed.Data), err)
		}
		if _, whole, err := Default().EncodeAfter(1, v); err != nil || whole != nil && len(whole) != most+1 {
			t.Fatalf("%T: with room for one byte: %v", v, err)
		}
		if _, err := Default().Decode(typed); err != nil {
			t.Fatalf("%T: %v", v, err)
		}
	}
	for _, v := range []any{make([]byte, most+1), strings.Repeat("x", most-4), ByteArray(make([]byte, most+1))} {
		if _, err := Default().Encode(v); !errors.Is(err, ErrTooLarge) {
			t.Errorf("%T: a byte more: %v", v, err)
		}
	}
}

// TestLimitOfOthers: an encrypting serializer passes the limit on, and so does what
// says how.
func TestLimitOfOthers(t *testing.T) {
	limited, ok := WithDecodeLimit(newEncrypted(t, EncryptedOptions{}), 100_000)
	if !ok {
		t.Fatal("an Encrypted has no limit")
	}
	if _, err := limited.Encode(make([]any, 100_000)); !errors.Is(err, ErrDecodeLimit) {
		t.Errorf("%v", err)
	}
	if _, ok := WithDecodeLimit(struct{ Serializer }{Default()}, 1); ok {
		t.Error("a serializer without a limit has one")
	}
}
