package parity_test

import (
	"os"
	"runtime/debug"
	"testing"
)

// TestMain collects garbage less often: hundreds of small stores are opened and thrown
// away here.
func TestMain(m *testing.M) {
	debug.SetGCPercent(800)
	debug.SetMemoryLimit(1 << 30)
	os.Exit(m.Run())
}
