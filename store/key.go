package store

import (
	"strings"
)

// Keys of the engine: docs/format/key.md. A namespace is a partition of the engine. Its id
// is "s" and the labels, each escaped and terminated. So partitions are in the order of
// their labels, and a namespace comes before those below it. An item has the key "i" and
// its own key.

const (
	prefixItem = "i"
	terminator = "\x00\x00"
)

// idOf encodes a namespace. The empty namespace gives "", the prefix of all others.
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

// behind is greater than the ids of a namespace and those below it, and not greater than any that follows.
func behind(ns Namespace) string {
	id := idOf(ns)
	return id[:len(id)-1] + "\x01"
}

// namespaceOf is the inverse of idOf; ok is false for an id that idOf does not return.
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
