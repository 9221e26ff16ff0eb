package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// goWords are Go's, and those of its libraries: who types a command writes another language.
var goWords = regexp.MustCompile(`%!|\bnil\b|\bstruct\b|reflect|unmarshal|\bstrconv\.|\bParse(Int|Uint|Bool|Float)\b|invalid syntax|goroutine|interface ?\{|map\[|context (deadline|canceled)|RunOptions|[a-z]+\.(Err|Option)[A-Z]|\*[a-z]+\.[A-Z]|\b(disk|engine|wal|snapshot|segment|saver|store|pregel)\.[A-Z]\w+`)

// TestWordsOfCommands: whatever a command is given, and whatever lies where it looks, what it says is in words
// of the shell.
func TestWordsOfCommands(t *testing.T) {
	good := newWorld(t)
	good.fixture()
	t.Chdir(t.TempDir())
	places := map[string]func(t *testing.T) string{
		"nothing": func(t *testing.T) string { return filepath.Join(t.TempDir(), "missing") },
		"a file": func(t *testing.T) string {
			path := filepath.Join(t.TempDir(), "file")
			must(t, os.WriteFile(path, []byte("x"), 0o600))
			return path
		},
		"something else": func(t *testing.T) string {
			dir := t.TempDir()
			must(t, os.WriteFile(filepath.Join(dir, "letter.txt"), []byte("x"), 0o600))
			return dir
		},
	}
	for _, how := range []string{"empty", "short", "garbage"} {
		for _, file := range []string{"CURRENT", "MANIFEST", "LOCK", ".log", ".seg", "image"} {
			places[how+" "+file] = func(t *testing.T) string {
				dir := filepath.Join(t.TempDir(), "store")
				must(t, os.CopyFS(dir, os.DirFS(good.dir)))
				for _, e := range list(t, dir) {
					if strings.Contains(e, file) {
						damage(t, filepath.Join(dir, e), how)
					}
				}
				return dir
			}
		}
	}
	places["one that is open"] = func(t *testing.T) string {
		w := newWorld(t)
		d := w.open()
		t.Cleanup(func() { d.Close() })
		return w.dir
	}
	read := 0
	say := func(t *testing.T, args ...string) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		if slices.Contains([]string{"serve", "studio", "dev"}, args[0]) {
			cancel() // or it serves
		}
		var out, err bytes.Buffer
		code := run(ctx, args, &out, &err)
		if code == 0 || err.Len() == 0 || ctx.Err() != nil && strings.Contains(err.String(), ctx.Err().Error()) {
			return // it was ended here
		}
		read++
		if found := goWords.FindString(err.String()); found != "" {
			t.Errorf("stele %q: %q in %s", args, found, err.String())
		}
	}
	for _, c := range commands((&app{}).root()) {
		name := strings.TrimPrefix(c.CommandPath(), "stele ")
		say := func(t *testing.T, args ...string) { say(t, append(strings.Fields(name), args...)...) }
		for what, place := range places {
			t.Run(name+" "+what, func(t *testing.T) {
				dir := place(t)
				say(t, dir)
				say(t, dir, "t")
				say(t, dir, filepath.Join(t.TempDir(), "new"))
				say(t, dir, "a", "b", "c")
			})
		}
		t.Run(name+" flags", func(t *testing.T) {
			say(t)
			say(t, "--unknown")
			c.Flags().VisitAll(func(f *pflag.Flag) {
				for _, v := range []string{"", "x", "-1", "1e99", "999999999999999999999", "\xff", "a=b", "a:b:c"} {
					dir := filepath.Join(t.TempDir(), "store")
					must(t, os.CopyFS(dir, os.DirFS(good.dir)))
					say(t, dir, "--"+f.Name+"="+v)
					say(t, dir, "t", "--"+f.Name+"="+v)
				}
			})
		})
	}
	if read < 500 {
		t.Errorf("%d texts were read", read)
	}
}

// commands are those below a command, and below those.
func commands(of *cobra.Command) (all []*cobra.Command) {
	for _, c := range of.Commands() {
		if !slices.Contains([]string{"help", "completion", "demo"}, c.Name()) {
			all = append(append(all, c), commands(c)...)
		}
	}
	return all
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func list(t *testing.T, dir string) (names []string) {
	entries, err := os.ReadDir(dir)
	must(t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// damage damages a file.
func damage(t *testing.T, path, how string) {
	b, err := os.ReadFile(path)
	must(t, err)
	switch how {
	case "empty":
		b = nil
	case "short":
		b = b[:len(b)/2]
	case "garbage":
		for i := range b {
			b[i] ^= 0x5a
		}
	}
	must(t, os.WriteFile(path, b, 0o600))
}
