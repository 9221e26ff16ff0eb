// Package flush moves the log into segments, so that the log can go.
//
// A flush ends the current log file and takes a view of the store exactly there. What items
// of that view have in the log is written to segments, by family. One edit of the manifest
// then names the segments, the image that leads to them, and the log files no more. Commits
// go on meanwhile, in the next log file.
package flush
