package saver

import "context"

type deferredKey struct{}

// DeferSync returns a context with which Put, PutRequest and PutWrites may return before what they
// store is durable. It then survives the death of the process, but not a power failure. It is durable
// at the latest when a later such call without it, or a Sync, of the same saver returns. So the writes
// of a superstep share the sync of the checkpoint that follows them.
//
// Call Sync, or make a call that is not deferred, before reporting anything as stored. A saver that
// does not support it makes the writes durable immediately. The disk saver makes deferred writes
// durable by itself: when no call has come for about 10 ms, and where calls come without such a pause
// every 10 ms.
func DeferSync(ctx context.Context) context.Context {
	return context.WithValue(ctx, deferredKey{}, true)
}

// SyncDeferred reports whether ctx comes from DeferSync. It is for implementations of Saver.
func SyncDeferred(ctx context.Context) bool {
	deferred, _ := ctx.Value(deferredKey{}).(bool)
	return deferred
}
