"""LangGraph's long-term store in a stele store.

store = SteleStore.from_dir("stele-data")
graph = builder.compile(checkpointer=saver, store=store)
"""

from langgraph.store.stele._store import AsyncSteleStore, SteleStore

__all__ = ["AsyncSteleStore", "SteleStore"]
