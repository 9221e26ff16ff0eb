package arch

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// namesModes are the files outside package pregel that say something of every stream mode, and those of which
// they need not.
var namesModes = map[string][]string{
	"message/pregeljson/doc.go":              nil,
	"server/runrequest.go":                   nil,
	"server/client/runs.go":                  nil,
	"server/client/remote/graph.go":          nil,
	"server/internal/streamv2/translator.go": {"debug"}, // version 2 of the protocol has no such channel
	"docs/server.md":                         nil,
}

// TestModesAreKnown: whoever adds a stream mode says in each of these files what becomes of it.
func TestModesAreKnown(t *testing.T) {
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	modes := regexp.MustCompile(`(?m)^\t(Mode\w+) +Mode = "(\w+)"$`).FindAllStringSubmatch(read("pregel/stream.go"), -1)
	if len(modes) < 7 {
		t.Fatalf("%d modes in pregel/stream.go", len(modes))
	}
	for file, without := range namesModes {
		text := read(file)
		for _, m := range modes {
			known := regexp.MustCompile(`\b(` + m[1] + `|mode` + m[1][len("Mode"):] + `|` + m[2] + `)\b`).MatchString(text)
			for _, w := range without {
				known = known || w == m[2]
			}
			if !known {
				t.Errorf("%s does not say what becomes of mode %q", file, m[2])
			}
		}
	}
}
