// The list of threads: searched, filtered, sorted, loaded page by page while it is scrolled.

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { api, type ThreadSearch } from "./api";
import { Form } from "./dialog";
import { parse } from "./json";
import { say, useEvery, useLoad } from "./load";
import { change, go, link, route } from "./route";
import { SearchField } from "./search";
import { Status } from "./status";
import { count, Time, visible } from "./text";
import type { Fields, Thread } from "./types";
import { useVirtual } from "./virtual";
import { failureOf, graphOf, lastedOf, lineOf, ownerOf, questionsOf, titleOf } from "./about";
import { copy, CopyId } from "./copy";
import { graphs, info, readonly } from "./session";

// What can be seen comes first: a screen of rows, and pages behind it.
const firstPage = 40;
const pageSize = 100;
const rowHeight = 56;

// LangGraph's statuses, and the words of stele's for the same. Links may have either.
const words: Record<string, string> = { interrupted: "waiting", error: "failed", busy: "running", idle: "done" };
const statuses = [
  ["", "all"],
  ["interrupted", "waiting"],
  ["error", "failed"],
  ["busy", "running"],
  ["idle", "done"],
] as const;
const steleStatuses = ["", "done", "waiting", "sleeping", "failed", "unfinished", "running"].map((word) => [word, word || "all"] as const);

// told: the server tells how far a thread is in stele's words.
const told = () => info.value?.stele?.thread_status ?? false;
// brief: the server can leave out the values of threads.
const brief = () => info.value?.stele?.brief_values ?? false;

function statusOf(query: Record<string, string>): string {
  const status = query.status ?? "";
  if (told()) return words[status] ?? status;
  return status === "unfinished" ? "interrupted" : (Object.keys(words).find((name) => words[name] === status) ?? status);
}

// searchOf reads what was typed: `key=value` pairs select by metadata, anything else is a
// thread's id, or how it begins where the server can search by that.
export function searchOf(query: Record<string, string>): Omit<ThreadSearch, "limit" | "offset"> {
  const status = statusOf(query);
  const metadata: Fields = {};
  const ids: string[] = [];
  for (const word of (query.q ?? "").split(/\s+/).filter(Boolean)) {
    const equals = word.indexOf("=");
    if (equals > 0) {
      const text = word.slice(equals + 1);
      try {
        metadata[word.slice(0, equals)] = parse(text);
      } catch {
        metadata[word.slice(0, equals)] = text;
      }
    } else ids.push(word);
  }
  // The assistant that a server makes for a graph stands for all threads of the graph, also for
  // those that a program beside the server has made.
  const assistant = query.assistant && graphs.value?.find((a) => a.assistant_id === query.assistant);
  if (assistant && assistant.metadata?.created_by === "system") metadata.graph_id = assistant.graph_id;
  else if (query.assistant) metadata.assistant_id = query.assistant;
  return {
    ...(told() ? { stele_status: status || "any" } : status ? { status } : {}),
    ...(Object.keys(metadata).length ? { metadata } : {}),
    ...(ids.length ? (info.value?.stele?.thread_prefix ? { stele_prefix: ids } : { ids }) : {}),
    ...(brief() ? { stele_values: "about" as const } : {}),
    sort_by: query.sort || "updated_at",
    sort_order: query.order === "asc" ? "asc" : "desc",
  };
}

// renewed is a list whose first rows were read again. What lies below them stays, and so do rows
// that moved there from among the first, because others came to the top.
function renewed(all: Thread[], page: Thread[], limit: number): Thread[] {
  if (page.length < limit) return page; // there is nothing below
  const before = idsOf(all.slice(0, limit));
  const fresh = page.filter((t) => !before.has(t.thread_id)).length;
  return joined(page, all.slice(limit - fresh));
}

// without is a list without those of some rows, read again, that are not there any more, or are not
// what is searched for.
function without(all: Thread[], rows: Thread[], still: Thread[]): Thread[] {
  const asked = idsOf(rows);
  const there = new Map(still.map((t) => [t.thread_id, t]));
  return all.flatMap((t) => (asked.has(t.thread_id) ? (there.get(t.thread_id) ?? []) : [t]));
}

// joined is a list and what follows it. A thread is in it once.
function joined(upper: Thread[], lower: Thread[]): Thread[] {
  const ids = idsOf(upper);
  return [...upper, ...lower.filter((t) => !ids.has(t.thread_id))];
}

const idsOf = (threads: Thread[]) => new Set(threads.map((t) => t.thread_id));

// ahead is what the list of the address asks for first, sent before the page is drawn.
let ahead: { key: string; page: Promise<Thread[]> } | undefined;

// warm fetches what shows a thread, once the list of threads is drawn.
let warmed = false;
function warm() {
  if (warmed) return;
  warmed = true;
  setTimeout(() => void import("./thread").catch(() => undefined), 500);
}

