// Package parity holds stele's savers to recordings of real LangGraph.
//
// A fixture is the conversation of LangGraph programs with LangGraph's in-memory
// saver: every call, its arguments, and the answer down to the stored bytes.
// Replay has the same conversation with a stele saver and compares the answers.
// Where stele answers otherwise on purpose, a named Rule says what it must
// answer instead; README.md lists the rules and describes the format.
//
// The recordings are made by record.py, from the LangGraph pinned in
// requirements.txt.
package parity
