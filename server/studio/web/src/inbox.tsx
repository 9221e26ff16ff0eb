// All questions that wait, of all threads, oldest first, with the form that answers one beside them.

import { useEffect, useRef, useState } from "preact/hooks";
import { changedOf, graphOf, lineOf, ownerOf, questionsOf, titleOf } from "./about";
import { Answer } from "./answer";
import { api } from "./api";
import { CopyId } from "./copy";
import { useEvery, useLoad } from "./load";
import { isFields } from "./json";
import { asMessages, Conversation, type Message } from "./messages";
import { nodeName } from "./names";
import { change, link, route } from "./route";
import { start } from "./running";
import { SearchField } from "./search";
import { brief, countWaiting, info } from "./session";
import { count, list, Text, Time, visible, word } from "./text";
import { AssistantFilter, searchOf } from "./threads";
import { asksOf, questionsIn, tasksOf } from "./tree";
import type { State, Thread } from "./types";

const pageSize = 50;
// mostShown bounds how many threads one request reads again and again.
const mostShown = 300;

const hour = 3_600_000;
const ages: Record<string, [name: string, ms: number]> = { "": ["any", 0], "1h": ["over 1 hour", hour], "1d": ["over 1 day", 24 * hour], "7d": ["over 7 days", 168 * hour] };

const wide = () => matchMedia("(min-width: 901px)").matches;

// useOwners are the owners of the threads that were seen, with the names in metadata that say so.
function useOwners(rows: Thread[]): Map<string, string> {
  const seen = useRef(new Map<string, string>());
  for (const t of rows) {
    const owner = ownerOf(t);
    if (owner) seen.current.set(owner.name, owner.key);
  }
  return seen.current;
}

