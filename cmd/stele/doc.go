// Command stele looks into stores, checks them, copies them, and saves what can be
// saved of damaged ones. docs/operations.md says when to use what.
//
//	stele info|stats|threads|log|show|diff|verify|dump|compact|salvage|backup|restore
//
// Every command but compact works beside a running writer, without the store's lock,
// and changes nothing in the store. With --json every command writes JSON: one object,
// or, where a list may be long (threads, log, dump), one object a line.
//
// # Exit codes
//
//	0  done; verify: nothing is damaged; salvage: nothing is lost
//	1  verify: damage was found; salvage: the new store is there, but not everything is in it
//	2  the command could not do its work: bad arguments, no store, damage, a device error
//	3  the store, or the backup directory, is locked by another process
package main
