package answer

import (
	"encoding/hex"
	"slices"
	"strconv"
	"strings"

	"github.com/zeebo/xxh3"

	"github.com/stele-go/stele/saver/serde"
)

// A wait for an instant or for a signal is stored as an interrupt, so that LangGraph sees a thread that
// waits. It is no question: no answer is for it, and its id has another form.

// WaitID is the id of the n-th wait at a place: the namespace of a task, and where below it.
func WaitID(ns string, place []string, n int) string {
	var b strings.Builder
	for _, part := range append(append([]string{ns}, place...), strconv.Itoa(n)) {
		b.WriteString(strconv.Quote(part))
	}
	sum := xxh3.HashString128(b.String()).Bytes()
	return serde.WaitPrefix + hex.EncodeToString(sum[:])
}

// IsWait reports whether an interrupt is a wait, and no question.
func IsWait(in serde.Interrupt) bool { return in.IsWait() }

// WithoutWaits are the questions of a list.
func WithoutWaits(list []serde.Interrupt) []serde.Interrupt {
	return slices.DeleteFunc(slices.Clone(list), IsWait)
}
