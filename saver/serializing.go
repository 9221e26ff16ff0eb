package saver

import "github.com/stele-go/stele/serde"

// Serializing is a saver that says how it serializes values. An engine with one
// serializes what a superstep made when the superstep ends, and stores it while
// the next one runs; with any other it must wait for every save.
type Serializing interface {
	// Serializer is what Go values are encoded with. It is safe for concurrent
	// use.
	Serializer() serde.Serializer
}
