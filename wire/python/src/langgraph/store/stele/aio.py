"""AsyncSteleStore, where LangGraph's own stores have theirs."""

from langgraph.store.stele._store import AsyncSteleStore

__all__ = ["AsyncSteleStore"]
