// Command stele looks into stores, checks them, copies them in and out, and saves what can be
// saved of damaged ones. docs/operations.md says when to use what.
//
//	stele info|stats|threads|log|show|diff|verify|dump|compact|erase|erase-user|move-items|signal|answer|release|salvage|backup|restore|import|export|serve|studio|dev|replica|version
//
// Every command but serve, compact, erase --yes, erase-user --yes, move-items --yes, import,
// signal, release, replica detach, replica rejoin and studio --write works beside a running writer, without the store's lock, and changes
// nothing in the store; answer speaks to a server. With --json every command writes JSON: one object, or, where a list may be long
// (threads, log, dump), one object a line.
//
// SIGINT and SIGTERM end every command. One that only reads ends within a second,
// wherever it is. One that writes ends in order, which may take longer; a second signal
// ends it as a crash would, and leaves what a crash leaves.
//
// # Exit codes
//
//	0  done; verify and replica verify: nothing is damaged; salvage: nothing is lost
//	1  verify and replica verify: damage was found; salvage: the new store is there, but not everything is in it;
//	   import, export: something could not be copied, and was kept apart; erase-user:
//	   something stayed that cannot be read; erase: nothing matched, or a thread that was named
//	   is not there
//	2  the command could not do its work: bad arguments, no store, damage, a device error
//	   or it was told to end (SIGINT, SIGTERM)
//	3  the store, or the backup directory, is locked by another process
package main
