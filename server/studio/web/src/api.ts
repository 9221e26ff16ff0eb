// The client of LangGraph's server API. Every call is one request to the origin that served
// the page: Studio's own server passes them on where the API is elsewhere.

import { signal } from "@preact/signals";
import { parse } from "./json";
import { idOf } from "./tree";
import type { Assistant, BackedUp, CheckpointRef, Cron, Drawing, Fields, Info, Item, Json, NodesOfDay, PendingSignal, QueuedRun, RanTask, RefusedSignal, Room, Run, Schedule, State, Steps, StoreHealth, Thread, Verified, VersionOfGraph } from "./types";

// Problem is an answer that is no success. `detail` is the server's own text.
export class Problem extends Error {
  constructor(readonly status: number, readonly detail: string) {
    super(detail);
  }
  // A conflict means that somebody else was first, and that nothing was overwritten.
  get conflict() {
    return this.status === 409;
  }
}

// unknown: the server has answered that it does not know who asks.
export const unknown = signal(false);

// The key is kept for this tab, until it is closed.
const place = "stele.key";
let key = sessionStorage.getItem(place) ?? "";

export const hasKey = () => key !== "";

export function setKey(given: string) {
  key = given;
  if (given) sessionStorage.setItem(place, given);
  else sessionStorage.removeItem(place);
  unknown.value = false;
}

// credentials has the key in both of the forms in which servers ask for it. With a scheme of its own, such as
// `Basic …`, it is sent as it is.
function credentials(): Record<string, string> {
  if (!key) return {};
  return /^\S+ \S/.test(key) ? { Authorization: key } : { Authorization: "Bearer " + key, "X-Api-Key": key };
}

const base = new URL("api/", document.baseURI).href.replace(/\/$/, "");

