// Command mutants checks the tests: it takes one safeguard after another out of
// the code and demands that a test notices.
//
//	go run ./test/mutants                # each mutant against the test it names
//	go run ./test/mutants -run fsync     # those whose name matches
//	go run ./test/mutants wal index      # those whose code or test is in these packages
//	go run ./test/mutants -all           # each mutant against the whole suite
//
// A mutant that no test kills is a safeguard that could be lost unnoticed: the
// command names it and fails. The mutants of a package are its testdata/mutants.txtar; what
// they look like is described at [mutant]. One build holds all of them, and an
// environment variable chooses the one that runs: see [weave]. The changed source
// reaches the compiler by the -overlay flag of the go command, so the working tree is
// never touched.
//
// The test of this package only checks that every mutant still fits the code, and compiles.
package main
