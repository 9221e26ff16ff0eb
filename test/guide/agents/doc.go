// Package agents runs the code of those pages in docs/guide that need models of providers, MCP
// servers and schemas of tools.
package agents
