package serde

import (
	"bytes"
	"encoding/hex"
	"errors"
	"reflect"
	"testing"
)

func newEncrypted(t testing.TB, o EncryptedOptions) *Encrypted {
	t.Helper()
	if o.Key == nil {
		o.Key = []byte("0123456789abcdef")
	}
	s, err := NewEncrypted(nil, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestEncryptedGoldens reads and makes bytes that pycryptodome made for
// LangGraph with the same key and nonce.
func TestEncryptedGoldens(t *testing.T) {
	for _, g := range loadGoldens(t).Encrypted {
		s := newEncrypted(t, EncryptedOptions{Key: unhex(t, g.Key), Rand: bytes.NewReader(unhex(t, g.Nonce))})
		v, err := s.Decode(Typed{Kind: g.Kind, Data: unhex(t, g.Hex)})
		if err != nil {
			t.Errorf("%s: %v", g.Name, err)
			continue
		}
		plain, err := Default().Encode(v)
		if err != nil || hex.EncodeToString(plain.Data) != g.Inner {
			t.Errorf("%s: decrypted to %v (%x), %v; want %s", g.Name, v, plain.Data, err, g.Inner)
		}
		out, err := s.Encode(v)
		if err != nil || out.Kind != g.Kind || hex.EncodeToString(out.Data) != g.Hex {
			t.Errorf("%s: encrypted to %s %x, %v", g.Name, out.Kind, out.Data, err)
		}
	}
}

func TestEncryptedTampering(t *testing.T) {
	for _, name := range []string{CipherAES, CipherAESGCM} {
		s := newEncrypted(t, EncryptedOptions{Cipher: name})
		for _, v := range []any{nil, map[string]any{"a": "secret"}} {
			typed, err := s.Encode(v)
			if err != nil {
				t.Fatal(err)
			}
			for i := range typed.Data {
				bad := Typed{Kind: typed.Kind, Data: bytes.Clone(typed.Data)}
				bad.Data[i] ^= 1 << (i % 8)
				if v, err := s.Decode(bad); !errors.Is(err, ErrDecrypt) || v != nil {
					t.Fatalf("%s: byte %d changed: %v, %v", name, i, v, err)
				}
				bad.Data = typed.Data[:i]
				if _, err := s.Decode(bad); !errors.Is(err, ErrDecrypt) {
					t.Fatalf("%s: cut at %d: %v", name, i, err)
				}
			}
			var m map[string]any
			other := newEncrypted(t, EncryptedOptions{Key: []byte("0123456789abcdeF")})
			if err := other.DecodeInto(typed, &m); !errors.Is(err, ErrDecrypt) || m != nil {
				t.Errorf("%s: wrong key: %v", name, err)
			}
			again, err := s.Encode(v)
			if err != nil || bytes.Equal(again.Data, typed.Data) {
				t.Errorf("%s: the nonce repeats: %v", name, err)
			}
		}
	}
	gcm := newEncrypted(t, EncryptedOptions{Cipher: CipherAESGCM})
	typed, _ := gcm.Encode([]byte{0xc0})
	typed.Kind = "msgpack+aes-gcm"
	if _, err := gcm.Decode(typed); !errors.Is(err, ErrDecrypt) {
		t.Errorf("the kind is not authenticated: %v", err)
	}
}

func TestEncryptedPlaintext(t *testing.T) {
	typed, _ := Default().Encode([]any{"a"})
	closed, open := newEncrypted(t, EncryptedOptions{}), newEncrypted(t, EncryptedOptions{AllowPlaintext: true})
	if v, err := closed.Decode(typed); !errors.Is(err, ErrPlaintext) || v != nil {
		t.Errorf("plaintext accepted: %v, %v", v, err)
	}
	var dst []string
	if err := closed.DecodeInto(typed, &dst); !errors.Is(err, ErrPlaintext) || dst != nil {
		t.Errorf("plaintext accepted: %v, %v", dst, err)
	}
	if v, err := open.Decode(typed); err != nil || !reflect.DeepEqual(v, []any{"a"}) {
		t.Errorf("legacy plaintext: %v, %v", v, err)
	}
	if err := open.DecodeInto(typed, &dst); err != nil || len(dst) != 1 {
		t.Errorf("legacy plaintext: %v, %v", dst, err)
	}
	secret, err := closed.Encode([]any{"a"})
	if err != nil || secret.Kind != "msgpack+aes" {
		t.Fatal(secret.Kind, err)
	}
	if err := closed.DecodeInto(secret, &dst); err != nil || len(dst) != 1 {
		t.Errorf("%v, %v", dst, err)
	}
	for _, kind := range []string{"msgpack+rot13", "msgpack+", "msgpack+aes+aes"} {
		if _, err := closed.Decode(Typed{Kind: kind, Data: secret.Data}); !errors.Is(err, ErrCipher) {
			t.Errorf("%q: %v", kind, err)
		}
	}
	if _, err := closed.Encode(make(chan int)); !errors.Is(err, ErrUnsupported) {
		t.Error(err)
	}
	dry := newEncrypted(t, EncryptedOptions{Rand: bytes.NewReader(nil)})
	if out, err := dry.Encode(1); err == nil || out.Kind != "" {
		t.Errorf("encrypted without a nonce: %v", out)
	}
}

func TestEncryptedOptions(t *testing.T) {
	t.Setenv(KeyVariable, "")
	for _, o := range []EncryptedOptions{{}, {Key: []byte{}}, {Key: make([]byte, 15)}, {Key: make([]byte, 33)}} {
		if _, err := NewEncrypted(nil, o); !errors.Is(err, ErrKey) {
			t.Errorf("key of %d bytes: %v", len(o.Key), err)
		}
	}
	if _, err := NewEncrypted(nil, EncryptedOptions{Key: make([]byte, 16), Cipher: "rot13"}); !errors.Is(err, ErrCipher) {
		t.Error(err)
	}
	t.Setenv(KeyVariable, "0123456789abcdef")
	env, err := NewEncrypted(Default(), EncryptedOptions{})
	if err != nil {
		t.Fatal(err)
	}
	typed, _ := newEncrypted(t, EncryptedOptions{}).Encode("hi")
	if v, err := env.Decode(typed); v != "hi" || err != nil {
		t.Errorf("key from the environment: %v, %v", v, err)
	}
}
