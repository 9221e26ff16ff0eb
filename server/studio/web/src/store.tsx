// The long-term store: items by namespace.

import { useState } from "preact/hooks";
import { api } from "./api";
import { readonly } from "./session";
import { Form, JsonField, jsonOf } from "./dialog";
import { isFields } from "./json";
import { useLoad } from "./load";
import { change, link, route } from "./route";
import { SearchField } from "./search";
import { Time, visible, word } from "./text";
import type { Item } from "./types";
import { Value } from "./value";

const pageSize = 50;

// namespaceOf reads a namespace from the address, which a person may have typed.
function namespaceOf(text: string | undefined): string[] {
  try {
    const ns: unknown = JSON.parse(text ?? "[]");
    return Array.isArray(ns) ? ns.map(word) : [];
  } catch {
    return [];
  }
}

export function Store() {
  const query = route.value.query;
  const prefix = namespaceOf(query.ns);
  const page = Number(query.page ?? 0) || 0;
  const namespaces = useLoad(() => api.namespaces(500), []);
  const items = useLoad(() => api.items(prefix, query.q ?? "", pageSize + 1, page * pageSize), [query.ns, query.q, page]);
  const [edit, setEdit] = useState<Item | "new">();
  const [remove, setRemove] = useState<Item>();
  const again = () => (items.again(), namespaces.again());
  const list = items.value?.items ?? [];
  return (
    <main class="store">
      <h1 class="unseen">Store</h1>
      <div class="bar">
        <SearchField label="Search by meaning" placeholder="Search by meaning" forget="page" />
        {!readonly.value && (
          <button class="primary" onClick={() => setEdit("new")}>
            New item
          </button>
        )}
      </div>
      <div class="columns two">
        <nav aria-label="Namespaces">
          <a href={link(["store"])} aria-current={prefix.length === 0 ? "true" : undefined}>
            everywhere
          </a>
          {(namespaces.value?.namespaces ?? []).map((ns) => (
            <a key={JSON.stringify(ns)} href={link(["store"], { ns: JSON.stringify(ns) })} aria-current={JSON.stringify(ns) === query.ns ? "true" : undefined}>
              {ns.map(visible).join(" / ")}
            </a>
          ))}
        </nav>
        <section aria-label="Items">
          {(items.error || namespaces.error) && (
            <p class="error" role="alert">
              {items.error ?? namespaces.error}
            </p>
          )}
          {query.q && list.length > 0 && list.every((i) => typeof i.score !== "number") && <p class="note">This store has no index by meaning, so the search leaves nothing out: these are all items.</p>}
          {list.slice(0, pageSize).map((item) => (
            <article class="item" key={JSON.stringify([item.namespace, item.key])}>
              <header>
                <span>
                  <span class="note">{item.namespace.map(visible).join(" / ")}</span> <b>{visible(item.key)}</b>
                </span>
                <Time at={item.updated_at} />
                {!readonly.value && (
                  <>
                    <button class="quiet" onClick={() => setEdit(item)}>
                      edit
                    </button>
                    <button class="quiet" onClick={() => setRemove(item)}>
                      delete
                    </button>
                  </>
                )}
              </header>
              {isFields(item.value) ? Object.entries(item.value).map(([name, v]) => <Value key={name} name={name} value={v} open />) : <Value value={item.value} />}
            </article>
          ))}
          {items.value && list.length === 0 && <p class="empty">{query.ns || query.q ? "There are no items here." : "There are no items yet. An item is what agents remember beyond one thread, such as facts about a person, under a namespace and a key."}</p>}
          <p class="bar">
            {page > 0 && <button onClick={() => change({ page: String(page - 1) })}>Earlier page</button>}
            {list.length > pageSize && <button onClick={() => change({ page: String(page + 1) })}>Next page</button>}
          </p>
        </section>
      </div>
      {edit && (
        <Form
          title={edit === "new" ? "New item" : "Edit item"}
          act={edit === "new" ? "Create" : "Save"}
          close={() => setEdit(undefined)}
          submit={async (form) => {
            const namespace = edit === "new" ? String(form.get("namespace")).split("/").map((s) => s.trim()).filter(Boolean) : edit.namespace;
            const key = edit === "new" ? String(form.get("key")) : edit.key;
            const value = jsonOf(form, "value");
            if (value === null || typeof value !== "object" || Array.isArray(value)) throw new Error("The value of an item is a JSON object.");
            await api.putItem(namespace, key, value);
            again();
          }}
        >
          {edit === "new" ? (
            <>
              <label class="field">
                Namespace, labels apart by /
                <input name="namespace" required defaultValue={prefix.join("/")} />
              </label>
              <label class="field">
                Key
                <input name="key" required />
              </label>
            </>
          ) : (
            <p>
              {edit.namespace.map(visible).join(" / ")} <b>{visible(edit.key)}</b>
            </p>
          )}
          <JsonField name="value" label="Value, a JSON object" value={JSON.stringify(edit === "new" ? {} : edit.value, null, 2)} />
        </Form>
      )}
      {remove && (
        <Form
          title="Delete this item?"
          act="Delete"
          danger
          close={() => setRemove(undefined)}
          submit={async () => {
            await api.deleteItem(remove.namespace, remove.key);
            again();
          }}
        >
          <p>
            {remove.namespace.map(visible).join(" / ")} <b>{visible(remove.key)}</b> is removed for all threads.
          </p>
        </Form>
      )}
    </main>
  );
}
