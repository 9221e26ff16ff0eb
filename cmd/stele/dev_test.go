package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stele-go/stele/base/port"
)

// shared is an output that several goroutines write.
type shared struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *shared) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(b)
}

func (s *shared) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// A program is built again when its source changes, goes on while the source does not build,
// and its state, in a file here, survives.
func TestDev(t *testing.T) {
	free, err := port.Free()
	if err != nil {
		t.Fatal(err)
	}
	serves := fmt.Sprint("127.0.0.1:", free)
	dir, state := t.TempDir(), filepath.Join(t.TempDir(), "state")
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	const program = `package main

import ("net/http"; "os"; "os/signal"; "syscall")

func main() {
	f, _ := os.OpenFile(os.Args[2], os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	f.WriteString(version)
	http.HandleFunc("/info", func(w http.ResponseWriter, r *http.Request) { b, _ := os.ReadFile(os.Args[2]); w.Write(b) })
	go func() { panic(http.ListenAndServe(os.Args[1], nil)) }()
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM)
	<-end
	f.WriteString(".")
}
`
	write("go.mod", "module example.org/dev\n\ngo 1.25.0\n")
	write("main.go", program)
	write("version.go", `package main; const version = "one"`)

	ctx, cancel := context.WithCancel(context.Background())
	var out, errs shared
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, []string{"dev", dir, "--listen", "127.0.0.1:0", "--url", "http://" + serves, "--", serves, state}, &out, &errs)
	}()
	defer func() { cancel(); <-code }()
	until := func(what string, ok func() bool) {
		t.Helper()
		for i := 0; !ok(); i++ {
			if i == 3600 { // a busy machine compiles net/http first
				t.Fatalf("never: %s\n%s%s", what, out.String(), errs.String())
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
	var at string
	until("the page", func() bool {
		at = strings.TrimSpace(strings.TrimPrefix(out.String(), "studio at "))
		return at != ""
	})
	says := func(want string) func() bool {
		return func() bool { _, text := ask(t, "GET", at+"/api/info", ""); return text == want }
	}
	until("the first version", says("one"))
	write("version.go", `package main; const version = two`)
	until("the mistake", func() bool { return strings.Contains(errs.String(), "does not build") })
	if !says("one")() {
		t.Error("the program did not go on")
	}
	write("version.go", `package main; const version = "two"`)
	until("the second version, after an orderly end of the first", says("one.two"))
	until("that it builds again", func() bool { return strings.Contains(errs.String(), "the source builds again") })
	cancel()
	if c := <-code; c != exitDone {
		t.Errorf("ended with code %d: %s", c, errs.String())
	}
	if said := errs.String(); !strings.Contains(said, "is kept, and the same command continues with it") || strings.Contains(said, "something answers") {
		t.Errorf("at its end it says %s", said)
	}
	code <- 0
	if text, err := os.ReadFile(state); err != nil || string(text) != "one.two." {
		t.Errorf("the program left %q, %v", text, err)
	}
}

// TestAddressThatIsTaken: where an address is in use, each command names the flag that changes it.
func TestAddressThatIsTaken(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer taken.Close()
	at := taken.Addr().String()
	w := newWorld(t)
	w.fixture()
	for _, c := range []struct {
		args  []string
		words []string
	}{
		{[]string{"studio", "--listen", at, w.dir}, []string{"--listen names another address"}},
		{[]string{"dev", "--listen", at, "--url", "http://" + at, t.TempDir()}, []string{"--listen names another address", "something answers at http://" + at, "--url"}},
		{[]string{"serve", "--listen", "tcp:" + at, w.dir}, []string{"--listen tcp:" + at}},
		{[]string{"serve", "--metrics", at, w.dir}, []string{"--metrics names another address"}},
	} {
		_, stderr, code := stele(t, c.args...)
		for _, words := range c.words {
			if code != exitFailed || !strings.Contains(stderr, words) {
				t.Errorf("stele %q: exit code %d, %s; want %q", c.args, code, stderr, words)
			}
		}
	}
}
