package serde

import (
	"bytes"
	"errors"
	"testing"
)

// FuzzDecode: whatever the bytes, decoding ends in a value or a DecodeError; a
// value can be written, and from then on bytes and value are stable. So are
// they in strict and plain mode. It allocates no more than was counted before, and
// a limit that is a byte lower refuses it.
func FuzzDecode(f *testing.F) {
	for _, g := range loadGoldens(f).Cases {
		if g.Kind == KindMsgpack && g.Hex != "" {
			f.Add(unhex(f, g.Hex))
		}
	}
	for _, s := range []string{"c1", "ddffffffff", "dfffffffff", "c70000", "d40791", "82a0c0a0c3", "82cb7ff8000000000001c0cb7ff0000000000001c0", "c7060093a161a16201"} {
		f.Add(unhex(f, s))
	}
	for n := MaxDepth - 4; n <= MaxDepth; n++ { // as deep as can be, ending in what is deep itself
		for _, leaf := range []string{"90", "c7180093a86275696c74696e73a966726f7a656e73657491920102", "d40790", "c72f0193a86461746574696d65a874696d657a6f6e6591c7180193a86461746574696d65a974696d6564656c746193000000"} {
			f.Add(append(bytes.Repeat([]byte{0x91}, n), unhex(f, leaf)...))
		}
	}
	for _, s := range []string{"8190c0", "81c400c0", "d0d400c0", "d70093d600930000", "82a0c0c0c0", "92c40081a0c0"} { // much for a few bytes
		f.Add(unhex(f, s))
	}
	codecs := map[string]*Codec{"open": Default(), "strict": mustNew(f, Options{Strict: true}), "plain": mustNew(f, Options{Plain: true})}
	f.Fuzz(func(t *testing.T, data []byte) {
		for name, c := range codecs {
			in := Typed{Kind: KindMsgpack, Data: data}
			checkStable(t, name, c, in)
			checkCost(t, c, in)
			checkLimit(t, name, c, in)
		}
	})
}

// checkStable decodes t, writes the value, and does both again.
func checkStable(t *testing.T, name string, c *Codec, in Typed) {
	t.Helper()
	given := bytes.Clone(in.Data)
	v, err := c.Decode(in)
	if !bytes.Equal(given, in.Data) {
		t.Fatalf("%s: Decode changed its input", name)
	}
	similar, serr := decodeTwice(c, in)
	if (err == nil) != (serr == nil) || err != nil && err.Error() != serr.Error() {
		t.Fatalf("%s: %v, and with what like values have in common %v", name, err, serr)
	}
	var de *DecodeError
	if err != nil {
		if !errors.As(err, &de) || de.Offset < 0 || de.Offset > len(in.Data) || v != nil {
			t.Fatalf("%s: %v, %v", name, v, err)
		}
		return
	}
	clear(in.Data) // nothing that was decoded may alias it
	first, err := c.Encode(v)
	if again, serr := c.Encode(similar); err == nil && (serr != nil || !bytes.Equal(again.Data, first.Data)) {
		t.Fatalf("%s: %v with what like values have in common: %v", name, similar, serr)
	}
	copy(in.Data, given)
	if err != nil {
		t.Fatalf("%s: write what was read: %v\n%#v", name, err, v)
	}
	v2, err := c.Decode(first)
	if err != nil {
		t.Fatalf("%s: read what was written: %v\n%x", name, err, first.Data)
	}
	second, err := c.Encode(v2)
	if err != nil || second.Kind != first.Kind || !bytes.Equal(first.Data, second.Data) {
		t.Fatalf("%s: not stable, %v:\n%s %x\n%s %x", name, err, first.Kind, first.Data, second.Kind, second.Data)
	}
}

// checkLimit decodes t, and writes the value, with a limit that just suffices and with
// one that does not.
func checkLimit(t *testing.T, name string, c *Codec, in Typed) {
	t.Helper()
	cost := costOf(t, c, in)
	want, werr := c.Decode(in)
	v, err := c.WithDecodeLimit(cost).Decode(in)
	if (err == nil) != (werr == nil) || errors.Is(err, ErrDecodeLimit) || (v == nil) != (want == nil) {
		t.Fatalf("%s: with a limit of %d it is %v, %v; without it %v, %v", name, cost, v, err, want, werr)
	}
	if v, err := c.WithDecodeLimit(cost - 1).Decode(in); !errors.Is(err, ErrDecodeLimit) || v != nil {
		t.Fatalf("%s: with a limit of %d, one too low, it is %v, %v", name, cost-1, v, err)
	}
	if werr != nil {
		return
	}
	out, err := c.Encode(want)
	if err != nil || out.Kind != KindMsgpack { // a value that is bytes or nothing has a kind of its own
		return
	}
	cost = costOf(t, c, out)
	if _, err := c.WithDecodeLimit(cost - 1).Encode(want); !errors.Is(err, ErrDecodeLimit) {
		t.Fatalf("%s: with a limit of %d, one too low to read it, it is written: %v", name, cost-1, err)
	}
	again, err := c.Encode(want)
	if err != nil || !bytes.Equal(again.Data, out.Data) {
		t.Fatalf("%s: %v", name, err)
	}
}

// decodeTwice is Decode, when a value like this one was decoded before.
func decodeTwice(c *Codec, in Typed) (any, error) {
	m := new(Similar)
	if v, err := c.DecodeSimilar(in, m); err != nil {
		return v, err
	}
	return c.DecodeSimilar(in, m)
}

// FuzzDecodeJSON is FuzzDecode for old JSON, which is written as msgpack.
func FuzzDecodeJSON(f *testing.F) {
	for _, g := range loadGoldens(f).JSON {
		f.Add([]byte(g.Text))
	}
	f.Add([]byte(`{"lc":2,"type":"constructor","id":["datetime","datetime"],"args":["2024-04-19T00:00:00+00:00"]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		in := Typed{Kind: KindJSON, Data: data}
		checkStable(t, "JSON", Default(), in)
		checkCost(t, Default(), in)
	})
}

// FuzzEncrypted: bytes that the key did not make are refused, whatever kind
// they are given; bytes it made come back.
func FuzzEncrypted(f *testing.F) {
	for _, g := range loadGoldens(f).Encrypted {
		f.Add(g.Kind, unhex(f, g.Hex))
	}
	f.Add("null+aes-gcm", []byte{})
	f.Add("msgpack", []byte{0xc0})
	eax, gcm := newEncrypted(f, EncryptedOptions{}), newEncrypted(f, EncryptedOptions{Cipher: CipherAESGCM})
	f.Fuzz(func(t *testing.T, kind string, data []byte) {
		if v, err := eax.Decode(Typed{Kind: kind, Data: data}); err == nil || v != nil {
			t.Fatalf("%q, %x accepted as %v", kind, data, v)
		} else if !errors.Is(err, ErrDecrypt) && !errors.Is(err, ErrPlaintext) && !errors.Is(err, ErrCipher) {
			t.Fatal(err)
		}
		for _, s := range []*Encrypted{eax, gcm} {
			sealed, err := s.Encode(data)
			if err != nil {
				t.Fatal(err)
			}
			v, err := s.Decode(sealed)
			if got, ok := v.([]byte); err != nil || !ok || !bytes.Equal(got, data) {
				t.Fatalf("%s: %x came back as %v, %v", sealed.Kind, data, v, err)
			}
		}
	})
}
