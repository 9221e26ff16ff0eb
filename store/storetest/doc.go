// Package storetest checks that a store.Store behaves as package store says: the
// behaviours STO-01 to STO-12 of LangGraph's stores, by these IDs, and what stele
// adds, with store.Scanner, store.Sweeper, store.Restorer, store.Mover and
// store.Appender, and with PutOver, which store.Local has. STO-13, the store in running graphs, is tested with the engine
// of graphs.
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, func(t *testing.T, o store.Options) store.Store { … })
//	}
package storetest
