package modules

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// workspaceMain is a program of somebody who has a checkout.
const workspaceMain = `package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/stele-go/stele/agent/providers/schema"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/server"
	"github.com/stele-go/stele/store"
)

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}

func main() {
	must(schema.Tool("double", "", func(_ context.Context, in struct{ N int }) (int, error) { return 2 * in.N, nil }))
	s := must(disk.Open("data", disk.Options{}))
	items := must(store.On(s, store.Options{}))
	queue := must(runs.NewLocal(context.Background(), items, runs.LocalOptions{}))
	api := must(server.New(server.Config{Graphs: map[string]*pregel.Graph{}, Saver: s, Store: items, Queue: queue, Auth: server.NoAuth()}))
	l := httptest.NewServer(api)
	defer l.Close()
	answer := must(http.Get(l.URL + "/ok"))
	fmt.Println(answer.StatusCode, string(must(io.ReadAll(answer.Body))))
}
`

// TestWorkspace: what README.md says to paste, and nothing else, lets a program outside of the
// tree import stele and modules beside it from a checkout, and the Dockerfile of docs/server.md builds it. For
// another module Go gives the error that README.md tells of, and what it says there helps.
func TestWorkspace(t *testing.T) {
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	paste := regexp.MustCompile("(?m)^```\n(go mod init [^`]*^go work init [^`]*)^```$").FindSubmatch(readme)
	if paste == nil {
		t.Fatal("README.md has no block of go mod init and go work init")
	}
	checkout, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	beside := t.TempDir()
	app := filepath.Join(beside, "agent")
	if err := os.Symlink(checkout, filepath.Join(beside, "stele")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(app, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(app, "main.go"), []byte(workspaceMain))
	run := func(script string) ([]byte, error) {
		cmd := exec.Command("sh", "-ec", script)
		cmd.Dir = app
		// Without -trimpath every run would compile all of it anew, for its own directory.
		cmd.Env = append(os.Environ(), "GOWORK=", "GOFLAGS=-trimpath", "CGO_ENABLED=0")
		return cmd.CombinedOutput()
	}
	out, err := run(string(paste[1]) + "go run .\n")
	if want := regexp.MustCompile(`(?m)^200 \{"ok":true\b`); err != nil || !want.Match(out) {
		t.Fatalf("%v\n%s", err, out)
	}
	buildImage(t, beside)
	says := regexp.MustCompile("If Go says `(.* package (.*))`, then `(go work use .*?)`").FindSubmatch(readme)
	if says == nil {
		t.Fatal("README.md does not say what to do about a module that is not in the workspace")
	}
	write(t, filepath.Join(app, "main.go"), fmt.Appendf(nil, "package main\n\nimport _ %q\n\nfunc main() {}\n", says[2]))
	if out, err := run("go list -deps ."); err == nil || !strings.Contains(string(out), string(says[1])) {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := run(string(says[3]) + "\ngo list -deps ."); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// buildImage does what the first stage of the Dockerfile in docs/server.md does, with the directory as its context.
func buildImage(t *testing.T, beside string) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "server.md"))
	if err != nil {
		t.Fatal(err)
	}
	file := regexp.MustCompile("(?s)```dockerfile\nFROM golang[^\n]*\n(.*?)\n\nFROM ").FindSubmatch(page)
	if file == nil {
		t.Fatal("docs/server.md has no Dockerfile of two stages")
	}
	image := t.TempDir()
	at, built := image, ""
	for _, line := range strings.Split(string(file[1]), "\n") {
		what, rest, _ := strings.Cut(line, " ")
		switch words := strings.Fields(rest); what {
		case "WORKDIR":
			at = filepath.Join(image, rest)
			if err := os.MkdirAll(at, 0o755); err != nil {
				t.Fatal(err)
			}
		case "COPY":
			from, err := filepath.EvalSymlinks(filepath.Join(beside, words[0]))
			if err == nil {
				err = os.Symlink(from, filepath.Join(at, words[1]))
			}
			if err != nil {
				t.Fatal(err)
			}
		case "RUN":
			built = filepath.Join(image, words[slices.Index(words, "-o")+1])
			cmd := exec.Command("sh", "-ec", strings.ReplaceAll(rest, " -o /", " -o "+image+"/"))
			cmd.Dir, cmd.Env = at, append(os.Environ(), "GOWORK=", "GOFLAGS=")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%s: %v\n%s", line, err, out)
			}
		default:
			t.Fatalf("%q is no line that this test knows", line)
		}
	}
	if st, err := os.Stat(built); err != nil || st.Mode()&0o111 == 0 {
		t.Fatalf("%s is no program: %v", built, err)
	}
}
