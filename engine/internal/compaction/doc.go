// Package compaction merges segments: of the items and values that its inputs hold, the
// output has those that are live, the versions of a series side by side.
//
// What is merged: segments of about one size when Options.CompactFanout of them have
// gathered, a segment that is mostly dead, or everything when somebody asks (Compact).
//
// # What the output holds
//
// Segments hold the store as it was at the floor, whatever the log did since, and so does the
// output: a partition or an item that only the log deletes stays. A deletion that older
// segments may need is kept as long as they do.
//
// # An output that is published early
//
// A compaction publishes each output of Options.SegmentSize as it is done, beside its inputs,
// and removes the inputs with the last one. Where it ends between, the index knows the new
// pages of the families that were moved, and their old ones lie in the inputs for nobody:
// stale. What follows from it:
//
//   - Stale pages are never merged: they may hold items whose deletion the output has
//     dropped.
//   - All segments with stale pages leave in one edit, before another compaction chooses
//     among them: one may hold the deletions that hide items of another, should the index be
//     made anew. An index made anew counts all pages, and nothing is stale.
//   - What was moved is not moved again.
package compaction
