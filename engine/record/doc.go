// Package record is the codec of what the engine logs: a record for each commit, and the
// tombstones that segments carry. It does no I/O. docs/format/record.md has the bytes.
//
//	u8 format | u32 head length | head | values, one after the other
//
// The head names everything, and values carry no framing: the place of each follows from
// the lengths in the head. So replay never touches the bytes of values.
//
// Decoders return an error on any input that is no record, or one of a newer format, and
// take memory in proportion to the input.
//
// It is for this repository, and makes no promise to others.
package record
