package memory_test

import (
	"testing"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/memory"
	"github.com/stele-go/stele/saver/savertest"
)

func TestConformance(t *testing.T) {
	savertest.Run(t, func(t *testing.T) saver.Saver { return memory.New(memory.Options{}) })
}
