"""AsyncSteleSaver, where LangGraph's own savers have theirs."""

from langgraph.checkpoint.stele._saver import AsyncSteleSaver

__all__ = ["AsyncSteleSaver"]
