// Package image saves the index. An image is a file with the rows of all partitions, or of
// those that changed since the image before: a chain of images is what Open reads instead of
// the log. Items that only the log holds have pages in it.
//
// Every change of what a store is made of is published here, since the index that knows of it
// has to be saved with it: one edit of the manifest names the new segments and the image that
// leads to them. A crash before the edit leaves files that nobody names, which the next Open
// removes; a crash after it finds all of them durable.
package image
