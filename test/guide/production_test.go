package guide

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/stele-go/stele/postgres"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
)

// ownSaver is closed in the end.
type ownSaver interface {
	saver.Saver
	Close() error
}

func openSaver(ctx context.Context, dir, url string) (ownSaver, error) {
	if url == "" {
		return disk.Open(dir, disk.Options{})
	}
	if err := postgres.Setup(ctx, url, postgres.Options{}); err != nil {
		return nil, err
	}
	return postgres.Open(ctx, url, postgres.Options{})
}

// TestOneVariableChoosesTheStore: without the URL of a database it is the directory; with one, the directory is not made.
func TestOneVariableChoosesTheStore(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	for _, url := range []string{"no URL of a database ://", ""} {
		s, err := openSaver(t.Context(), dir, url)
		if (err == nil) != (url == "") {
			t.Fatalf("%q: %v", url, err)
		}
		made, _ := filepath.Glob(filepath.Join(dir, "*"))
		if (len(made) > 0) != (url == "") {
			t.Errorf("%q: the directory has %q", url, made)
		}
		if err == nil {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}