// sendAhead asks for the list of threads, if that is the screen, once the server has told what it is.
export function sendAhead() {
  const { path, query } = route.value;
  if (path[0] !== "threads" || path[1] !== undefined) return;
  const search = searchOf(query);
  ahead = { key: JSON.stringify(search), page: api.threads({ ...search, limit: firstPage, offset: 0 }) };
  ahead.page.catch(() => undefined); // the list says it
}

// sentAhead is the answer to what was sent ahead, once.
function sentAhead(key: string): Promise<Thread[]> | undefined {
  const page = ahead?.key === key ? ahead.page : undefined;
  ahead = undefined;
  return page;
}

// kept is the list as it was when it was left: who comes back finds it as it was, and then what is new.
let kept: { key: string; query: Record<string, string>; threads: Thread[]; top: number } | undefined;

// listQuery is what the list was asked for when it was left.
export const listQuery = () => kept?.query ?? {};

export function Threads() {
  const query = route.value.query;
  const search = searchOf(query);
  const key = JSON.stringify(search);
  const [before] = useState(() => (kept?.key === key ? kept : undefined));
  const [threads, set] = useState<Thread[]>(before?.threads ?? []);
  const [state, setState] = useState<{ more: boolean; busy: boolean; error?: string }>({ more: true, busy: false });
  const [making, make] = useState(false);
  const mostAgain = brief() ? 1000 : 300;
  const current = useRef(key);
  current.current = key;
  const busy = useRef(false);

  const load = async (offset: number, limit: number, again = false) => {
    if (busy.current && offset > 0) return;
    busy.current = true;
    setState((s) => ({ ...s, busy: true }));
    try {
      const page = await (sentAhead(key) ?? api.threads({ ...search, limit, offset }));
      if (current.current !== key) return;
      set((all) => (offset > 0 ? joined(all, page) : again ? renewed(all, page, limit) : page));
      setState((s) => ({ more: again ? s.more || !!s.error : page.length === limit, busy: false }));
      warm();
    } catch (error) {
      if (current.current === key) setState({ more: false, busy: false, error: say(error) });
    } finally {
      busy.current = false;
    }
  };
  // Before the frame is drawn: what is asked for is on its way meanwhile. The first load of the page
  // was sent even before.
  const came = useRef(false);
  useLayoutEffect(() => {
    const rows = came.current ? 0 : (before?.threads.length ?? 0);
    came.current = true;
    if (rows === 0) set([]);
    load(0, Math.min(mostAgain, Math.max(firstPage, rows)), rows > mostAgain);
  }, [key]);
  // What is on the screen is read again every few seconds: others work on the same store. It is
  // at most what a server gives at a time, and less where each thread comes with all its values.
  useEvery(4000, () => {
    if (busy.current) return;
    load(0, Math.min(mostAgain, Math.max(firstPage, threads.length)), threads.length > mostAgain).then(seeAgain);
  });
  // Of rows below what is read again, those on the screen are asked for by their ids.
  const seen = useRef<Thread[]>([]);
  const seeAgain = async () => {
    const rows = seen.current;
    if (rows.length === 0 || current.current !== key) return;
    const ids = rows.map((t) => t.thread_id);
    const asked = { ...search, stele_prefix: undefined, ids: search.ids?.length ? ids.filter((id) => search.ids!.includes(id)) : ids, limit: ids.length, offset: 0 };
    const still = await api.threads(asked).catch(() => undefined); // the next look says what is wrong
    if (still && current.current === key) set((all) => without(all, rows, still));
  };

  const scroller = useRef<HTMLDivElement>(null);
  const virtual = useVirtual(threads.length, rowHeight, () => scroller.current);
  const items = virtual.getVirtualItems();
  const last = items[items.length - 1]?.index ?? 0;
  seen.current = items.flatMap((item) => (item.index >= mostAgain && threads[item.index]) || []);
  useEffect(() => {
    if (state.more && !state.busy && threads.length > 0 && last >= threads.length - 20) load(threads.length, pageSize);
  }, [last, threads.length, state.more, state.busy]);

  // The server counts those that are not read.
  const { limit: _, sort_by: _by, sort_order: _order, stele_values: _values, ...counted } = { limit: 0, ...search };
  const total = useLoad(async () => (state.more && threads.length > 0 ? await api.countThreads(counted) : undefined), [key, state.more, threads.length > 0]);
  const all = state.more ? total.value : threads.length;

  const left = useRef({ key, query, threads, top: 0 });
  left.current = { key, query, threads, top: virtual.scrollOffset ?? 0 };
  useLayoutEffect(() => {
    if (before) scroller.current!.scrollTop = before.top;
    if (query.row) scroller.current!.focus({ preventScroll: true });
    return () => void (kept = left.current);
  }, []);

  const chosen = Math.max(0, threads.findIndex((t) => t.thread_id === query.row));
  const onKey = (e: KeyboardEvent) => {
    const step = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1, PageDown: 10, PageUp: -10 }[e.key];
    if (step !== undefined) {
      const to = Math.min(threads.length - 1, Math.max(0, query.row ? chosen + step : 0));
      const thread = threads[to];
      if (thread) {
        change({ row: thread.thread_id }, true);
        virtual.scrollToIndex(to);
      }
    } else if (e.key === "Enter" && query.row && threads[chosen]) go(["threads", threads[chosen].thread_id]);
    else if (e.key === "c" && query.row && threads[chosen] && !e.ctrlKey && !e.metaKey) void copy(threads[chosen].thread_id);
    else return;
    e.preventDefault();
  };

  return (
    <main class="threads">
      <h1 class="unseen">Threads</h1>
      <div class="bar">
        <SearchField label="Search by id or metadata" placeholder="Thread id, or owner=bob" forget="row" />
        <label>
          Status{" "}
          <select value={statusOf(query)} onChange={(e) => change({ status: e.currentTarget.value })}>
            {(told() ? steleStatuses : statuses).map(([value, name]) => (
              <option key={value} value={value}>
                {name}
              </option>
            ))}
          </select>
        </label>
        <AssistantFilter />
        <label>
          Sort{" "}
          <select
            value={`${query.sort || "updated_at"} ${query.order || "desc"}`}
            onChange={(e) => {
              const [sort, order] = e.currentTarget.value.split(" ");
              change({ sort, order });
            }}
          >
            <option value="updated_at desc">newest change</option>
            <option value="updated_at asc">oldest change</option>
            <option value="created_at desc">newest created</option>
            <option value="created_at asc">oldest created</option>
            <option value="thread_id asc">id</option>
          </select>
        </label>
        {!readonly.value && (
          <button class={graphs.value?.length ? "primary" : undefined} onClick={() => make(true)}>
            New thread
          </button>
        )}
      </div>
      {state.error && (
        <p class="error" role="alert">
          {state.error} <button onClick={() => load(0, firstPage)}>Try again</button>
        </p>
      )}
      {threads.length > 0 && (
        <div class="heads" aria-hidden="true">
          <span>Status</span>
          <span>{all === undefined ? "Thread" : all === 1 ? "1 thread" : `${count(all)} threads`}</span>
          <span>Graph</span>
          <span>Owner</span>
          <span>Id</span>
          <span>Lasted</span>
          <span>Changed</span>
        </div>
      )}
      <div class="scroll" ref={scroller} tabIndex={0} role="listbox" aria-label="Threads" aria-activedescendant={query.row ? "row-" + chosen : undefined} onKeyDown={onKey}>
        <div style={{ height: `${virtual.getTotalSize()}px`, position: "relative" }}>
          {items.map((item) => {
            const t = threads[item.index];
            if (!t) return null;
            return (
              <a
                key={t.thread_id}
                id={"row-" + item.index}
                role="option"
                aria-selected={t.thread_id === query.row}
                tabIndex={-1}
                class="row"
                style={{ transform: `translateY(${item.start}px)`, height: `${rowHeight}px` }}
                href={link(["threads", t.thread_id])}
                onClick={() => change({ row: t.thread_id }, true)}
              >
                <Status thread={t} />
                <span class="what">
                  <b dir="auto">{visible(titleOf(t)) || <span class="note">untitled</span>}</b>
                  <span class={questionsOf(t).length ? "about asks" : failureOf(t) ? "about bad" : "about"} dir="auto">
                    {visible(lineOf(t))}
                  </span>
                </span>
                <span class="note of">{visible(graphOf(t))}</span>
                <span class="note of">{visible(ownerOf(t)?.name)}</span>
                <CopyId id={t.thread_id} inRow />
                <span class="note of">{lastedOf(t)}</span>
                <Time at={t.updated_at} />
              </a>
            );
          })}
        </div>
        {threads.length === 0 && !state.busy && !state.error && (
          <div class="empty">
            {key !== JSON.stringify(searchOf({})) ? (
              <p>No thread is like that.</p>
            ) : (
              <>
                <p>
                  <b>There are no threads yet.</b>
                </p>
                <p>
                  A thread is one conversation or one job of an agent, with all its checkpoints. Threads come when a program runs a graph
                  {readonly.value ? "." : graphs.value?.length ? ", or here: New thread, then Send input." : ". To start one here, connect Studio to a server that runs your graphs."}
                </p>
              </>
            )}
          </div>
        )}
      </div>
      {making && (
        <Form
          title="New thread"
          act="Create"
          close={() => make(false)}
          submit={async () => {
            const t = await api.createThread({});
            go(["threads", t.thread_id]);
          }}
        >
          <p>A new thread is empty until a run begins on it.</p>
        </Form>
      )}
    </main>
  );
}

// AssistantFilter chooses the assistant whose threads are shown.
export function AssistantFilter() {
  const { assistant } = route.value.query;
  if ((graphs.value?.length ?? 0) < 2) return null;
  return (
    <label>
      Assistant{" "}
      <select value={assistant ?? ""} onChange={(e) => change({ assistant: e.currentTarget.value, row: undefined, id: undefined })}>
        <option value="">all</option>
        {graphs.value!.map((a) => (
          <option key={a.assistant_id} value={a.assistant_id}>
            {visible(a.name || a.graph_id)}
          </option>
        ))}
      </select>
    </label>
  );
}
