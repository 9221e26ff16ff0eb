package channel_test

import (
	"strings"
	"testing"

	"github.com/stele-go/stele/pregel/channel"
)

// TestNumberThatDoesNotFit: a number of the same kind is said not to fit.
func TestNumberThatDoesNotFit(t *testing.T) {
	_, small := channel.Convert[int8](500)
	_, sign := channel.Convert[uint](-1)
	_, part := channel.Convert[int](1.5)
	for says, err := range map[string]error{"500 does not fit int8": small, "-1 does not fit uint": sign, "1.5 does not fit int": part} {
		if err == nil || !strings.HasSuffix(err.Error(), says) {
			t.Errorf("%v, not %s", err, says)
		}
	}
}
