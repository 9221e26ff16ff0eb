// Package changetest tests that threads survive a changed program, on any saver. Old leaves threads of
// one program in every state that a thread can wait in. Each change in a table is another program, which
// is asked for a preflight of these threads and then resumes each. What passed must not fail before its
// first node runs, and what the preflight says is compared with a file.
package changetest
