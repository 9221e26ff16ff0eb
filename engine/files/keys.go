package files

import (
	"errors"
	"fmt"
	"io"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/seal"
	"github.com/stele-go/stele/base/vfs"
)

// Inspect is what the encryption header of a file says.
func Inspect(f vfs.File, name string) (seal.Info, error) {
	head := make([]byte, seal.FileHeaderSize+seal.HeaderSize)
	n, err := f.ReadAt(head, 0)
	if n < len(head) && err != nil && !errors.Is(err, io.EOF) {
		return seal.Info{}, fmt.Errorf("read header of %s: %w", name, err)
	}
	return seal.Inspect(name, head[:seal.FileHeaderSize], head[seal.FileHeaderSize:max(n, seal.FileHeaderSize)])
}

// Keyring are the keys for looking at one file alone, whatever store it is of: as
// the file says, and no proof that it belongs anywhere. nil without a provider.
func Keyring(f vfs.File, name string, p seal.KeyProvider) *seal.Keyring {
	info, _ := Inspect(f, name) // a file without encryption needs none
	return seal.New(p, nil).Keyring(info.StoreID, ^base.FileNum(0))
}
