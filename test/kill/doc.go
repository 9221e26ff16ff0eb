// Package kill shows promise one with real processes: what a saver acknowledged
// survives SIGKILL, in every sync mode.
//
// A child process replays a recording of real LangGraph (see test/parity) into a
// store on a real directory and writes a line to its parent after each call that
// returned. The parent keeps these lines, the ledger, and kills the child at a
// random moment: after so many calls, so many milliseconds into the work, or
// while the child is still recovering from the last kill. It then opens the
// store, read-only or not, compares everything in it, byte for byte, with the
// reference saver that made the same calls up to the last acknowledged one (or
// one more, which may have been on its way), and starts the next child from
// there, with other options. At the end of a recording all its questions are
// asked, and the answers compared with LangGraph's.
//
// Killing the process takes nothing from the kernel: power loss is simulated
// elsewhere, in test/crash.
//
// The child is the same executable: main, or TestMain, calls ChildMain first.
package kill
