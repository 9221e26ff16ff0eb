package serde_test

import (
	"fmt"

	"github.com/stele-go/stele/serde"
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
