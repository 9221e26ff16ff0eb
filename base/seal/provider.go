package seal

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"strings"
)

// KeySize is the length of a master key in bytes.
const KeySize = 32

// MaxKeyID is the longest id of a key in bytes.
const MaxKeyID = 128

// ErrNoKey is the error of a KeyProvider, wrapped or not, for an id that it does not have.
var ErrNoKey = errors.New("no such key")

// KeyProvider has the master keys. Its methods may be called concurrently, and may take as long
// as a key service takes. An open store asks once for each key, and for the current id at
// each new file.
type KeyProvider interface {
	// CurrentKeyID is the id of the key for new files, of 1 to 128 printable ASCII
	// characters without spaces. An id must always stand for the same key.
	CurrentKeyID() (string, error)
	// Key returns the key with this id, of 32 bytes, or an error that matches ErrNoKey. The
	// caller does not change the key.
	Key(id string) ([]byte, error)
}

// StaticKeys returns a provider for keys in memory. keys maps ids to keys of 32 random bytes;
// current is the id of the key for new files. It fails if the current key is missing, or if
// an id or a key is malformed.
func StaticKeys(current string, keys map[string][]byte) (KeyProvider, error) {
	for id, k := range keys {
		if err := checkKey(id, k); err != nil {
			return nil, err
		}
	}
	if _, ok := keys[current]; !ok {
		return nil, fmt.Errorf("current key %q: %w", current, ErrNoKey)
	}
	own := maps.Clone(keys)
	for id, k := range own {
		own[id] = bytes.Clone(k)
	}
	return staticKeys{current, own}, nil
}

type staticKeys struct {
	current string
	keys    map[string][]byte
}

// CurrentKeyID implements KeyProvider.
func (s staticKeys) CurrentKeyID() (string, error) { return s.current, nil }

// Key implements KeyProvider.
func (s staticKeys) Key(id string) ([]byte, error) {
	k, ok := s.keys[id]
	if !ok {
		return nil, ErrNoKey
	}
	return k, nil
}

// checkKey refuses a malformed id or key.
func checkKey(id string, key []byte) error {
	if err := checkKeyID(id); err != nil {
		return err
	}
	if len(key) != KeySize {
		return fmt.Errorf("key %q has %d bytes; it needs %d", id, len(key), KeySize)
	}
	if bytes.Count(key, []byte{0}) == KeySize {
		return fmt.Errorf("key %q is all zeros", id)
	}
	return nil
}

func checkKeyID(id string) error {
	if len(id) == 0 || len(id) > MaxKeyID {
		return fmt.Errorf("key id of %d characters; it needs 1 to %d", len(id), MaxKeyID)
	}
	if strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return fmt.Errorf("key id %q: only printable ASCII characters without spaces", id)
	}
	return nil
}
