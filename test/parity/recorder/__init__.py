"""Records what real LangGraph asks of its in-memory saver, and what it is told.

A fixture is the complete conversation between LangGraph programs and
``InMemorySaver``: every call, its arguments, and the answer as stored bytes.
The Go side replays the calls into another saver and compares the answers.
"""
