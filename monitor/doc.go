// Package monitor has what a store tells about itself: what it holds ([Stats]), what it
// did and how long that took ([Metrics]), whether somebody should look at it ([Health]),
// what happens in it ([Events]), and what opening it found ([OpenReport]).
//
// The types are plain data. Package saver/disk fills them in.
package monitor
