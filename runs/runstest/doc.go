// Package runstest has the tests of package runs for implementers. Run is the conformance
// kit of runs.Queue, and of the runs.WorkerQueue that runs.ForWorker makes of it: each
// sentence of the contract is a case. Torture is a program that may be killed at any moment.
//
//	func TestQueue(t *testing.T) {
//		runstest.Run(t, func(t *testing.T, o runstest.Options) (runs.Queue, func() runs.Queue) { … })
//	}
package runstest
