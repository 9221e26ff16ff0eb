// Package rewrite writes segments: what a flush moves out of the log, and what a compaction
// keeps of older segments.
//
// The unit is the family: partitions that share values, one and its copies. For each family
// there is a page, which lists items, and a plan, which says what values are written, in which
// order: those that are read often whole, older versions of a series as patches against newer
// ones. Outputs divides them over segments of a bounded size.
package rewrite
