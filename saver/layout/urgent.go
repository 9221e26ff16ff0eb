package layout

import "context"

type urgentKey struct{}

// Urgent returns a context with which store.Local writes also while less than disk.Options.DiskReserve is free, as it
// deletes. It is for the few bytes that come before a deletion, such as the end of a run whose thread goes.
func Urgent(ctx context.Context) context.Context { return context.WithValue(ctx, urgentKey{}, true) }

// IsUrgent reports whether ctx comes from Urgent.
func IsUrgent(ctx context.Context) bool { return ctx.Value(urgentKey{}) != nil }
