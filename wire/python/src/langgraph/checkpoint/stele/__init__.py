"""LangGraph checkpoints in a stele store.

    saver = SteleSaver.from_dir("stele-data")
    graph = builder.compile(checkpointer=saver)

`langgraph.store.stele` is the long-term store on the same server.
"""

from langgraph.checkpoint.stele._endpoint import warn_without_binary
from langgraph.checkpoint.stele._saver import AsyncSteleSaver, SteleSaver, ThreadInfo
from langgraph.checkpoint.stele._wire import VERSION as __version__
from langgraph.checkpoint.stele.errors import SteleError

__all__ = ["AsyncSteleSaver", "SteleError", "SteleSaver", "ThreadInfo", "__version__"]

warn_without_binary()
