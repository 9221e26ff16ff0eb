//go:build !unix

package bench

import "time"

// cpuTime is not known here: the figures made of it are zero.
func cpuTime() time.Duration { return 0 }
