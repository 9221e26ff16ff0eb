package engine

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/metrics"
	"github.com/stele-go/stele/base/seal"
	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/snapshot"
)

// readManifest returns the options for reading the manifest.
func (e *Engine) readManifest() []snapshot.ReadOption {
	opts := []snapshot.ReadOption{snapshot.WithKeys(e.Keys)}
	if e.Opts.EncryptExisting {
		opts = append(opts, snapshot.AllowPlain())
	}
	return opts
}

// writeManifest returns the options for writing the manifest.
func (e *Engine) writeManifest() snapshot.Options {
	return snapshot.Options{Rand: e.Opts.Rand, Keys: e.Keys, Adopt: e.Opts.EncryptExisting}
}

// useKeys makes the keys those of the store st. plain: its manifest is not
// encrypted, so none of its files is.
func (e *Engine) useKeys(st snapshot.State, plain bool) {
	below := st.PlainBelow()
	if plain {
		below = st.NextFileNum
	}
	e.Files.Keys = e.Keys.Keyring(st.StoreID, below)
}

// checkKeys opens every file of the store, to learn under which keys they are encrypted. It fails if
// the provider does not have one of the keys, or if a file that must be encrypted is not. Damage is no
// error here: whoever reads the file gets it.
func (e *Engine) checkKeys() error {
	if e.Keys == nil {
		return nil
	}
	if _, err := e.Keys.CurrentID(); err != nil && !e.Opts.ReadOnly {
		return err
	}
	for _, n := range e.Files.numbers() {
		h, err := e.Files.Acquire(n)
		if errors.Is(err, fault.ErrKey) {
			return err
		}
		if err == nil {
			e.Files.Release(h)
		}
	}
	return nil
}

// encryption counts the files by key.
func (e *Engine) encryption() *metrics.Encryption {
	if e.Keys == nil {
		return nil
	}
	c := e.Files.keyIDs()
	if e.manifest != nil {
		c.Files[e.manifest.KeyID()]++
	} else {
		c.Files[e.manifestKey]++
	}
	return c
}

// findStoreID takes the id of the store from the first file that tells it, for a
// store whose manifest is lost.
func (e *Engine) findStoreID(st snapshot.State) uint64 {
	for _, name := range FileNames(st) {
		f, err := e.Opts.FS.Open(filepath.Join(e.Dir, name))
		if err != nil {
			continue
		}
		info, err := inspectFile(f, name)
		_ = f.Close() // only read from
		if err == nil {
			return info.StoreID
		}
	}
	return 0
}

// sealedPlace returns the place in the log of the bytes at offset at of a payload. In an encrypted file
// off is the payload's place and inner the offset of the bytes in it, which is never 0, as a record
// begins with its format. In a plain file off is the place of the bytes.
func sealedPlace(sealed bool, payload, at int64) (off uint64, inner uint32) {
	if sealed {
		return uint64(payload), uint32(at)
	}
	return uint64(payload + at), 0
}

// inspectFile reads the encryption header of a file.
func inspectFile(f vfs.File, name string) (seal.Info, error) {
	head := make([]byte, seal.FileHeaderSize+seal.HeaderSize)
	n, err := f.ReadAt(head, 0)
	if n < len(head) && err != nil && !errors.Is(err, io.EOF) {
		return seal.Info{}, fmt.Errorf("read header of %s: %w", name, err)
	}
	return seal.Inspect(name, head[:seal.FileHeaderSize], head[seal.FileHeaderSize:max(n, seal.FileHeaderSize)])
}

// KeyringOf returns the keys for reading one file by itself, whatever store it is of. It trusts the
// file's own header, which does not prove that the file belongs to a store. nil without a provider.
func KeyringOf(f vfs.File, name string, p seal.KeyProvider) *seal.Keyring {
	info, _ := inspectFile(f, name) // a file without encryption needs none
	return seal.New(p, nil).Keyring(info.StoreID, ^base.FileNum(0))
}
