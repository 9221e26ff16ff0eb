package server

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"testing"
)

// TestLinkIsNotFollowed: a link that the owner of a directory plants where the server is about to
// write leads it nowhere.
func TestLinkIsNotFollowed(t *testing.T) {
	dir, elsewhere := t.TempDir(), filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(elsewhere, []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	planted := filepath.Join(dir, InfoName+".tmp")
	if err := os.Symlink(elsewhere, planted); err != nil {
		t.Skip("this system makes no links:", err)
	}
	e := &Endpoint{}
	if err := e.hold(dir); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Close() }()
	if _, err := e.create(InfoName + ".tmp"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("made through a link: %v", err)
	}
	// What was planted before is removed, and nothing else.
	if err := e.write(InfoName, []byte("new")); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{elsewhere: "kept", filepath.Join(dir, InfoName): "new"} {
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("%s holds %q, %v", path, got, err)
		}
	}
	if st, err := os.Lstat(filepath.Join(dir, InfoName)); err != nil || !st.Mode().IsRegular() {
		t.Errorf("%s is no file: %v", InfoName, err)
	}
}

// TestEndpointAfterClose: what was closed announces itself nowhere, and takes no client.
func TestEndpointAfterClose(t *testing.T) {
	dir := t.TempDir()
	for name, listen := range map[string]func() (*Endpoint, error){
		"in a directory": func() (*Endpoint, error) { return ListenDir(dir) },
		"elsewhere":      func() (*Endpoint, error) { return ListenAt("tcp:127.0.0.1:0", "token", nil) },
	} {
		e, err := listen()
		if err == nil {
			err = e.Close()
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := e.Announce(dir); !errors.Is(err, net.ErrClosed) {
			t.Errorf("%s: it announces itself: %v", name, err)
		}
		if _, err := e.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("%s: it accepts: %v", name, err)
		}
		if err := e.Close(); err != nil {
			t.Errorf("%s: closed again: %v", name, err)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("%s: left %v, %v", name, left, err)
		}
	}
}
