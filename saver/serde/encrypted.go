package serde

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// Errors of the encrypting serializer, matched with errors.Is.
var (
	// ErrKey: no key was given, or one that is not 16, 24 or 32 bytes long.
	ErrKey = errors.New("AES key must be 16, 24 or 32 bytes")
	// ErrCipher: a cipher this package does not know.
	ErrCipher = errors.New("unknown cipher")
	// ErrDecrypt: the bytes were not made with this key, or were changed since.
	// The two cannot be told apart.
	ErrDecrypt = errors.New("wrong key or damaged data")
	// ErrPlaintext: the value is not encrypted, but only encrypted values are accepted.
	// Otherwise somebody without the key who can write to the store could replace
	// values.
	ErrPlaintext = errors.New("value is not encrypted")
)

// Ciphers by the name that stands in the kind, after the plus sign.
const (
	// CipherAES is AES-EAX as LangGraph writes it: nonce (16 bytes), tag (16),
	// ciphertext. The kind is not authenticated: "bytes+aes" can be turned into
	// "msgpack+aes" unnoticed.
	CipherAES = "aes"
	// CipherAESGCM is AES-GCM: nonce (12 bytes), ciphertext, tag (16); the kind
	// is authenticated with it. Faster, and no LangGraph reads it.
	CipherAESGCM = "aes-gcm"
)

// KeyVariable is the environment variable NewEncrypted takes the key from, as
// LangGraph does: its bytes are the key, not hexadecimal digits.
const KeyVariable = "LANGGRAPH_AES_KEY"

// EncryptedOptions configure NewEncrypted.
type EncryptedOptions struct {
	// Key is 16, 24 or 32 bytes. Nil means the value of KeyVariable.
	Key []byte
	// Cipher is what Encode uses; empty is CipherAES. Decode reads both.
	Cipher string
	// AllowPlaintext makes Decode accept values that are not encrypted, as LangGraph does.
	// Use it while an old store still has some.
	AllowPlaintext bool
	// Rand is where nonces come from; nil is crypto/rand. A nonce that repeats
	// gives the plaintext away, so anything else is for tests.
	Rand io.Reader
}

// Encrypted is a Serializer that encrypts what another one writes. Its kinds
// are "<inner kind>+<cipher>". Nil values are encrypted too. Encode of equal
// values gives different bytes each time, so a store cannot share or patch them. Encryption by
// the store itself does not have this disadvantage.
//
// It is safe for concurrent use if the inner Serializer and Rand are.
type Encrypted struct {
	inner Serializer
	opts  EncryptedOptions
	eax   *eax
	gcm   cipher.AEAD
}

var _ Serializer = (*Encrypted)(nil)

// NewEncrypted wraps inner; nil means Default. It returns ErrKey or ErrCipher
// if the options do not give a usable key or cipher. The key is not kept.
func NewEncrypted(inner Serializer, opts EncryptedOptions) (*Encrypted, error) {
	key := opts.Key
	if key == nil {
		env, ok := os.LookupEnv(KeyVariable)
		if !ok {
			return nil, fmt.Errorf("encrypt values: no key given, and %s is not set: %w", KeyVariable, ErrKey)
		}
		key = []byte(env)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("encrypt values: key of %d bytes: %w", len(key), ErrKey)
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		return nil, fmt.Errorf("encrypt values: %w", err)
	}
	switch opts.Cipher {
	case "":
		opts.Cipher = CipherAES
	case CipherAES, CipherAESGCM:
	default:
		return nil, fmt.Errorf("encrypt values with %q: %w", opts.Cipher, ErrCipher)
	}
	if opts.Rand == nil {
		opts.Rand = rand.Reader
	}
	if inner == nil {
		inner = Default()
	}
	opts.Key = nil
	return &Encrypted{inner: inner, opts: opts, eax: newEAX(block), gcm: gcm}, nil
}

// Encode implements Serializer. It fails if the inner Serializer fails, or if Rand does.
func (s *Encrypted) Encode(v any) (Typed, error) {
	t, err := s.inner.Encode(v)
	if err != nil {
		return Typed{}, err
	}
	kind := t.Kind + "+" + s.opts.Cipher
	size := aes.BlockSize
	if s.opts.Cipher == CipherAESGCM {
		size = s.gcm.NonceSize()
	}
	nonce := make([]byte, size, size+len(t.Data)+s.gcm.Overhead())
	if _, err := io.ReadFull(s.opts.Rand, nonce); err != nil {
		return Typed{}, fmt.Errorf("encrypt %s: draw a nonce: %w", t.Kind, err)
	}
	if s.opts.Cipher == CipherAESGCM {
		return Typed{Kind: kind, Data: s.gcm.Seal(nonce, nonce, t.Data, []byte(kind))}, nil
	}
	return Typed{Kind: kind, Data: s.eax.seal(nonce, t.Data)}, nil
}

// Decode implements Serializer. It returns ErrPlaintext for a value that is not
// encrypted, unless that is allowed, ErrCipher for a cipher it does not know,
// and ErrDecrypt for bytes that this key did not make.
func (s *Encrypted) Decode(t Typed) (any, error) {
	inner, err := s.decrypt(t)
	if err != nil {
		return nil, err
	}
	return s.inner.Decode(inner)
}

// DecodeInto implements Serializer; its errors are those of Decode and of the
// inner DecodeInto.
func (s *Encrypted) DecodeInto(t Typed, dst any) error {
	inner, err := s.decrypt(t)
	if err != nil {
		return err
	}
	return s.inner.DecodeInto(inner, dst)
}

func (s *Encrypted) decrypt(t Typed) (Typed, error) {
	kind, name, encrypted := cutKind(t.Kind)
	if !encrypted {
		if !s.opts.AllowPlaintext {
			return Typed{}, fmt.Errorf("decrypt %q: %w", t.Kind, ErrPlaintext)
		}
		return t, nil
	}
	switch name {
	case CipherAES:
		if plain, ok := s.eax.open(t.Data); ok {
			return Typed{Kind: kind, Data: plain}, nil
		}
	case CipherAESGCM:
		if n := s.gcm.NonceSize(); len(t.Data) >= n {
			plain, err := s.gcm.Open(nil, t.Data[:n], t.Data[n:], []byte(t.Kind))
			if err == nil {
				return Typed{Kind: kind, Data: plain}, nil
			}
		}
	default:
		return Typed{}, fmt.Errorf("decrypt %q: %w: %q", t.Kind, ErrCipher, name)
	}
	return Typed{}, fmt.Errorf("decrypt %q: %w", t.Kind, ErrDecrypt)
}

// cutKind splits "msgpack+aes" at the first plus sign.
func cutKind(kind string) (inner, cipherName string, encrypted bool) {
	return strings.Cut(kind, "+")
}
