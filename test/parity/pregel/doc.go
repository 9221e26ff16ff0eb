// Package traces has the scenarios of the engine's parity with LangGraph: graphs and what is
// done with them, and the traces that they leave. Its tests compare these with the traces of
// LangGraph; [HandedOver] plays a scenario in turns with LangGraph itself. README.md tells all.
package traces
