package rules

import (
	"fmt"

	"github.com/stele-go/stele/saver"
)

// Invalidf is the InvalidError about an argument.
func Invalidf(field, format string, args ...any) error {
	return &saver.InvalidError{Field: field, Reason: fmt.Sprintf(format, args...)}
}
