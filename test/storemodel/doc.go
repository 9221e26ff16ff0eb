// Package storemodel compares the durable store with the one in memory over
// random programs: rapid draws calls from small spaces of namespaces, keys and
// values, and both must give the same answer to every call. Between calls the
// durable one is flushed, merged, closed and opened again, and two stores with
// different options stand on one directory.
//
// MODEL_CHECKS sets the number of programs.
package storemodel