async function ask(method: string, path: string, body?: Json, signal?: AbortSignal): Promise<Response> {
  let answer: Response;
  try {
    answer = await fetch(base + path, {
      method,
      signal,
      headers: { ...credentials(), ...(body === undefined ? {} : { "Content-Type": "application/json" }) },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Problem(0, "The server does not answer. Is it still running?");
  }
  if (answer.status === 401) unknown.value = true;
  if (!answer.ok) throw new Problem(answer.status, await detailOf(answer));
  return answer;
}

async function detailOf(answer: Response): Promise<string> {
  const text = await answer.text().catch(() => "");
  try {
    const body = JSON.parse(text);
    const detail = body?.detail ?? body?.message;
    if (typeof detail === "string") return detail;
    if (detail !== undefined) return JSON.stringify(detail);
  } catch {
    // not JSON: the text itself, below
  }
  return text.slice(0, 500) || `status ${answer.status}`;
}

async function json<T>(method: string, path: string, body?: Json, signal?: AbortSignal): Promise<T> {
  const answer = await ask(method, path, body, signal);
  if (answer.status === 204) return undefined as T;
  try {
    return parse(await answer.text()) as T;
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Problem(0, "The server's answer broke off.");
  }
}

// read is json for a request that changes nothing: one that the network loses is sent twice more.
async function read<T>(method: "GET" | "POST", path: string, body?: Json, signal?: AbortSignal): Promise<T> {
  for (const pause of [200, 1000]) {
    try {
      return await json<T>(method, path, body, signal);
    } catch (error) {
      if (!(error instanceof Problem) || error.status !== 0) throw error;
    }
    await new Promise((done) => setTimeout(done, pause));
  }
  return json<T>(method, path, body, signal);
}

const at = encodeURIComponent;

export interface ThreadSearch {
  limit: number;
  offset: number;
  status?: string;
  stele_status?: string;
  metadata?: Fields;
  ids?: string[];
  stele_prefix?: string[];
  stele_values?: "about";
  sort_by?: string;
  sort_order?: "asc" | "desc";
  select?: string[];
}

// runsListed is how many runs of a thread a list has at most, the newest ones.
export const runsListed = 50;

export const api = {
  // The page's own answer was asked for without a key.
  info: () => read<Info>("GET", hasKey() ? "/info?key" : "/info"),
  assistants: () => read<Assistant[]>("POST", "/assistants/search", { limit: 100 }),
  drawing: (assistant: string, xray: boolean) =>
    read<Drawing>("GET", `/assistants/${at(assistant)}/graph${xray ? "?xray=true" : ""}`),
  schemas: (assistant: string) => read<{ input_schema?: Fields }>("GET", `/assistants/${at(assistant)}/schemas`),

  threads: (q: ThreadSearch, signal?: AbortSignal) =>
    read<Thread[]>("POST", "/threads/search", q as unknown as Json, signal),
  countThreads: (q: Omit<ThreadSearch, "limit" | "offset" | "sort_by" | "sort_order">) => read<number>("POST", "/threads/count", q as unknown as Json),
  // thread is a thread; of a server of stele's, with how far it is in stele's words, and without
  // its values.
  thread: (id: string, stele = false) => read<Thread>("GET", `/threads/${at(id)}${stele ? "?include=stele_status&stele_values=about" : ""}`),
  createThread: (metadata: Fields) => json<Thread>("POST", "/threads", { metadata }),
  deleteThread: (id: string) => ask("DELETE", `/threads/${at(id)}`).then(() => undefined),
  copyThread: (id: string) => json<Thread>("POST", `/threads/${at(id)}/copy`, {}),

  // state is a checkpoint. A server of stele's leaves out large values if shown is "brief", and all
  // channels but one if it is "channel:" and the channel's name; "task:" and an id tells what a task is called with.
  state: (id: string, checkpoint?: string, shown?: string) =>
    read<State>("GET", `/threads/${at(id)}/state${checkpoint ? "/" + at(checkpoint) : ""}${shown ? "?stele_values=" + at(shown) : ""}`),
  // whole is the newest state with those of the graphs inside its tasks.
  whole: (id: string, shown?: string) => read<State>("GET", `/threads/${at(id)}/state?subgraphs=true${shown ? "&stele_values=" + at(shown) : ""}`),
  // history is a page of checkpoints, newest first; with of, those of a subgraph; with metadata, those that have it. Without
  // values, a server of stele's leaves out the values, and tells the tasks in short; others send them all the same.
  history: (id: string, limit: number, before: CheckpointRef | undefined, values: boolean, of?: CheckpointRef, metadata?: Fields) =>
    read<State[]>("POST", `/threads/${at(id)}/history`, {
      limit,
      ...(of ? { checkpoint: of as unknown as Json } : {}),
      // LangGraph's server reads the one in configurable alone.
      ...(before ? { before: { checkpoint_id: before.checkpoint_id!, configurable: { checkpoint_id: before.checkpoint_id! } } } : {}),
      ...(metadata ? { metadata } : {}),
      ...(values ? {} : { values: false }),
    }),
  update: (id: string, values: Json, asNode: string | undefined, checkpoint?: CheckpointRef) =>
    json<{ checkpoint: CheckpointRef }>("POST", `/threads/${at(id)}/state`, {
      values,
      ...(asNode ? { as_node: asNode } : {}),
      ...(checkpoint ? { checkpoint: checkpoint as unknown as Json } : {}),
    }),

  // unmoved fails as a conflict if the newest checkpoint is not that of seen any more, or if what of tells
  // of it is another: somebody else has gone on with the thread since the page read it.
  unmoved: async (id: string, seen: State | undefined, of: (s: State) => string = () => "", shown?: string) => {
    const now = await api.state(id, undefined, shown);
    if (idOf(now) !== (seen ? idOf(seen) : "") || (seen && of(now) !== of(seen))) {
      throw new Problem(409, "The thread has changed since this page read it. Look at it again, then decide.");
    }
  },

  runs: (id: string) => read<Run[]>("GET", `/threads/${at(id)}/runs?limit=${runsListed}`),
  cancel: (id: string, run: string) =>
    ask("POST", `/threads/${at(id)}/runs/${at(run)}/cancel?wait=false&action=interrupt`, {}).then(() => undefined),
  run: (id: string, run: string) => read<Run>("GET", `/threads/${at(id)}/runs/${at(run)}`),
  start: (id: string, body: Fields) => json<Run>("POST", `/threads/${at(id)}/runs`, body),
  // stream begins a run. Its events come once the server has taken it.
  stream: (id: string, body: Fields, signal: AbortSignal) => events(`/threads/${at(id)}/runs/stream`, body, signal),

  queue: (status: string) => read<{ runs: QueuedRun[]; total: number }>("GET", `/stele/runs${status ? "?status=" + at(status) : ""}`),
  queueOf: (id: string) => read<{ runs: QueuedRun[] }>("GET", `/stele/runs?thread_id=${at(id)}`),
  // tasksOf is what a run noted behind the event after. There is more if next is told.
  tasksOf: (id: string, run: string, after = 0) => read<{ tasks: RanTask[]; recorded: boolean; after?: number; next?: number }>("GET", `/stele/threads/${at(id)}/runs/${at(run)}/tasks${after ? "?after=" + after : ""}`),
  stepsOf: (id: string, checkpoint?: string) => read<Steps>("GET", `/stele/threads/${at(id)}/steps${checkpoint ? "?checkpoint_id=" + at(checkpoint) : ""}`),
  inbox: async (id: string) => {
    const of = `/stele/threads/${at(id)}/signals`;
    const [inbox, set] = await Promise.all([read<{ signals: PendingSignal[]; more: boolean }>("GET", of), read<{ refused: RefusedSignal[] }>("GET", of + "/refused")]);
    return { pending: inbox.signals, more: inbox.more, refused: set.refused };
  },
  signal: (id: string, name: string, body: Fields) => ask("POST", `/stele/threads/${at(id)}/signals/${at(name)}`, body).then(() => undefined),
  deleteRefused: (id: string, signal: string) => ask("DELETE", `/stele/threads/${at(id)}/signals/refused/${at(signal)}`).then(() => undefined),
  versions: () => read<{ versions: VersionOfGraph[] }>("GET", "/stele/versions"),
  nodes: () => read<NodesOfDay>("GET", "/stele/nodes"),
  retry: (run: string) => json<unknown>("POST", `/stele/runs/${at(run)}/retry`, {}),
  schedules: () => read<{ schedules: Schedule[] }>("GET", "/stele/schedules"),

  crons: () => read<Cron[]>("POST", "/runs/crons/search", { limit: 100 }),
  createCron: (thread: string, body: Fields) => json<Cron>("POST", (thread ? `/threads/${at(thread)}` : "") + "/runs/crons", body),
  enableCron: (id: string, enabled: boolean) => json<Cron>("PATCH", `/runs/crons/${at(id)}`, { enabled }),
  deleteCron: (id: string) => ask("DELETE", `/runs/crons/${at(id)}`).then(() => undefined),

  health: () => read<StoreHealth>("GET", "/stele/health"),
  room: () => read<Room>("GET", "/stele/room"),
  verify: () => json<Verified>("POST", "/stele/verify"),
  backup: () => json<BackedUp>("POST", "/stele/backup"),

  namespaces: (limit: number) => read<{ namespaces: string[][] }>("POST", "/store/namespaces", { limit }),
  items: (prefix: string[], query: string, limit: number, offset: number) =>
    read<{ items: Item[] }>("POST", "/store/items/search", {
      namespace_prefix: prefix,
      limit,
      offset,
      ...(query ? { query } : {}),
    }),
  putItem: (namespace: string[], key: string, value: Fields) =>
    ask("PUT", "/store/items", { namespace, key, value }).then(() => undefined),
  deleteItem: (namespace: string[], key: string) =>
    ask("DELETE", "/store/items", { namespace, key }).then(() => undefined),
};

export interface StreamEvent {
  event: string;
  data: Json;
  id?: string;
}

// events sends a request that begins a run and whose answer is a stream of server-sent events. The run's id stands
// in the head of the answer: the stream may break off before its first event.
async function events(path: string, body: Fields, signal: AbortSignal): Promise<{ run?: string; events: AsyncGenerator<StreamEvent> }> {
  const answer = await ask("POST", path, body, signal);
  return { run: answer.headers.get("content-location")?.match(/\/runs\/([^/?]+)/)?.[1], events: eventsOf(answer) };
}

async function* eventsOf(answer: Response): AsyncGenerator<StreamEvent> {
  const reader = answer.body!.pipeThrough(new TextDecoderStream()).getReader();
  const parser = new EventParser();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield* parser.push(value);
    }
  } finally {
    reader.cancel().catch(() => undefined);
  }
}

