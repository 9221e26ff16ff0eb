package seal

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"sync"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
)

// Keys are the keys of one open store. All methods may be called concurrently.
// A nil *Keys stands for a store without encryption.
type Keys struct {
	provider KeyProvider
	entropy  func([]byte)

	mu    sync.Mutex
	cache map[string][]byte // master keys by id
}

// New returns the keys of a provider; nil if the provider is nil. entropy fills a slice with
// random bytes for salts and nonces. nil means crypto/rand; nothing else is safe outside of
// tests.
func New(p KeyProvider, entropy func([]byte)) *Keys {
	if p == nil {
		return nil
	}
	if entropy == nil {
		entropy = func(b []byte) { _, _ = rand.Read(b) } // never fails; it ends the process instead
	}
	return &Keys{provider: p, entropy: entropy, cache: map[string][]byte{}}
}

// master returns the key of an id. file is for the error, a *fault.KeyError.
func (k *Keys) master(file, id string) ([]byte, error) {
	k.mu.Lock()
	key, ok := k.cache[id]
	k.mu.Unlock()
	if ok {
		return key, nil
	}
	key, err := k.provider.Key(id)
	if err == nil {
		err = checkKey(id, key)
	}
	if err != nil {
		return nil, &fault.KeyError{File: file, KeyID: id, Problem: fault.KeyUnavailable, Err: err}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.cache[id] = bytes.Clone(key)
	return key, nil
}

// CurrentID is the id of the key for new files. Errors: *fault.KeyError.
func (k *Keys) CurrentID() (string, error) {
	id, err := k.provider.CurrentKeyID()
	if err == nil {
		err = checkKeyID(id)
	}
	if err != nil {
		return "", &fault.KeyError{KeyID: id, Problem: fault.KeyUnavailable, Err: err}
	}
	return id, nil
}

// Keyring makes and finds the keys of the files of one store. A nil *Keyring stands
// for a store without encryption.
type Keyring struct {
	keys       *Keys
	id         uint64
	plainBelow base.FileNum
}

// Keyring returns the keyring of the store id. Files with numbers below plainBelow may be
// without encryption, because they are older.
func (k *Keys) Keyring(id uint64, plainBelow base.FileNum) *Keyring {
	if k == nil {
		return nil
	}
	return &Keyring{keys: k, id: id, plainBelow: plainBelow}
}

// Keys returns the keys that r was made of, nil for a nil r.
func (r *Keyring) Keys() *Keys {
	if r == nil {
		return nil
	}
	return r.keys
}

// Create makes the key of a new file, from the current master key and the file's header head,
// and the encryption header that goes behind head. Both are nil without encryption. The only
// error is a *fault.KeyError, in which name is the file.
func (r *Keyring) Create(name string, head []byte) (*File, []byte, error) {
	if r == nil {
		return nil, nil, nil
	}
	id, err := r.keys.CurrentID()
	if err != nil {
		return nil, nil, fmt.Errorf("encrypt %s: %w", name, err)
	}
	master, err := r.keys.master(name, id)
	if err != nil {
		return nil, nil, err
	}
	h := header{id: id, store: r.id}
	r.keys.entropy(h.salt[:])
	ext := h.encode()
	f, check, err := derive(master, &h, head, ext)
	if err != nil {
		return nil, nil, err
	}
	finish(ext, head, check)
	f.entropy = r.keys.entropy
	return f, ext, nil
}

// Open returns the key of the file called name with the number num, from its intact header head
// and, if the file is sealed, the encryption header ext. It returns nil for a file without
// encryption, where that is allowed.
//
// Errors are *fault.KeyError if the key is missing or wrong, if there are no keys for an
// encrypted file, or if a file that must be encrypted is not; *fault.CorruptionError, also
// for a file of another store; and *fault.VersionError.
func (r *Keyring) Open(name string, num base.FileNum, sealed bool, head, ext []byte) (*File, error) {
	if !sealed {
		if r != nil && num >= r.plainBelow {
			return nil, &fault.KeyError{File: name, Problem: fault.NotEncrypted}
		}
		return nil, nil
	}
	h, err := decodeHeader(name, head, ext)
	if err != nil {
		return nil, err
	}
	if r == nil {
		return nil, &fault.KeyError{File: name, KeyID: h.id, Problem: fault.KeyRequired}
	}
	if h.store != r.id {
		return nil, &fault.CorruptionError{File: name, Kind: "encryption header", Offset: int64(len(head)), Len: HeaderSize,
			Detail: fmt.Sprintf("the file belongs to store %016x, this one is %016x", h.store, r.id)}
	}
	master, err := r.keys.master(name, h.id)
	if err != nil {
		return nil, err
	}
	f, check, err := derive(master, &h, head, h.encode())
	if err != nil {
		return nil, err
	}
	if subtle.ConstantTimeCompare(check[:], h.check[:]) != 1 {
		return nil, &fault.KeyError{File: name, KeyID: h.id, Problem: fault.KeyWrong}
	}
	f.entropy = r.keys.entropy
	return f, nil
}

// derive makes the file key and the check value from every byte of both headers, so that a
// header that was changed gives another key.
func derive(master []byte, h *header, head, ext []byte) (*File, [checkSize]byte, error) {
	var check [checkSize]byte
	info := string(head) + string(ext[:atCheck])
	key, err := hkdf.Key(sha256.New, master, h.salt[:], "stele file key 1\x00"+info, KeySize)
	if err != nil {
		return nil, check, fmt.Errorf("derive file key: %w", err)
	}
	c, err := hkdf.Key(sha256.New, master, h.salt[:], "stele header check 1\x00"+info, checkSize)
	if err != nil {
		return nil, check, fmt.Errorf("derive header check: %w", err)
	}
	copy(check[:], c)
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, check, fmt.Errorf("file key: %w", err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, check, fmt.Errorf("file key: %w", err)
	}
	if aead.NonceSize() != nonceSize || aead.Overhead() != tagSize {
		return nil, check, errors.New("file key: unexpected sizes of AES-GCM")
	}
	return &File{id: h.id, aead: aead}, check, nil
}
