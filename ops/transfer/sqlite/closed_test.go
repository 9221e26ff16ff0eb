package sqlite_test

import (
	"testing"

	"github.com/stele-go/stele/base/methods"
)

// TestAfterClose: every method of a Source that was closed fails, and none panics or waits; nor does one whose context has ended succeed.
func TestAfterClose(t *testing.T) {
	const twice, none = "a second one does nothing", "of what the file has not there is nothing to say"
	for file, except := range map[string]map[string]string{
		"graphs.sqlite": {"Close": twice, "Items": none, "CountItems": none},
		"items.sqlite":  {"Close": twice, "Tuples": none, "Count": none},
	} {
		s := open(t, "testdata/"+file)
		methods.Ended(t, s, except, nil)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		methods.Each(t, s, t.Context(), except, nil, func(t *testing.T, a methods.Answer) {
			if a.Says && a.Err == nil {
				t.Error("there is no error")
			}
		})
	}
}
