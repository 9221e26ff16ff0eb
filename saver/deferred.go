package saver

import "context"

type deferredKey struct{}

// DeferSync returns a context under which a saver's PutWrites may return once
// the writes are stored but not yet durable: the process may die, the machine
// may not. They are durable, at the latest, when a later Put upon the same saver
// returns, or Sync. It lets the writes of a superstep share the flush of the
// checkpoint that follows them. Use it only with a saver that is a Coordinator, and
// make a call that is not deferred, or Sync, before saying that anything is
// stored. A saver that does not know of it makes the writes durable at once.
//
// The disk saver makes deferred writes durable by itself when no call has come
// for about 10 ms.
func DeferSync(ctx context.Context) context.Context {
	return context.WithValue(ctx, deferredKey{}, true)
}

// SyncDeferred reports whether ctx is one of DeferSync. It is for implementations of
// Saver.
func SyncDeferred(ctx context.Context) bool {
	deferred, _ := ctx.Value(deferredKey{}).(bool)
	return deferred
}