export function Inbox() {
  const query = route.value.query;
  const [most, setMost] = useState(pageSize);
  // sent are the threads that were answered here, as they were then: they are waiting no longer.
  const [sent, setSent] = useState<Map<string, string>>(new Map());
  const [last, setLast] = useState<{ thread: Thread; run: string }>();
  const search = searchOf({ q: query.q ?? "", assistant: query.assistant ?? "", status: "interrupted", sort: "updated_at", order: query.order === "desc" ? "desc" : "asc" });
  if (query.owner) search.metadata = { ...search.metadata, [query.by || "owner"]: query.owner };
  const by = JSON.stringify(search);
  const found = useLoad(async (signal) => ({ by, threads: await api.threads({ ...search, limit: most, offset: 0 }, signal) }), [by, most]);
  const threads = found.value?.threads ?? [];
  useEvery(4000, () => found.loading || found.again());
  const oldest = Date.now() - (ages[query.age ?? ""]?.[1] ?? 0);
  const rows = threads.filter((t) => questionsOf(t).length > 0 && sent.get(t.thread_id) !== t.updated_at && (!query.age || changedOf(t) <= oldest));
  const owners = useOwners(threads);
  const more = threads.length === most && (!query.age || changedOf(threads.at(-1)!) <= oldest);
  // The first one is shown where the list leaves room for it. It stays, whatever comes before it later: what
  // a person reads, or is about to press, is not taken away. On a phone the list and a question each have the screen.
  const first = useRef<{ of: string; id?: string }>({ of: "" });
  const of = by + word(query.age);
  if (first.current.of !== of) first.current = { of };
  if (wide() && found.value?.by === by) first.current.id ??= rows[0]?.thread_id;
  const chosen = query.id ?? first.current.id;
  const at = rows.findIndex((t) => t.thread_id === chosen);
  const box = useRef<HTMLDivElement>(null);
  const onKey = (e: KeyboardEvent) => {
    const step = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1 }[e.key];
    if (step !== undefined) {
      const to = rows[Math.min(rows.length - 1, Math.max(0, at + step))];
      if (to) change({ id: to.thread_id }, true);
    } else if (e.key === "Enter" && chosen && !e.repeat) {
      document.querySelector<HTMLElement>(".questions .decisions button, .questions .field input, .questions .field textarea, .questions .field select")?.focus();
    } else return;
    e.preventDefault();
  };
  useEffect(() => box.current?.querySelector('[aria-selected="true"]')?.scrollIntoView({ block: "nearest" }), [chosen]);
  const seen = useRef({ chosen, rows, at });
  seen.current = { chosen, rows, at };
  const done = (thread: Thread, run: string) => {
    setSent((all) => new Map(all).set(thread.thread_id, thread.updated_at));
    setLast({ thread, run });
    countWaiting();
    // Whoever has gone to another question stays there.
    const { chosen, rows, at } = seen.current;
    if (chosen !== thread.thread_id || route.peek().path[0] !== "inbox") return;
    first.current.id = undefined;
    change({ id: wide() ? (rows[at + 1] ?? rows[at - 1])?.thread_id : undefined }, true);
    box.current?.focus();
  };
  const filtered = !!(query.q || query.assistant || query.owner || query.age);
  return (
    <main class={query.id ? "inbox one" : "inbox"}>
      <h1 class="unseen">Inbox</h1>
      <div class="bar">
        <SearchField label="Search by id or metadata" placeholder="Thread id, or owner=bob" forget="id" />
        <AssistantFilter />
        {(owners.size > 0 || query.owner) && (
          <label>
            Owner{" "}
            <select value={query.owner ?? ""} onChange={(e) => change({ owner: e.currentTarget.value, by: owners.get(e.currentTarget.value), id: undefined })}>
              <option value="">all</option>
              {[...new Set([...owners.keys(), ...(query.owner ? [query.owner] : [])])].sort().map((name) => (
                <option key={name} value={name}>
                  {visible(name)}
                </option>
              ))}
            </select>
          </label>
        )}
        <label>
          Waiting{" "}
          <select value={query.age ?? ""} onChange={(e) => change({ age: e.currentTarget.value, order: undefined, id: undefined })}>
            {Object.entries(ages).map(([value, [name]]) => (
              <option key={value} value={value}>
                {name}
              </option>
            ))}
          </select>
        </label>
        <label>
          Sort{" "}
          <select value={query.order ?? "asc"} disabled={!!query.age} onChange={(e) => change({ order: e.currentTarget.value, id: undefined })}>
            <option value="asc">oldest first</option>
            <option value="desc">newest first</option>
          </select>
        </label>
      </div>
      {found.error && (
        <p class="error" role="alert">
          {found.error} <button onClick={found.again}>Try again</button>
        </p>
      )}
      {rows.length === 0 && found.value && !chosen ? (
        <div class="empty">
          {filtered ? (
            <p>No question is like that.</p>
          ) : (
            <>
              <p>
                <b>Nobody is asked anything.</b>
              </p>
              <p>
                When an agent asks before it runs a tool (<code>AskPerson</code>, LangChain's <code>HumanInTheLoopMiddleware</code>) or a node asks a question (<code>interrupt</code>), the question waits
                here until somebody answers it.
              </p>
            </>
          )}
        </div>
      ) : null}
      {last && <Sent key={last.run} {...last} />}
      {(rows.length > 0 || chosen) && (
        <div class="columns two">
          <div class="list">
            <div class="scroll" ref={box} tabIndex={0} role="listbox" aria-label="Questions that wait" aria-activedescendant={at >= 0 ? "ask-" + at : undefined} onKeyDown={onKey}>
              {rows.map((t, i) => (
                <a key={t.thread_id} id={"ask-" + i} role="option" tabIndex={-1} aria-selected={t.thread_id === chosen} class="ask" href={link(["inbox"], { ...query, id: t.thread_id })}>
                  <b dir="auto">{visible(titleOf(t))}</b>
                  <Time at={t.updated_at} />
                  <span class="words" dir="auto">
                    {visible(lineOf(t))}
                  </span>
                  <span class="note">{[graphOf(t), ownerOf(t)?.name].filter(Boolean).map(visible).join(" · ")}</span>
                </a>
              ))}
            </div>
            <p class="note foot">
              {count(rows.length)}
              {more ? " of more" : ""} {rows.length === 1 ? "thread waits" : "threads wait"}.{" "}
              {more &&
                (most < mostShown ? (
                  <button class="quiet" onClick={() => setMost(most + pageSize)}>
                    show more
                  </button>
                ) : (
                  "Filters show others."
                ))}
            </p>
          </div>
          <section aria-label="Question">
            {chosen ? <Asked key={chosen} id={chosen} row={rows[at]} done={done} /> : <p class="empty">Choose a question.</p>}
          </section>
        </div>
      )}
    </main>
  );
}

