// Package fleet has the test of servers of LangGraph's API that share a PostgreSQL. It is here
// so that neither package server nor package postgres needs the other.
package fleet
