package serde

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

type grownItem struct {
	Name  string
	Score float64
	Tags  []string `msgpack:",omitempty"`
}

// lists are makers of a list of n elements, of the types whose elements are encoded
// one by one.
var lists = map[string]func(n int) any{
	"any": func(n int) any {
		out := make([]any, n)
		for i := range out {
			out[i] = []any{i, fmt.Sprint(i), nil, i%2 == 0, float64(i) / 3, []byte{byte(i)}, map[string]any{"b": i, "a": []any{i}},
				time.Unix(int64(i), 0).UTC(), map[any]any{i: "x"}, []any{}}[i%10]
		}
		return out
	},
	"string": func(n int) any {
		out := make([]string, n)
		for i := range out {
			out[i] = fmt.Sprintf("message %d", i)
		}
		return out
	},
	"map": func(n int) any {
		out := make([]map[string]any, n)
		for i := range out {
			out[i] = map[string]any{"type": "human", "content": i, "more": map[string]any{"z": 1, "y": i}}
		}
		return out
	},
	"struct": func(n int) any {
		out := make([]grownItem, n)
		for i := range out {
			out[i] = grownItem{Name: fmt.Sprint(i), Score: float64(i), Tags: make([]string, i%3)}
		}
		return out
	},
	"pointer": func(n int) any {
		out := make([]*grownItem, n)
		for i := range out {
			if i%4 != 3 {
				out[i] = &grownItem{Name: fmt.Sprint(i)}
			}
		}
		return out
	},
	"lists": func(n int) any {
		out := make([][]int, n)
		for i := range out {
			out[i] = make([]int, i%20)
		}
		return out
	},
}

// What is encoded from where it grew is byte for byte what encoding the whole gives.
func TestGrownIsTheWhole(t *testing.T) {
	for name, list := range lists {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				checkGrown(t, list, rapid.IntRange(1, 40).Draw(t, "old"), rapid.IntRange(0, 6).Draw(t, "n"))
			})
		})
	}
	for old := 1<<16 - 2; old <= 1<<16; old++ { // the header grows as well
		checkGrown(t, lists["string"], old, 1)
	}
}

func checkGrown(t interface{ Fatalf(string, ...any) }, list func(int) any, old, n int) {
	c := Default()
	was, err := c.Encode(list(old))
	if err != nil {
		t.Fatalf("%v", err)
	}
	whole, err := c.Encode(list(old + n))
	if err != nil {
		t.Fatalf("%v", err)
	}
	g, ok := c.EncodeGrown(was, list(old+n), n)
	if !ok {
		t.Fatalf("refused %d elements that became %d", old, old+n)
	}
	got := bytes.Join([][]byte{g.Head, was.Data[g.From:], g.Tail}, nil)
	if !bytes.Equal(got, whole.Data) || g.Len(len(was.Data)) != len(got) {
		t.Fatalf("%d elements and %d more: %d bytes differ from the whole", old, n, len(got))
	}
}

// What is not the list before, or no list, is refused.
func TestNotGrown(t *testing.T) {
	c := Default()
	enc := func(v any) Typed {
		typed, err := c.Encode(v)
		if err != nil {
			t.Fatal(err)
		}
		return typed
	}
	abc := []any{"a", "b", "c"}
	for name, x := range map[string]struct {
		was  Typed
		list any
		n    int
	}{
		"shorter before":      {enc(abc[:1]), abc, 1},
		"longer before":       {enc(abc), abc, 1},
		"nothing before":      {enc([]any{}), abc, 3},
		"more than there are": {enc([]any{}), abc, 4},
		"negative":            {enc(abc), abc[:2], -1},
		"last changed":        {enc([]any{"a", "x"}), abc, 1},
		"first changed":       {enc([]any{"x", "b"}), abc, 1},
		"a map before":        {enc(map[string]any{"a": 1}), abc, 1},
		"a text before":       {enc("ab"), abc, 1},
		"bytes":               {enc([]byte("ab")), []byte("abc"), 1},
		"no list":             {enc(abc[:2]), map[string]any{"a": 1}, 1},
		"nil":                 {enc(abc[:2]), nil, 1},
		"no value before":     {Typed{}, abc, 1},
		"another kind before": {Typed{Kind: KindJSON, Data: enc(abc[:2]).Data}, abc, 1},
		"cut short before":    {Typed{Kind: KindMsgpack, Data: []byte{mArray16, 0}}, abc, 1},
		"not to be encoded":   {enc(abc[:2]), []any{"a", "b", make(chan int)}, 1},
	} {
		if _, ok := c.EncodeGrown(x.was, x.list, x.n); ok {
			t.Errorf("%s: taken for a list that grew", name)
		}
	}
}
