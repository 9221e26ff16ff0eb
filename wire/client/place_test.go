//go:build unix

package client_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/wire/client"
)

// TestPlaceIsAFile: a pipe in the place of the file by which a server is found, or of its token, is refused: nobody
// waits until somebody writes to it.
func TestPlaceIsAFile(t *testing.T) {
	for _, name := range []string{"serve.json", "serve.token"} {
		dir := t.TempDir()
		if name == "serve.token" {
			if err := os.WriteFile(filepath.Join(dir, "serve.json"), []byte(`{"protocol":1,"address":"tcp:127.0.0.1:1","token_file":"serve.token"}`), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := syscall.Mkfifo(filepath.Join(dir, name), 0o600); err != nil {
			t.Fatal(err)
		}
		c := client.Dir(dir, client.Options{Retry: time.Nanosecond})
		failed := make(chan error, 1)
		go func() {
			_, err := c.GetTuple(t.Context(), saver.Config{ThreadID: "t"})
			failed <- err
		}()
		select {
		case err := <-failed:
			if !errors.Is(err, fault.ErrNotRegular) {
				t.Errorf("%s: %v", name, err)
			}
		case <-time.After(20 * time.Second): // it waits for ever
			t.Fatalf("%s: the pipe is opened", name)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}
