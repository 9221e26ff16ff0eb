"""The graph story of ../page_test.go, for LangGraph's own server."""

import time

from graphs import Chat
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langgraph.config import get_store
from langgraph.graph import START, StateGraph
from langgraph.store.base import BaseStore


class Teller(BaseChatModel):
    """Tells the beginning, and the end when an item is stored under the last message."""

    items: BaseStore
    model_config = {"arbitrary_types_allowed": True}

    @property
    def _llm_type(self) -> str:
        return "teller"

    def _parts(self, messages):
        yield from ("Once upon ", "a time")
        last = messages[-1]
        text = last.text() if callable(last.text) else last.text
        while self.items.get(("stories",), str(text)) is None:
            time.sleep(0.005)
        yield " it ended."

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        answer = AIMessage(content="".join(self._parts(messages)))
        return ChatResult(generations=[ChatGeneration(message=answer)])

    def _stream(self, messages, stop=None, run_manager=None, **kwargs):
        for word in self._parts(messages):
            generation = ChatGenerationChunk(message=AIMessageChunk(content=word))
            if run_manager:
                run_manager.on_llm_new_token(word, chunk=generation)
            yield generation


def story():
    def tell(state: Chat):
        return {"messages": [Teller(items=get_store()).invoke(state["messages"])]}

    g = StateGraph(Chat)
    g.add_node("tell", tell)
    g.add_edge(START, "tell")
    return g.compile()
