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
//
// # Zero values and nil
//
// This holds for all packages. A type whose comment says what its zero value is, and one whose fields are all exported, may be
// written as a literal: no method panics for what is missing in it. Any other type is made by its function, such as
// New, Open or On; methods of its zero value, and of nil, panic. A function that makes something and returns an error
// returns one for a nil store, saver, pool or function. Given to any other call, nil is a mistake of the program, and
// panics where it is used, unless the function says otherwise, as saver.Intercept and remote.New do.
package fault
