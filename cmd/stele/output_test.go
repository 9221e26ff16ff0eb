package main

import (
	"strings"
	"testing"
)

// TestTable: columns are as wide as what is in them, of any script; one very long cell widens no other row.
func TestTable(t *testing.T) {
	long := strings.Repeat("x", widest+1)
	var out strings.Builder
	p := &printer{w: &out}
	p.table([]string{"id", "n", "next"}, [][]any{{"a", 1, "b"}, {"人人", 100, ""}, {long, 7, "c"}})
	want := "id      n  next\n" +
		"a       1  b\n" +
		"人人  100\n" +
		long + "    7  c\n"
	if out.String() != want || p.err != nil {
		t.Errorf("printed\n%swant\n%s(%v)", out.String(), want, p.err)
	}
}
