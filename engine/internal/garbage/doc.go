// Package garbage estimates what segments hold that no item refers to any more. Compaction
// goes by it, and statistics tell it.
package garbage
