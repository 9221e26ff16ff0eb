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

// ErrNoKey is what a provider returns, wrapped or not, for an id it does not
// have.
var ErrNoKey = errors.New("no such key")

// KeyProvider gives master keys. Its methods may be called concurrently and
// may take as long as a key service takes; a key is asked for once in the life
// of an open store, the current id for each new file.
type KeyProvider interface {
	// CurrentKeyID names the key for new files: 1 to 128 printable ASCII
	// characters without spaces. An id stands for the same key for ever.
	CurrentKeyID() (string, error)
	// Key returns the key of an id, 32 bytes, or an error that matches ErrNoKey
	// if there is none. The caller does not change it.
	Key(id string) ([]byte, error)
}

// StaticKeys is a provider of keys held in memory. keys maps ids to keys of 32
// random bytes, current names the one for new files. It fails if the current
// key is missing or if an id or a key is malformed.
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

// checkKey refuses what no file could be sealed with.
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
