package pgstore

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stele-go/stele/store"

	"github.com/stele-go/stele/postgres/internal/pgdb"
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

// findable reports whether there can be a row of this namespace.
func findable(ns store.Namespace) bool {
	prefix := prefixOf(ns)
	return pgdb.Storable(prefix) && slices.Equal(namespaceOf(prefix), ns)
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
		} else if !pgdb.Storable(label) {
			reason = fmt.Sprintf("label %q is not text that PostgreSQL can store; use UTF-8 without U+0000", label)
		}
	}
	if reason != "" {
		return &store.NamespaceError{Namespace: ns, Reason: reason}
	}
	return pgdb.CheckText("key", key)
}

// literal escapes s for LIKE.
func literal(s string) string {
	return strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`).Replace(s)
}
