// Package replica keeps the log of a store in a bucket, so that nothing is lost with the machine.
//
// It knows batches of records with their LSNs, and not what is in them. A [Leader] appends, a
// [Follower] reads and may become the leader, a [Point] is where a restore begins. Whether a
// commit waits for the bucket is for the caller to say: [Leader.Append] returns at once, and
// [Leader.Wait] once the record is in the lineage.
//
// # Objects
//
//	head                       who leads, and where to begin reading; see type head
//	e0000000007/000000000012   chunk 12 of epoch 7, or its fence
//	point/LSN-EPOCH-N          the files that hold all up to a record
//	file/EPOCH/NAME            such a file
//	pin/OWNER-N                what a reader still needs
//
// The lineage is the records of a store in the order of their LSNs, over all leaders. Each
// leader's reign is an epoch. Its records are in chunks, numbered from 0, each of whole batches,
// and the epoch ends at its first fence. Then the next epoch goes on with the next LSN. A chunk
// says the [Chain] before and behind its records, so that nobody reads it behind others than it
// was written behind.
//
// Chunks, fences, points and files are created where nothing is. HEAD, and a pin by its reader, are
// compared and set. An answer that was lost or is not clear is settled by putting again, and
// once that is refused, by reading back: what stands there byte for byte was written, and is
// durable.
//
// # Safety
//
// A record is acknowledged once its chunk has landed and every earlier number of the epoch holds
// a chunk of the same leader. A take-over first makes itself the next epoch in HEAD. Then it ends
// every earlier epoch that has not ended, oldest first: it reads on from where HEAD says, applies
// the chunks that it lacks, and puts a fence at the first number where nothing stands. Only then
// does it write.
//
// So no two leaders acknowledge different records for one LSN. Of a chunk and a fence, one is
// created at a number. If it is the fence, the old leader finds it there, and neither that chunk
// nor any behind it, though it may have landed, is acknowledged. If it is the chunk, the new
// leader reads it before it gives out an LSN. No clock is asked. What a fence cuts off stays
// cut off, since fences are never deleted: an old leader that wakes after a year finds them.
//
// The same holds for readers. A fence is put only where nothing stands, so that chunks which
// were read without a gap are in the lineage for ever, whether acknowledged or not.
//
// # The lease
//
// A lease is for reads alone: while [Leader.Holds], nobody else leads. It counts from the sending
// of its renewal. A challenger must see one beat for a whole TTL on its own clock, and counts from
// the answer that first had it. So clocks need not agree, only run at nearly the same rate; a
// fifth of the TTL is the margin. A suspended machine's clock stands still, and its leader may
// answer with what was, but acknowledges nothing wrong.
//
// # What a crash leaves
//
//   - Of a leader: chunks without a gap, perhaps some behind a gap, which the fence cuts off. Its
//     disk may have more records than the lineage. It offers them again when it leads the next
//     epoch, if no other directory began one; else it gets ErrDiverged.
//   - Of a take-over before its fences: a HEAD with an epoch that has no chunk. The next one
//     fences the epochs before, and that one at its number 0, once its lease has ended.
//   - Of a take-over behind its fences: HEAD does not say where the old epoch ended. The next one
//     puts a fence there too, is refused, and walks over what stands there.
//   - Of a point: its files, which stay, or a point that HEAD does not have, which retention
//     deletes with them.
//   - Of retention: a floor with chunks, points and files below it, which the next one deletes.
//
// # Retention
//
// The floor is a point below which nothing is kept. [Leader.Retain] raises it in HEAD, then lists
// the pins of readers, then deletes. A reader writes its pin, and then reads HEAD. So either the
// leader sees the pin, or the reader sees the floor, and gets ErrPointGone. Names carry the epoch
// and are never used again, so that a late request of an old leader does no harm.
//
// # What is open
//
// [Probe] refuses a bucket with a rule that deletes or archives objects of the lineage, where the bucket
// tells its rules. One that is made later is not noticed: a missing chunk is found when it is read.
// Nothing refuses a second directory of the same store that follows
// and never leads. In a directory as bucket a follower may apply a chunk whose name is not durable
// yet: if power fails there, and its leader never comes back, the follower has records that the
// lineage has not.
//
// It is for this repository, and makes no promise to others.
package replica
