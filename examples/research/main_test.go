package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// TestNothingIsReadTwice: what was read before the run was cancelled is not read again, and nothing
// is left out.
func TestNothingIsReadTwice(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), 300, &out); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	var before, after int
	_, counts, _ := strings.Cut(text, "read ")
	if _, err := fmt.Sscanf(counts, "%d sources before, and %d after", &before, &after); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	// Workers that were reading when the run was cancelled may have read in vain.
	if before < 150 || before+after < 297 || before+after > 297+16 {
		t.Errorf("%d sources before, %d after", before, after)
	}
	if want := `What do they say? 297 findings, from "0." to "4."; gone: [99 199 299]`; !strings.Contains(text, want) {
		t.Errorf("want %s in\n%s", want, text)
	}
}
