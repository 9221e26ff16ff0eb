package seal

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strings"
)

// maxKeyFile bounds what LoadKeyFile reads.
const maxKeyFile = 1 << 20

// ErrKeyFileOpen says that not only its owner may read or change a key file.
var ErrKeyFileOpen = errors.New("others may access the key file; chmod 600 it")

// LoadKeyFile reads keys from a text file. Each line has the id of a key, spaces, and the key as
// 64 hexadecimal digits; the last one is the current key. Empty lines and lines that begin
// with # are skipped. On systems with Unix permissions a file that group or others may access
// is refused with ErrKeyFileOpen. No error shows any part of a key. The file is read once.
func LoadKeyFile(name string) (KeyProvider, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("key file: %w", err)
	}
	defer func() { _ = f.Close() }() // only read from
	// Of the open file, as the name may lead to another one by now.
	st, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("key file: %w", err)
	}
	if runtime.GOOS != "windows" && st.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("key file %s has mode %v: %w", name, st.Mode().Perm(), ErrKeyFileOpen)
	}
	if !st.Mode().IsRegular() || st.Size() > maxKeyFile {
		return nil, fmt.Errorf("key file %s: %w: not a small regular file", name, fs.ErrInvalid)
	}
	text := make([]byte, st.Size())
	if n, err := f.ReadAt(text, 0); err != nil || n != len(text) {
		return nil, fmt.Errorf("key file %s: read %d of %d bytes: %w", name, n, len(text), err)
	}
	p, err := ParseKeys(text)
	if err != nil {
		return nil, fmt.Errorf("key file %s: %w", name, err)
	}
	return p, nil
}

// ParseKeys reads keys from the text that LoadKeyFile describes.
func ParseKeys(text []byte) (KeyProvider, error) {
	keys, current := map[string][]byte{}, ""
	n := 0
	for line := range bytes.Lines(text) {
		n++
		fields := strings.Fields(string(line))
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		if len(fields) != 2 {
			return nil, fmt.Errorf("line %d: %d words; it needs an id and a key", n, len(fields))
		}
		if _, dup := keys[fields[0]]; dup {
			return nil, fmt.Errorf("line %d: key %q is there twice", n, fields[0])
		}
		key, err := hex.DecodeString(fields[1])
		if err != nil {
			// The cause would quote the key.
			return nil, fmt.Errorf("line %d: the key is not hexadecimal", n)
		}
		if err := checkKey(fields[0], key); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		keys[fields[0]], current = key, fields[0]
	}
	if len(keys) == 0 {
		return nil, errors.New("no key")
	}
	return staticKeys{current, keys}, nil
}
