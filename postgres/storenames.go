package postgres

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/stele-go/stele/store"
)

// prefixOf is a namespace as LangGraph stores it: its labels, joined with dots.
func prefixOf(ns store.Namespace) string { return strings.Join(ns, ".") }

// namespaceOf is the inverse of prefixOf, for what checkPut lets pass and for what LangGraph
// reads of other rows.
func namespaceOf(prefix string) store.Namespace {
	if prefix == "" {
		return store.Namespace{}
	}
	return strings.Split(prefix, ".")
}

// storable reports whether a column of type text can hold s.
func storable(s string) bool { return strings.IndexByte(s, 0) < 0 && utf8.ValidString(s) }

// findable reports whether there can be a row of this namespace.
func findable(ns store.Namespace) bool {
	prefix := prefixOf(ns)
	return storable(prefix) && slices.Equal(namespaceOf(prefix), ns)
}

// checkPut refuses namespaces and keys that the table cannot hold, or that LangGraph cannot
// read.
func checkPut(ns store.Namespace, key string) error {
	reason := ""
	switch {
	case len(ns) == 0:
		reason = "it has no labels, and LangGraph stores none such"
	case slices.Contains(ns, ""):
		reason = "a label is empty"
	}
	for _, label := range ns {
		if strings.Contains(label, ".") {
			reason = fmt.Sprintf("label %q has a dot, and LangGraph joins labels with dots", label)
		} else if !storable(label) {
			reason = fmt.Sprintf("label %q is not text that PostgreSQL can store; use UTF-8 without U+0000", label)
		}
	}
	if reason != "" {
		return &store.NamespaceError{Namespace: ns, Reason: reason}
	}
	return checkText("key", key)
}

// literal escapes s for LIKE.
func literal(s string) string {
	return strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`).Replace(s)
}
