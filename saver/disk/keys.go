package disk

import (
	"github.com/stele-go/stele/base/seal"
)

// KeyProvider gives the keys of an encrypted store. Its methods may be called
// concurrently and may take as long as a key service takes: a key is asked for
// once in the life of an open store, the current id for each new file.
type KeyProvider interface {
	// CurrentKeyID names the key for new files: 1 to 128 printable ASCII
	// characters without spaces. An id stands for the same key for ever.
	CurrentKeyID() (string, error)
	// Key returns the key of an id, 32 bytes, or an error that matches ErrNoKey
	// if there is none. The caller does not change it.
	Key(id string) ([]byte, error)
}

// ErrNoKey is the error that a KeyProvider returns, wrapped or not, for an id that it does not have.
var ErrNoKey = seal.ErrNoKey

// StaticKeys is a provider of keys held in memory. keys maps ids (1 to 128
// printable ASCII characters without spaces) to keys of 32 random bytes; current
// names the one for new files. An id must stand for the same key for ever.
func StaticKeys(current string, keys map[string][]byte) (KeyProvider, error) {
	return seal.StaticKeys(current, keys)
}

// LoadKeyFile reads keys from a text file: one key a line, its id and 64
// hexadecimal digits with spaces between; the last line is the current key.
// Empty lines and lines that begin with # do not count. On systems with Unix
// permissions a file that group or others may access is refused.
//
//	echo "2026-08 $(openssl rand -hex 32)" >> keys && chmod 600 keys
func LoadKeyFile(name string) (KeyProvider, error) { return seal.LoadKeyFile(name) }
