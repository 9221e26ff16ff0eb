package pregel

import (
	"fmt"
	"strconv"
	"strings"
)

// Path says where in a superstep a task stands: ("__pregel_pull", node),
// ("__pregel_push", index, false) for a packet, ("__pregel_push", caller's path,
// index, true) for a call. Elements are strings, ints, bools and Paths.
type Path []any

// String is the path as stored with writes. Its byte order is the order in which
// a superstep applies its tasks.
func (p Path) String() string {
	var b strings.Builder
	p.write(&b)
	return b.String()
}

func (p Path) write(b *strings.Builder) {
	b.WriteByte('~')
	for i, x := range p {
		if i > 0 {
			b.WriteString(", ")
		}
		switch x := x.(type) {
		case Path:
			x.write(b)
		case string:
			b.WriteString(x)
		case int:
			writePadded(b, x)
		case bool: // an integer in LangGraph's language
			if x {
				writePadded(b, 1)
			} else {
				writePadded(b, 0)
			}
		default:
			fmt.Fprint(b, x)
		}
	}
}

func writePadded(b *strings.Builder, n int) {
	s := strconv.Itoa(n)
	for range 10 - len(s) {
		b.WriteByte('0')
	}
	b.WriteString(s)
}

func pullPath(node string) Path { return Path{pull, node} }
func sendPath(index int) Path   { return Path{push, index, false} }

// sendPathString is a faster sendPath(index).String(). A fan-out needs many.
func sendPathString(index int) string {
	var digits, room [48]byte
	n := strconv.AppendInt(digits[:0], int64(index), 10)
	b := append(room[:0], "~"+push+", "...)
	for range 10 - len(n) {
		b = append(b, '0')
	}
	return string(append(append(b, n...), ", 0000000000"...))
}

func callPath(caller Path, n int) Path { return Path{push, caller, n, true} }
func handlerPath(failed Path) Path {
	return append(append(Path{}, failed[:min(3, len(failed))]...), handlerMark, false)
}
func updatePath(i int) Path        { return Path{chInterrupt, i} }
func (p Path) callerReports() bool { return len(p) > 0 && p[0] == push && p[len(p)-1] == true }
