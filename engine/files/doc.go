// Package files keeps the files of an open store: it opens them when somebody reads,
// shares the open ones, and removes those that the store has done with when nobody can
// need them any more.
//
// # When a file goes
//
// A file is part of the store from Add on. When the durable manifest no longer names it,
// the engine calls Retire. Readers may still hold references to it, so it stays until
//
//   - every view that was open at that time is closed: Pin gives a view its epoch, Retire
//     stamps a file with the epoch that comes next, and a file goes when no open view has
//     an earlier one; and
//   - nobody holds its Handle.
//
// Then its name is removed. Where that fails, because another process has the file open on
// a system that forbids it, or because the device failed, the name is tried again with
// every later removal and by Close; what is left, the next Open of the store removes.
//
// A crash at any point leaves files that no manifest names, and nothing else.
//
// It is for this repository, and makes no promise to others.
package files
