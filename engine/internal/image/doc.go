// Package image saves the index. An image is a file with the rows of all partitions, or of
// those that changed since the image before: a chain of images is what Open reads instead of
// the log. Items that only the log holds have pages in it.
//
// Every change of the segments and images of a store is published here, since the index that
// knows of it has to be saved with it: one edit of the manifest names the new segments and
// the image that leads to them. A crash before the edit leaves files that nobody names, which
// the next Open removes; a crash after it finds all of them durable.
//
// Other edits of the manifest concern none of these files. They name a new log file (the
// engine's logCreated), reserve file numbers (storage.Store.NewFileNum), say what is dead in
// segments (garbage.Estimate.RecordDropped), and say that the store was closed
// (engine.Engine.Close).
package image
