package store

import (
	"strings"
)

// Keys of the engine: docs/format/key.md. A namespace is a thread of the engine,
// named "s" and its labels, each escaped and terminated, so that a namespace
// stands before those below it and all are in the order of their labels. An item
// is an item of it, under "i" and the key.

const (
	prefixItem = "i"
	terminator = "\x00\x00"
)

// idOf is a namespace as a key. The empty namespace is the empty key: the prefix
// of all.
func idOf(ns Namespace) string {
	var b strings.Builder
	for _, label := range ns {
		if strings.IndexByte(label, 0) >= 0 {
			label = strings.ReplaceAll(label, "\x00", "\x00\xff")
		}
		b.WriteString(label)
		b.WriteString(terminator)
	}
	return b.String()
}

// namespaceOf is the inverse of idOf; not ok for what idOf does not give.
func namespaceOf(id string) (ns Namespace, ok bool) {
	ns = Namespace{}
	for start, i := 0, 0; i < len(id); {
		if id[i] != 0 {
			i++
			continue
		}
		if i+1 == len(id) {
			return nil, false
		}
		switch id[i+1] {
		case 0:
			ns = append(ns, strings.ReplaceAll(id[start:i], "\x00\xff", "\x00"))
			i += 2
			start = i
		case 0xff:
			i += 2
		default:
			return nil, false
		}
	}
	return ns, id == "" || strings.HasSuffix(id, terminator)
}
