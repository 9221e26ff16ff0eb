package wire

import "testing"

// TestTags: a type with tags has the fields of the type whose tags it has, all of them.
func TestTags(t *testing.T) {
	for of, tagged := range tags {
		if !of.ConvertibleTo(tagged) {
			t.Errorf("%v has other fields than %v, whose tags it has", tagged, of)
		}
		for i := range tagged.NumField() {
			if f := tagged.Field(i); f.Tag.Get("msgpack") == "" && !f.Anonymous {
				t.Errorf("field %s of %v has no tag", f.Name, tagged)
			}
		}
	}
}
