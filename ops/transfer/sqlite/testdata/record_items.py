"""Records the items of LangGraph's SQLite store, and what LangGraph itself reads of them.

    record_items.py FILE   makes a new file, and prints a line of JSON for each item
"""

import json
import sqlite3
import sys

from langgraph.store.sqlite import SqliteStore

conn = sqlite3.connect(sys.argv[1], isolation_level=None)
store = SqliteStore(conn, ttl={"refresh_on_read": False})
store.setup()
store.put(("users", "ada"), "food", {"likes": ["soup", 1, 2.5, None, True, "ü"]})
store.put(("users", "ada", "facts"), "a.b", {"n": -(2**63), "deep": {"x": {}}})
store.put(("users", "adam"), "food", {})
store.put(("users", "bob"), "visit", {"day": "monday"}, ttl=60 * 24 * 365 * 200)
store.put(("users", "bob"), "half", {"day": "tuesday"}, ttl=60 * 24 * 365 * 200 + 0.5)
store.put(("users", "bob"), "gone", {"day": "sunday"}, ttl=1 / 60000)
rows = conn.execute("SELECT prefix, key, expires_at, ttl_minutes FROM store").fetchall()
life = {(prefix, key): (expires, minutes) for prefix, key, expires, minutes in rows}
for prefix, key in sorted(life):
    expires, minutes = life[prefix, key]
    if key == "gone":
        continue
    item = store.get(tuple(prefix.split(".")), key, refresh_ttl=False)
    print(json.dumps({
        "namespace": item.namespace, "key": item.key, "value": item.value, "expires": expires, "minutes": minutes,
        "created": item.created_at.isoformat(), "updated": item.updated_at.isoformat(),
    }))
conn.close()
