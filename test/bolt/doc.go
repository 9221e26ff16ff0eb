// Package bolt is a saver on go.etcd.io/bbolt, a tree of pages in one file. It shows, and tests,
// that package saver/rules is enough to write a saver of your own: it knows no other saver and
// nothing of the engine, and passes package saver/savertest. It aims at few lines, not at speed.
//
// One transaction of bbolt is one call. So what a call reads is one state of the store, and what
// it writes is stored as a whole and durable when it returns, whether the call is deferred or
// not. All that is stored is this:
//
//	threads/                    its sequence numbers the values
//	  <thread id>/
//	    info                    when it was written, and its TTL
//	    n<namespace>/
//	      checkpoints/<id>      a checkpoint; it names its values by number
//	      values/<number>       a value of a channel
//	      writes/<id>/<number>  a call of PutWrites on a checkpoint, in commit order
//	      attempts/<id>         recoveries of a checkpoint
//	deleted/<thread id>         what is remembered of a deleted thread
//
// A namespace has checkpoints or writes, and a thread has namespaces; else they are not there. A
// value stays while a checkpoint of its namespace names it. Numbers are never used twice.
//
// The saver is no Eraser: bbolt does not overwrite the pages that it frees.
package bolt
