// Package rules is what all implementations of saver.Saver do alike, apart from how they
// store: they refuse the same calls with the same errors before a byte is written
// ([ValidateRequest] and its like), serialize a call in the same way ([NewPutPlan]), and
// decide alike what removals must keep ([PruneMark], [PlanRetain]), what a deleted thread
// refuses ([Deleted]), which metadata a filter matches ([MatchFilter]) and how far a
// thread has come ([StatusOf]).
//
// Nothing in it does I/O or holds a lock.
package rules
