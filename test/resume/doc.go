// Package resume cuts the power under running graphs, at every boundary between
// one thing stored and the next, and resumes them: a resumed graph must end with
// the state of one that was never cut, and must not run a task again whose
// writes were stored. It has tests only.
package resume
