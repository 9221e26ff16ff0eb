package serde_test

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/stele-go/stele/saver/serde"
)

// A Go struct stands for a Python dataclass, in both directions.
func ExampleRegisterStruct() {
	type Point struct {
		X int `json:"x"`
		Y int `json:"y"`
	}
	var types serde.Registry
	if err := serde.RegisterStruct[Point](&types, "app.models", "Point"); err != nil {
		fmt.Println(err)
		return
	}
	codec, err := serde.New(serde.Options{Registry: &types})
	if err != nil {
		fmt.Println(err)
		return
	}
	typed, err := codec.Encode([]any{Point{1, 2}, serde.Send{Node: "draw", Arg: "red"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	v, err := codec.Decode(typed)
	fmt.Printf("%s %+v %v\n", typed.Kind, v, err)

	v, err = serde.Default().Decode(typed) // a codec that does not know the type keeps it all the same
	point := v.([]any)[0].(*serde.Ext)
	fmt.Println(point.Module, point.Name, point.Fields(), err)
	// Output:
	// msgpack [{X:1 Y:2} {Node:draw Arg:red Timeout:<nil>}] <nil>
	// app.models Point map[x:1 y:2] <nil>
}

// A decode error in a destination names the place in the data.
func ExampleCodec_DecodeInto() {
	typed, err := serde.Default().Encode(map[string]any{"messages": []any{map[string]any{"tokens": "many"}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	var state struct {
		Messages []struct {
			Tokens int `json:"tokens"`
		} `json:"messages"`
	}
	fmt.Println(serde.Default().DecodeInto(typed, &state))
	// Output:
	// decode $.messages[0].tokens: string does not fit int
}

// Values become LangGraph's typed bytes, and plain data again.
func ExampleCodec_Encode() {
	typed, err := serde.Default().Encode(map[string]any{"n": 1, "list": []string{"a", "b"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s %x\n", typed.Kind, typed.Data) // keys are sorted: equal values, equal bytes
	v, err := serde.Default().Decode(typed)
	fmt.Println(v, err)
	// Output:
	// msgpack 82a46c69737492a161a162a16e01
	// map[list:[a b] n:1] <nil>
}

// Types that nobody allowed are never built: a strict codec keeps only the data.
func ExampleOptions_strict() {
	typed, err := serde.Default().Encode(serde.NewExt(serde.ExtKeyword, "app.models", "Point", map[string]any{"x": 1}, ""))
	if err != nil {
		fmt.Println(err)
		return
	}
	codec, err := serde.New(serde.Options{Strict: true, OnBlocked: func(e serde.Event) { fmt.Println("blocked", e.Module, e.Name) }})
	if err != nil {
		fmt.Println(err)
		return
	}
	v, err := codec.Decode(typed)
	fmt.Println(v, err)
	// Output:
	// blocked app.models Point
	// map[x:1] <nil>
}

// LangGraph's encrypted values, read and written; plaintext is refused.
func ExampleNewEncrypted() {
	codec, err := serde.NewEncrypted(serde.Default(), serde.EncryptedOptions{Key: bytes.Repeat([]byte{7}, 32)})
	if err != nil {
		fmt.Println(err)
		return
	}
	typed, err := codec.Encode("secret")
	if err != nil {
		fmt.Println(err)
		return
	}
	v, err := codec.Decode(typed)
	fmt.Println(typed.Kind, bytes.Contains(typed.Data, []byte("secret")), v, err)

	plain, err := serde.Default().Encode("not encrypted")
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = codec.Decode(plain)
	fmt.Println(errors.Is(err, serde.ErrPlaintext))
	// Output:
	// msgpack+aes false secret <nil>
	// true
}
