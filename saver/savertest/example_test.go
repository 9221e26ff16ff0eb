package savertest_test

import (
	"testing"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/memory"
	"github.com/stele-go/stele/saver/savertest"
)

// A saver of one's own is held to the contract by one test.
func Example() {
	_ = func(t *testing.T) { // func TestConformance(t *testing.T)
		savertest.Run(t, func(*testing.T) saver.Saver { return memory.New(memory.Options{}) })
	}
}

// A saver without some of the optional powers says so; their IDs are then not
// counted.
func ExampleRunWith() {
	_ = func(t *testing.T) { // func TestConformance(t *testing.T)
		savertest.RunWith(t, func(*testing.T) saver.Saver { return memory.New(memory.Options{}) },
			savertest.Options{Without: []savertest.Power{savertest.PowerEraser}})
	}
}
