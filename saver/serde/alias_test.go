package serde_test

import (
	"testing"

	"github.com/stele-go/stele/saver/serde"
)

type extHolder struct{ G serde.Ext }

// What a codec returns shares no memory with what it decoded, an extension that a
// registered struct holds by value included.
func TestDecodedExtIsOwned(t *testing.T) {
	r := new(serde.Registry)
	if err := r.Register("m", "H", extHolder{}, serde.FormKeyword); err != nil {
		t.Fatal(err)
	}
	c, err := serde.New(serde.Options{Registry: r})
	if err != nil {
		t.Fatal(err)
	}
	const text = "raw payload that stays"
	in, err := c.Encode(extHolder{serde.Ext{Code: 77, Data: []byte(text)}})
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.Decode(in)
	if err != nil {
		t.Fatal(err)
	}
	var into extHolder
	if err := c.DecodeInto(in, &into); err != nil {
		t.Fatal(err)
	}
	clear(in.Data)
	if h, ok := got.(extHolder); !ok || string(h.G.Data) != text || string(into.G.Data) != text {
		t.Errorf("after the input was overwritten: %T %q, %q", got, got, into.G.Data)
	}
}
