// Package linear shows that a store in mode sync is one register to all who use it, whoever leads: what clients did at several
// machines of one bucket, while these take over from each other, is linearizable. Package porcupine, of others, judges the
// histories.
//
// The machines are simulated, and run on one thread: a call of the bucket gives way before it is applied and before its
// answer comes, and who goes on is drawn. So a seed is a history. Calls of the bucket fail, land late or twice, or lose their
// answers; machines lose power or their disk at any such moment, or stand still while their lease ends, and find another leader
// when they go on. Each machine has a clock with a rate of its own.
//
// A client reads the head of a thread, or stores a checkpoint on the head that it knows: a compare-and-set. What is not told
// may be so or not: an outcome that is unknown, the call of a machine that died, and a put that is refused with ErrFenced, until
// the store has opened at another machine: a directory that leads again before that offers what it has. A put that is refused
// because the head is another one says nothing here: that head may be a put that waits for the bucket, and is never
// acknowledged. Neither says a read that is refused; reads of followers, which are behind by design, and reads with a negative
// Replica.MaxStale are not made. The modes async and bounded promise a prefix alone, which TestReplicaHistories of package
// engine checks.
//
// TestServers does the same with processes, a server of others as bucket, SIGSTOP, SIGKILL, and a proxy before each machine. Nothing
// repeats such a history, so it comes second.
//
// TAKE_OVERS sets how many take-overs there are at least, STELE_SEED the one history that is made, and SERVER_TAKE_OVERS how many there
// are on each server. Servers of others are found as package s3test says.
package linear
