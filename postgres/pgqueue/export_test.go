package pgqueue

import "github.com/stele-go/stele/runs"

// Listing is the statement by which a Queue reads a page of a list.
func Listing(q *Queue, sel runs.Query, limit int) (sql string, args []any) {
	return q.listing(sel, limit)
}

// ClaimSQL is the statement that claims a run.
func ClaimSQL(q *Queue) string { return q.sql.claim }

// SubmitSQL is the statement that stores a run.
func SubmitSQL(q *Queue) string { return q.sql.submit }

// DepthSQL is the statement of Metrics, without its clock.
func DepthSQL(q *Queue) (sql string, args []any) { return q.sql.depth, []any{nil, maxCounted} }
