// Package metrics has the types with which a store reports about itself: what it holds
// ([Stats]), what it did and how long that took ([Metrics]), whether it needs attention
// ([Health]), what happens in it ([Events]), and what opening it found ([OpenReport]).
//
// These types are plain data. Package engine fills in StoreMetrics and Stats, saver/disk the rest.
package metrics
