// Package handover runs LangGraph's recorded scenarios in turns: Python stops where a
// scenario stops, and Go goes on from there, on one PostgreSQL.
package handover
