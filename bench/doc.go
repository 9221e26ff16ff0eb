// Package bench measures stele alone: the log, each call of the saver, opening,
// and five workloads that agents produce. Run
//
//	go test -run '^$' -bench . ./bench
//
// docs/performance.md says what each figure means, and which were measured.
//
// The data are made here: text from a fixed list of words by a fixed seed, in
// the shapes LangGraph gives messages and checkpoints, so that two runs store
// the same bytes. Data is simple: few channels, short versions seen, and text for values. Fleet
// is realistic. Sizes follow environment variables; see sizes.
//
// W1 is a chat: two threads in turn, a list of messages that grows by two each
// step, one checkpoint and two task writes a step, also as an engine saves it. W2 is many: 64 writers, each
// with a thread of its own, about 2 KB changed a step, one checkpoint and one
// task write. W3 reads the latest tuple of random threads of 8 KB each. W4 reads
// the history of one long chat. W5 opens a store of many small threads after a
// clean close and after a kill. BenchmarkSmallMemory says what calls cost with less memory, in
// multiples of the default.
package bench
