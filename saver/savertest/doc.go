// Package savertest is the conformance kit for implementations of saver.Saver:
//
//	func TestConformance(t *testing.T) {
//		savertest.Run(t, func(t *testing.T) saver.Saver { return mysaver.New() })
//	}
//
// Each behaviour of LangGraph's savers that needs no graph engine has an ID and
// at least one subtest of that name, such as CHK-11. The cases beyond those pin
// what stele promises besides: forks that never mix, refusal of bad input with
// nothing written, deletions that stay, compare-and-set, atomic requests,
// isolation of memory, concurrency. Run ends by printing how many of the IDs it
// ran, and how many cases:
//
//	ids: 76 of 76, cases: N
//
// Package saver/rules has what a saver needs to pass, and says where it is called.
//
// The savers under test must use serde.Default(), or a serializer that writes
// the same bytes, and remember deletions for longer than the test takes.
package savertest
