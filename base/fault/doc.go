// Package fault has the errors of a store's files: what a directory, a device, a damaged
// byte or a missing key can do to a call. Packages saver/disk, saver/admin, store and
// store/cache return them, wrapped with what they were doing.
//
// Match a sentinel with errors.Is, and take what a type tells with errors.As:
//
//	var locked *fault.LockedError
//	if errors.As(err, &locked) {
//		log.Printf("%s is in use by %s", locked.Dir, locked.Holder)
//	}
package fault
