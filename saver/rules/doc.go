// Package rules is what all implementations of saver.Saver have in common, whatever their
// storage. They refuse the same calls with the same errors before a byte is written
// ([ValidateRequest] and the like) and serialize a call in the same way ([PutPlan.Make]). They
// share the rules for what removals must keep ([PruneMark], [PlanRetain]), what a deleted
// thread refuses ([Deleted]), which metadata a filter matches ([MatchFilter]), and which
// status a thread has ([StatusOf]).
//
// Nothing in it does I/O or holds a lock.
package rules
