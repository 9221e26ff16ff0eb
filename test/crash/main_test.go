package crash

import (
	"os"
	"runtime/debug"
	"testing"
)

// TestMain collects garbage less often: thousands of stores are opened and thrown
// away here, each with compressors of its own. As a child process it does what a
// parent test asks for instead.
func TestMain(m *testing.M) {
	if role := os.Getenv(childEnv); role != "" {
		os.Exit(child(role, os.Getenv(childDirEnv)))
	}
	debug.SetGCPercent(1000)
	debug.SetMemoryLimit(1 << 30)
	os.Exit(m.Run())
}
