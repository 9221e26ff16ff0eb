package parity

import (
	"os"
	"testing"
	"time"
)

// TestServe serves the graphs for as long as STELE_SERVE says, to try a client by hand.
func TestServe(t *testing.T) {
	d, err := time.ParseDuration(os.Getenv("STELE_SERVE"))
	if err != nil {
		t.Skip("STELE_SERVE is not set")
	}
	println(newServer(t))
	time.Sleep(d)
}
