// Command affected says what a change can have touched, so that .ci/run need not check
// the rest again.
//
//	go run ./test/affected          # since the commit that .ci/passed names
//	go run ./test/affected -all     # everything
//
// The change is the difference between that commit, on which everything passed, and the
// files as they are now, whether committed or not. Each line of the output is a kind and
// the directory of a package, or a script:
//
//	every DIR      each package
//	changed DIR    a file of it changed: a source, a test, one of testdata, an embedded one
//	affected DIR   it changed, or it or its tests reach a package whose code changed
//	near DIR       affected, and in the part of the tree of one that changed, by the first
//	               directory of its name, or in test, which has what drives the parts together
//	check FILE     a script that says "# Section: NAME" and has something to check: a file
//	               in its directory changed, or one of its "# Inputs: PATH..." did: a
//	               file, or whatever is below a directory, affected packages included
//
// In doubt all packages are changed: where the commit is missing or no ancestor, where
// nothing changed, and where a file changed on which anything could depend: see
// [repo.changes]. Only pages are read without being named: by tests of which .ci/run
// leaves none out.
package main
