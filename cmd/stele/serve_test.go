package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/wire"
	"github.com/stele-go/stele/wire/client"
)

// servant is a stele serve that runs in this process.
type servant struct {
	address string
	end     func() (stderr string, code int)
}

// lockedBuffer is a buffer that a command writes while a test reads it.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// serve runs stele serve until it is ready, or has ended.
func serve(t *testing.T, args ...string) *servant {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	var stderr lockedBuffer
	ended := make(chan int, 1)
	go func() {
		code := run(ctx, append([]string{"serve"}, args...), w, &stderr)
		_ = w.Close() // for a reader that waits
		ended <- code
	}()
	line, err := bufio.NewReader(r).ReadString('\n')
	s := &servant{address: strings.TrimSpace(strings.TrimPrefix(line, "ready "))}
	code, once := 0, sync.Once{}
	s.end = func() (string, int) {
		once.Do(func() {
			cancel()
			code = <-ended
		})
		return stderr.String(), code
	}
	t.Cleanup(func() { s.end() })
	if err != nil {
		s.address = ""
	}
	return s
}

func dial(t *testing.T, address, token string) *client.Client {
	t.Helper()
	c, err := client.Address(address, client.Options{Token: token})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// TestServe: a store is served, while others look at it and copy it; it is served once, and
// nothing of the server is left when it ends.
func TestServe(t *testing.T) {
	dir, copied, restored := filepath.Join(t.TempDir(), "store"), filepath.Join(t.TempDir(), "copy"), filepath.Join(t.TempDir(), "restored")
	s := serve(t, dir)
	ctx := context.Background()
	c := client.Dir(dir, client.Options{})
	if _, err := c.Put(ctx, saver.Config{ThreadID: "t"}, saver.Checkpoint{V: 4, ID: "1"}, nil, nil); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"verify", "--strict", dir}, {"threads", dir}, {"info", dir}, {"backup", dir, copied}, {"verify", copied}, {"restore", copied, restored}, {"verify", restored}} {
		if out, errs, code := stele(t, args...); code != 0 {
			t.Errorf("%v: exit code %d\n%s%s", args, code, out, errs)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(restored, "serve*")); len(left) > 0 {
		t.Errorf("restored: %v", left)
	}
	if _, errs, code := stele(t, "serve", dir); code != exitLocked || !strings.Contains(errs, " is open in ") {
		t.Errorf("a second server: exit code %d, %q", code, errs)
	}
	if err := c.DeleteThread(ctx, "t"); err != nil {
		t.Errorf("after a second server was refused: %v", err)
	}
	if figures, err := c.Stats(ctx); err != nil || figures["commits"] == 0 {
		t.Errorf("figures %v, %v", figures, err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if errs, code := s.end(); code != 0 || errs != "" {
		t.Errorf("exit code %d, %q", code, errs)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "serve*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestServeRefuses: what cannot be served is refused with one line, and before a file is
// made.
func TestServeRefuses(t *testing.T) {
	strange := t.TempDir()
	if err := os.WriteFile(filepath.Join(strange, "letter"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv(tokenVariable, "")
	empty := t.TempDir()
	for want, args := range map[string][]string{
		"letter":               {strange},
		"--log":                {empty, "--log", "loud"},
		"--sync":               {empty, "--sync", "sometimes"},
		"no directory":         {},
		"--tls-cert":           {empty, "--listen", "tls:127.0.0.1:0"},
		"without a token":      {empty, "--listen", "tcp:127.0.0.1:0"},
		"unix:PATH":            {empty, "--listen", "127.0.0.1:0"},
		"no such file":         {empty, "--token-file", filepath.Join(empty, "token")},
		"a directory is given": {empty, "--postgres", "postgres://nobody"},
	} {
		s := serve(t, args...)
		if errs, code := s.end(); code != exitFailed || !strings.Contains(errs, want) || strings.Count(strings.TrimSpace(errs), "\n") > 0 {
			t.Errorf("%v: exit code %d, %q, want %q", args, code, errs, want)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(empty, "serve*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestServeMoved: a server whose directory is moved away takes no further call, and ends. Its client
// does not go on with the store that another server makes under the old name, whose files stay.
func TestServeMoved(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	moved := dir + ".moved"
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, w := io.Pipe()
	var stderr lockedBuffer
	ended := make(chan int, 1)
	go func() { ended <- run(ctx, []string{"serve", dir}, w, &stderr) }()
	if _, err := bufio.NewReader(r).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	c := client.Dir(dir, client.Options{})
	t.Cleanup(func() { _ = c.Close() }) // it holds nothing
	put := func(c *client.Client, id string) error {
		_, err := c.Put(ctx, saver.Config{ThreadID: "t"}, saver.Checkpoint{V: 4, ID: id}, nil, nil)
		return err
	}
	if err := put(c, "1"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(dir, moved); err != nil {
		t.Fatal(err)
	}
	s := serve(t, dir) // as somebody does at once who does not know
	if err := put(c, "2"); err == nil {
		t.Error("a put into a store that was moved away is acknowledged")
	}
	if err := put(c, "3"); !errors.Is(err, client.ErrOtherStore) {
		t.Errorf("a put into the store that is in its place: %v", err)
	}
	if code := <-ended; code != exitFailed || !strings.Contains(stderr.String(), "no longer") {
		t.Errorf("exit code %d, %q", code, stderr.String())
	}
	if err := put(client.Dir(dir, client.Options{}), "1"); err != nil {
		t.Errorf("the new store, when the server of the old one has ended: %v", err)
	}
	if errs, code := s.end(); code != 0 {
		t.Errorf("the new server: exit code %d, %s", code, errs)
	}
	if left, _ := filepath.Glob(filepath.Join(moved, "serve*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if s := serve(t, moved); s.address == "" {
		t.Error("the store cannot be served where it is now")
	}
	out, _, _ := stele(t, "show", moved, "t", "--history", "9", "--json")
	if !strings.Contains(out, `"1"`) || strings.Contains(out, `"2"`) || strings.Contains(out, `"3"`) {
		t.Errorf("the store that was moved away: %s", out)
	}
}

// TestServeToken: over TCP the token of a file is asked for, and the directory says where the
// server is.
func TestServeToken(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "store")
	s := serve(t, dir, "--listen", "tcp:127.0.0.1:0", "--token-file", token)
	ctx := context.Background()
	if err := dial(t, s.address, "secret").DeleteThread(ctx, "t"); err != nil {
		t.Error(err)
	}
	if err := dial(t, s.address, "").DeleteThread(ctx, "t"); !errors.Is(err, wire.ErrAuth) {
		t.Errorf("without a token: %v", err)
	}
	c := client.Dir(dir, client.Options{Token: "secret"})
	if err := c.DeleteThread(ctx, "t"); err != nil {
		t.Error(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// TestServeMetrics: metrics and health are served where --metrics says.
func TestServeMetrics(t *testing.T) {
	port := regexp.MustCompile(`msg=metrics address=(\S+)`)
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	var stderr lockedBuffer
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, []string{"serve", filepath.Join(t.TempDir(), "store"), "--metrics", "127.0.0.1:0", "--log", "info"}, w, &stderr)
	}()
	if _, err := bufio.NewReader(r).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	m := port.FindStringSubmatch(stderr.String())
	if m == nil {
		t.Fatalf("no address in %q", stderr.String())
	}
	for path, want := range map[string]string{"/metrics": "stele_log_records", "/healthz": "ok"} {
		resp, err := http.Get("http://" + m[1] + path)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(resp.Body)
		if err = errors.Join(err, resp.Body.Close()); err != nil || resp.StatusCode != http.StatusOK || !strings.Contains(string(b), want) {
			t.Errorf("%s: %d, %v, %.200s", path, resp.StatusCode, err, b)
		}
	}
	cancel()
	if code := <-ended; code != 0 {
		t.Errorf("exit code %d, %s", code, stderr.String())
	}
}
