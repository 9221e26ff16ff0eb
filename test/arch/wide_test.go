package arch

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// widest is how many characters a line of code may have, a tab counted as one. The tables of tests may be wider.
const widest = 160

// TestLinesAreNotWide: a line of code can be read without scrolling, unless half of it is one text.
func TestLinesAreNotWide(t *testing.T) {
	sources(t, func(name string, text []byte) {
		if !strings.HasSuffix(name, ".go") || isTestFile(name) || strings.HasPrefix(name, "test/") || strings.Contains(name, "/testdata/") {
			return
		}
		for i, line := range strings.Split(string(text), "\n") {
			if n := utf8.RuneCountInString(line); n > widest && longestText(line) < n/2 {
				t.Errorf("%s:%d has %d characters", name, i+1, n)
			}
		}
	})
}

// longestText is how many characters the longest text in quotes has.
func longestText(line string) int {
	longest := 0
	for _, part := range strings.FieldsFunc(line, func(r rune) bool { return r == '"' || r == '`' }) {
		longest = max(longest, utf8.RuneCountInString(part))
	}
	return longest
}