// Sent says what became of the last answer.
function Sent({ thread, run }: { thread: Thread; run: string }) {
  const id = thread.thread_id;
  const told = useLoad<{ status: string; error?: string } | undefined>(async () => (info.value?.stele?.runs ? list((await api.queueOf(id)).runs).find((r) => r.run_id === run) : await api.run(id, run)), [id, run]);
  const status = told.value?.status ?? "pending";
  const ended = status !== "pending" && status !== "running";
  useEvery(1000, () => ended || told.loading || told.again());
  const open = <a href={link(["threads", thread.thread_id])}>{visible(titleOf(thread) || thread.thread_id).slice(0, 60)}</a>;
  if (status === "error" || status === "timeout") {
    return (
      <p class="error" role="alert">
        {open}: the run failed. <Text text={told.value?.error} first={300} />
      </p>
    );
  }
  return (
    <p class="note inset" role="status">
      Answered: {open}. {ended ? "The run has ended." : "The agent continues."}
    </p>
  );
}

// Asked is a thread's questions with their form, and what was said before.
function Asked({ id, row, done }: { id: string; row: Thread | undefined; done: (t: Thread, run: string) => void }) {
  const mark = row?.updated_at;
  const state = useLoad(() => api.whole(id, brief()), [id, mark]);
  const other = useLoad(async () => row ?? (await api.thread(id, info.value?.stele?.thread_status)), [id, mark]);
  const thread = row ?? other.value;
  if (state.error && !state.value) {
    return (
      <p class="error" role="alert">
        {state.error}
      </p>
    );
  }
  if (!state.value || !thread) return <p class="note">Loading…</p>;
  const s = state.value;
  const { talk, by } = conversationOf(s);
  return (
    <>
      <a class="back quiet" href={link(["inbox"], { ...route.value.query, id: undefined })}>
        all questions
      </a>
      <h2>{visible(titleOf(thread)) || "A thread"}</h2>
      <p class="note about-thread">
        {[graphOf(thread), ownerOf(thread)?.name].filter(Boolean).map((name) => `${visible(name)} · `)}
        <CopyId id={id} /> · <Time at={thread.updated_at} /> ·{" "}
        <a href={link(["threads", id])}>open the thread</a>
      </p>
      {questionsIn(s).length > 0 ? (
        // An agent may run for minutes: nothing of the browser's is kept open for it.
        <Answer id={id} thread={thread} state={s} refresh={state.again} send={async (body) => (done(thread, await start(id, body)), {})} />
      ) : (
        <p class="empty">Nothing waits here any more: it was answered, or the thread has continued.</p>
      )}
      {talk.length > 0 && (
        <section aria-label="What was said">
          <h3>What was said{by && <span class="note"> in {by}</span>}</h3>
          <Conversation messages={talk} />
        </section>
      )}
    </>
  );
}

// conversationOf is what was said last where a question comes from: in the graph inside that asks, if it has messages, and
// else around it. by is the path of nodes to that graph.
function conversationOf(s: State, by = ""): { talk: Message[]; by: string } {
  const asking = tasksOf(s).find((t) => asksOf(t).length > 0 && t.state);
  if (asking?.state) {
    const inner = conversationOf(asking.state, [by, nodeName(asking.name)].filter(Boolean).join(" › "));
    if (inner.talk.length > 0) return inner;
  }
  const talk = isFields(s.values) ? Object.values(s.values).flatMap((v) => asMessages(v) ?? []) : [];
  return { talk: talk.slice(-6), by: talk.length > 0 ? by : "" };
}
