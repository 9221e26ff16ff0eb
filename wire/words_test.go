package wire

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/tinylib/msgp/msgp"

	"github.com/stele-go/stele/saver"
)

// goWords are Go's and those of its libraries: a programmer of another language does not know them.
var goWords = regexp.MustCompile(`\bmsgp\b|interface|map\[|%!|\bnil\b|struct|decode type|reflect|\*[a-z]+\.`)

// TestWordsOfWrongTypes: a value of another type than a parameter wants, anywhere in any request, is told
// with the parameter's name, in words of no language.
func TestWordsOfWrongTypes(t *testing.T) {
	all := requests()
	wrong := []any{"a text", []byte("bytes"), []any{}, []any{"a"}, map[string]any{}, map[string]any{"a": 1}, 7, 1.5, true,
		msgp.Raw{0x81, 0x01, 0xa1, 'x'}} // {1: "x"}
	told := 0
	for name, body := range messages(t) {
		method, ok := strings.CutPrefix(name, "request ")
		if !ok || all[method] == nil || method == "items" || method == "more" || method == "cancel" || method == "lost" {
			continue
		}
		whole, _, err := msgp.ReadIntfBytes(body)
		if err != nil {
			t.Fatal(err)
		}
		mutate(whole, wrong, func() {
			b, err := msgp.AppendIntf(nil, whole)
			if err != nil {
				t.Fatal(err)
			}
			_, err = all[method](b)
			if err == nil {
				return
			}
			told++
			if text := err.Error(); goWords.MatchString(text) {
				t.Errorf("%s of %v: %s", method, whole, text)
			}
			var invalid *saver.InvalidError
			if !errors.Is(err, ErrMalformed) && !errors.As(err, &invalid) {
				t.Errorf("%s of %v: %v has no kind", method, whole, err)
			}
		})
	}
	if told < 1000 {
		t.Errorf("%d errors were read", told)
	}
}

// mutate puts each of other in the place of each value in v, one at a time, and calls f.
func mutate(v any, other []any, f func()) {
	switch v := v.(type) {
	case map[string]any:
		for k, was := range v {
			for _, o := range other {
				v[k] = o
				f()
			}
			v[k] = was
			mutate(was, other, f)
		}
	case []any:
		for i, was := range v {
			for _, o := range other {
				v[i] = o
				f()
			}
			v[i] = was
			mutate(was, other, f)
		}
	}
}