// EventParser splits a stream into events, as the HTML standard's "server-sent events" says:
// lines end with LF, CRLF or CR, an empty line ends an event, a line that begins with a colon
// is a comment.
export class EventParser {
  #rest = "";
  #name = "";
  #data: string[] = [];
  #id: string | undefined;

  *push(text: string): Generator<StreamEvent> {
    this.#rest += text;
    for (;;) {
      const end = this.#rest.search(/\r\n|\n|\r/);
      // A CR at the very end may be the first half of a CRLF.
      if (end < 0 || (this.#rest[end] === "\r" && end === this.#rest.length - 1)) return;
      const line = this.#rest.slice(0, end);
      this.#rest = this.#rest.slice(end + (this.#rest.startsWith("\r\n", end) ? 2 : 1));
      if (line === "") {
        if (this.#data.length > 0) yield this.#event();
        this.#name = "";
        this.#data = [];
        continue;
      }
      const colon = line.indexOf(":");
      if (colon === 0) continue;
      const field = colon < 0 ? line : line.slice(0, colon);
      const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
      if (field === "event") this.#name = value;
      else if (field === "data") this.#data.push(value);
      else if (field === "id") this.#id = value;
    }
  }

  #event(): StreamEvent {
    const text = this.#data.join("\n");
    let data: Json = text;
    try {
      data = parse(text);
    } catch {
      // an event of plain text
    }
    return { event: this.#name || "message", data, id: this.#id };
  }
}
