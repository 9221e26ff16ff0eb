package bench

import (
	"fmt"
	"os"
	"strings"
)

// peakRSS is the most memory this process has had resident so far, in MiB; 0 if
// the system does not say.
func peakRSS() float64 {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(b), "VmHWM:")
	var kb float64
	if _, err := fmt.Sscanf(rest, "%f", &kb); err != nil {
		return 0
	}
	return kb / 1024
}
