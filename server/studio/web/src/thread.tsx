// One thread: its history as a tree, the graph, and the chosen checkpoint.

import { memo } from "preact/compat";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { questionsOf } from "./about";
import { Actions } from "./actions";
import { Answer } from "./answer";
import { api } from "./api";
import { Guarded } from "./guarded";
import { graphs, info, readonly } from "./session";
import { assistantOf } from "./assistants";
import { Compare } from "./compare";
import { exportHTML, exportLines, save } from "./export";
import { Graph, type Mark } from "./graph";
import { type Loaded, say, useEvery, useLoad } from "./load";
import { asMessages, Conversation } from "./messages";
import { change, link, route } from "./route";
import { live } from "./running";
import { bytes, count, Id, list, spent, Text, Time, visible, word } from "./text";
import { RunStatus, Status, tookOf as tookOfRun } from "./status";
import { ancestryOf, asksOf, idOf, madeBy, nextOf, parentOf, type Row, rowsOf, standOf, stepOf, tasksOf } from "./tree";
import type { CheckpointRef, Fields, Json, QueuedRun, RanTask, State, Task, Thread } from "./types";
import { marked, numberOf, Value } from "./value";
import { useVirtual } from "./virtual";

const pageSize = 100;

// lazy: the history comes without values, which are fetched for the checkpoint that is shown.
const lazy = () => info.value?.stele?.lazy_history ?? false;

// useHistory is the history of a thread, newest first, loaded page by page, and read again at
// its top when the thread has changed.
function useHistory(id: string) {
  const [states, set] = useState<State[]>([]);
  const [status, setStatus] = useState<{ more: boolean; busy: boolean; error?: string }>({ more: true, busy: true });
  const turn = useRef(0);
  const busy = useRef(false);
  const known = useRef<State[]>([]);
  known.current = states;

  const first = async () => {
    const mine = ++turn.current;
    busy.current = true;
    try {
      const page = await api.history(id, pageSize, undefined, !lazy());
      if (mine !== turn.current) return;
      // What is older than this page stays, if the two touch.
      const ids = new Set(page.map(idOf));
      const oldest = page.at(-1);
      const at = oldest ? known.current.findIndex((s) => idOf(s) === idOf(oldest)) : -1;
      const older = at >= 0 ? known.current.slice(at + 1).filter((s) => !ids.has(idOf(s))) : [];
      set([...page, ...older]);
      setStatus((s) => ({ more: older.length > 0 ? s.more : page.length === pageSize, busy: false }));
    } catch (error) {
      if (mine === turn.current) setStatus({ more: false, busy: false, error: say(error) });
    } finally {
      busy.current = false;
    }
  };
  const next = async () => {
    const last = known.current.at(-1);
    if (busy.current || !last) return;
    busy.current = true;
    const mine = turn.current;
    setStatus((s) => ({ ...s, busy: true }));
    try {
      const page = await api.history(id, pageSize, last.checkpoint, !lazy());
      if (mine !== turn.current) return;
      set((all) => [...all, ...page]);
      setStatus({ more: page.length === pageSize, busy: false });
    } catch (error) {
      if (mine === turn.current) setStatus({ more: false, busy: false, error: say(error) });
    } finally {
      busy.current = false;
    }
  };
  useEffect(() => {
    set([]);
    setStatus({ more: true, busy: true });
    first();
    return () => void turn.current++;
  }, [id]);
  return { states, ...status, first, next };
}

export function ThreadScreen({ id }: { id: string }) {
  const query = route.value.query;
  const thread = useLoad(() => api.thread(id, info.value?.stele?.thread_status), [id]);
  const history = useHistory(id);
  const rows = useMemo(() => rowsOf(history.states), [history.states]);
  // The history is read again when the thread has changed, by this page or by another.
  const mark = thread.value ? [thread.value.updated_at, thread.value.status, thread.value.stele_status].map(word).join(" ") : "";
  const chosen = rows.find((r) => r.id === query.at) ?? (query.at ? undefined : rows[0]);
  // A link may lead to a checkpoint that is not loaded yet.
  const other = useLoad(async () => (query.at && !chosen && !history.busy ? await api.state(id, query.at) : undefined), [id, query.at, !!chosen, history.busy]);
  const state = chosen?.state ?? (other.value && idOf(other.value) === query.at ? other.value : undefined);
  const withState = useLoad(
    async () => (query.with ? ((!lazy() && rows.find((r) => r.id === query.with)?.state) || (await api.state(id, query.with))) : undefined),
    [id, query.with, history.states.length],
  );
  // What is shown of the chosen checkpoint has its values.
  // Large ones are left out until they are opened, except where checkpoints are compared.
  const brief = info.value?.stele?.brief_values && !query.with ? "brief" : undefined;
  const fetched = useLoad(async () => (lazy() && state ? await api.state(id, idOf(state), brief) : undefined), [id, state && idOf(state), mark, brief]);
  const whole = !lazy() ? state : fetched.value && state && idOf(fetched.value) === idOf(state) ? fetched.value : undefined;
  const seen = useRef("");
  useEvery(2500, () => {
    thread.again();
  });
  useEffect(() => {
    if (seen.current && mark && seen.current !== mark) history.first();
    if (mark) seen.current = mark;
  }, [mark]);

  const refresh = () => {
    thread.again();
    history.first();
  };
  if (thread.error && !thread.value) {
    return (
      <main>
        <p class="error" role="alert">
          {thread.error}
        </p>
        <p>
          <a href={link(["threads"])}>All threads</a>
        </p>
      </main>
    );
  }
  return (
    <main class="thread">
      <div class="bar">
        <h1>
          <Id id={id} />
        </h1>
        {thread.value && <Status thread={thread.value} />}
        <Actions id={id} thread={thread.value} state={whole ?? state} head={rows[0]?.state} refresh={refresh} />
        {rows.length > 0 && <Exports id={id} />}
      </div>
      <div class={query.with ? "columns comparing" : "columns"}>
        <History rows={rows} chosen={state ? idOf(state) : undefined} more={history.more} busy={history.busy} error={history.error} load={history.next} />
        <section class="middle" aria-label="Graph">
          <GraphOf thread={thread.value} state={whole ?? state} rows={rows} />
          <Runs id={id} mark={mark} waits={!!thread.value && questionsOf(thread.value).length > 0} refresh={refresh} />
        </section>
        <section class="detail" aria-label="Checkpoint">
          {live.value && live.value.thread === id && <Live />}
          {whole && query.with && withState.value ? (
            <>
              <h2>
                Compared with <Id id={query.with} short />{" "}
                <button class="quiet" onClick={() => change({ with: undefined })}>
                  end
                </button>
              </h2>
              <Compare before={withState.value} after={whole} rows={rows} />
            </>
          ) : whole && state ? (
            <Checkpoint id={id} thread={thread.value} state={whole} rows={rows} head={rows[0] ? idOf(rows[0].state) === idOf(state) : false} refresh={refresh} />
          ) : history.busy || other.loading || fetched.loading ? (
            <p class="note">Loading…</p>
          ) : (
            <p class="empty">{query.at ? (other.error ?? fetched.error ?? "This checkpoint is not there.") : "This thread has no checkpoint yet."}</p>
          )}
        </section>
      </div>
    </main>
  );
}

const rowHeight = 40;
const laneWidth = 14;

function History(props: { rows: Row[]; chosen: string | undefined; more: boolean; busy: boolean; error?: string; load: () => void }) {
  const { rows, chosen } = props;
  const scroller = useRef<HTMLDivElement>(null);
  const virtual = useVirtual(rows.length, rowHeight, () => scroller.current);
  const items = virtual.getVirtualItems();
  const last = items[items.length - 1]?.index ?? 0;
  useEffect(() => {
    if (props.more && !props.busy && rows.length > 0 && last >= rows.length - 20) props.load();
  }, [last, rows.length, props.more, props.busy]);
  const line = useMemo(() => (chosen ? ancestryOf(rows, chosen) : new Set<string>()), [rows, chosen]);
  const lanes = useMemo(() => rows.reduce((most, r) => Math.max(most, r.lane + 1, ...r.through.map((l) => l + 1)), 1), [rows]);
  const width = Math.min(lanes, 8) * laneWidth + 8;
  const onKey = (e: KeyboardEvent) => {
    const step = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1, PageDown: 10, PageUp: -10 }[e.key];
    if (step === undefined || rows.length === 0) return;
    e.preventDefault();
    // With Shift the other end of a comparison moves, as with the mouse.
    const { with: other } = route.peek().query;
    const from = Math.max(0, rows.findIndex((r) => r.id === (e.shiftKey ? (other ?? chosen) : chosen)));
    const to = Math.min(rows.length - 1, Math.max(0, from + step));
    change(e.shiftKey ? { at: chosen, with: rows[to]!.id } : { at: rows[to]!.id }, true);
    virtual.scrollToIndex(to);
  };
  const index = rows.findIndex((r) => r.id === chosen);
  const compared = route.value.query.with;
  return (
    <section class="history" aria-label="History">
      <div class="scroll" ref={scroller} tabIndex={0} role="listbox" aria-label="Checkpoints, newest first" aria-activedescendant={index >= 0 ? "cp-" + index : undefined} onKeyDown={onKey}>
        <div style={{ height: `${virtual.getTotalSize()}px`, position: "relative" }}>
          {items.map((item) => {
            const row = rows[item.index];
            if (!row) return null;
            return <HistoryRow key={row.id} row={row} index={item.index} top={item.start} width={width} down={item.index + 1 < rows.length} chosen={row.id === chosen} other={row.id === compared} line={line.has(row.id)} />;
          })}
        </div>
        {props.error && <p class="error">{props.error}</p>}
      </div>
      <p class="note foot">
        {count(rows.length)}
        {props.more ? " loaded" : ""} checkpoints.{" "}
        {route.value.query.pick ? (
          <>
            Choose the other one.{" "}
            <button class="quiet" onClick={() => change({ pick: undefined })}>
              never mind
            </button>
          </>
        ) : (
          rows.length > 1 && (
            <button class="quiet" title="Shift and click, or Shift and the arrow keys, do the same" onClick={() => change({ at: chosen, pick: "1" })}>
              compare two
            </button>
          )
        )}
      </p>
    </section>
  );
}

// HistoryRow is drawn again only when something about it changes: a frame of scrolling draws the
// rows that come in, and no others.
const HistoryRow = memo(function HistoryRow(props: { row: Row; index: number; top: number; width: number; down: boolean; chosen: boolean; other: boolean; line: boolean }) {
  const { row } = props;
  const stand = standOf(row.state);
  return (
    <a
      id={"cp-" + props.index}
      role="option"
      tabIndex={-1}
      aria-selected={props.chosen}
      class={(props.line ? "row line" : "row") + (props.other ? " other" : "")}
      style={`transform: translateY(${props.top}px); height: ${rowHeight}px`}
      href={link(route.peek().path, { ...route.peek().query, at: row.id })}
      onClick={(e) => {
        if (e.ctrlKey || e.metaKey) return; // a new tab
        e.preventDefault();
        change(e.shiftKey || route.peek().query.pick ? { with: row.id, pick: undefined } : { at: row.id });
      }}
    >
      <Lanes row={row} down={props.down} width={props.width} />
      <span class={"stand " + stand} title={stand} />
      <span class="what">{whatOf(row)}</span>
      <Time at={row.state.created_at} />
    </a>
  );
});

// whatOf says in a few words what a checkpoint is: who made it, and what ran.
function whatOf(row: Row): string {
  const made = madeBy(row.state);
  const next = nextOf(row.state).map((n) => (n === "__start__" ? "start" : visible(n)));
  const then = next.length ? "next: " + [...new Set(next)].slice(0, 3).join(", ") + (next.length > 3 ? "…" : "") : "end";
  const step = stepOf(row.state);
  return `${made}${step !== "" ? " " + step : ""} · ${then}`;
}

function Lanes({ row, down, width }: { row: Row; down: boolean; width: number }) {
  const x = (lane: number) => Math.min(lane, 7) * laneWidth + 8;
  const mid = rowHeight / 2;
  return (
    <svg class="lanes" width={width} height={rowHeight} aria-hidden="true">
      {row.through.map((l) => (
        <line key={l} x1={x(l)} x2={x(l)} y1={0} y2={rowHeight} />
      ))}
      {row.joins.map((l) => (
        <path key={"j" + l} d={`M${x(l)},0 C${x(l)},${mid} ${x(row.lane)},${mid / 3} ${x(row.lane)},${mid}`} />
      ))}
      {row.children.length > 0 && <line x1={x(row.lane)} x2={x(row.lane)} y1={0} y2={mid} />}
      {row.parent !== undefined && down && <line x1={x(row.lane)} x2={x(row.lane)} y1={mid} y2={rowHeight} />}
      <circle cx={x(row.lane)} cy={mid} r={4} />
    </svg>
  );
}

function GraphOf({ thread, state, rows }: { thread: Thread | undefined; state: State | undefined; rows: Row[] }) {
  const assistant = assistantOf(graphs.value, thread);
  const drawing = useLoad(async () => (assistant ? await api.drawing(assistant.assistant_id, false) : undefined), [assistant?.assistant_id]);
  if (!assistant) return <p class="note">No program is mounted that has this thread's graph, so it cannot be drawn.</p>;
  if (drawing.error) return <p class="note">{drawing.error}</p>;
  if (!drawing.value) return null;
  return <Graph drawing={drawing.value} marks={marksOf(state, rows)} />;
}

// Runs are those that the server knows of the thread, newest first.
function Runs({ id, mark, waits, refresh }: { id: string; mark: string; waits: boolean; refresh: () => void }) {
  const runs = useLoad(() => api.runs(id), [id, mark, live.value?.ended]);
  // A server of stele's also tells how often a run was tried, how long it took, and why it failed.
  const queued = useLoad(async () => (info.value?.stele?.runs ? (await api.queueOf(id)).runs : []), [id, mark, live.value?.ended]);
  const [error, setError] = useState<string>();
  if (!runs.value?.length) return null;
  const more = new Map(queued.value?.map((q) => [q.run_id, q]));
  return (
    <section aria-label="Runs">
      <h2>Runs</h2>
      <ul class="runs">
        {runs.value.map((r, i) => (
          <li key={r.run_id}>
            <RunStatus status={r.status} waiting={more.get(r.run_id)?.waiting ?? (waits && i === 0)} /> <Id id={r.run_id} short /> <Time at={r.created_at} /> <More run={more.get(r.run_id)} />
            {!readonly.value && (r.status === "running" || r.status === "pending") && (
              <button class="quiet" onClick={() => api.cancel(id, r.run_id).then(() => (runs.again(), refresh()), (e) => setError(say(e)))}>
                cancel
              </button>
            )}
          </li>
        ))}
      </ul>
      {error && (
        <p class="error" role="alert">
          {error}
        </p>
      )}
    </section>
  );
}

function More({ run }: { run: QueuedRun | undefined }) {
  if (!run) return null;
  const took = tookOfRun(run);
  return (
    <span class="note">
      {run.attempt > 1 && `${run.attempt} attempts `}
      {took && `took ${took} `}
      {run.error && <Text class="cause" text={run.error} first={200} />}
    </span>
  );
}

// marksOf says which nodes ran to make the checkpoint, and which run, wait or failed at it.
export function marksOf(state: State | undefined, rows: Row[]): Map<string, Mark> {
  const marks = new Map<string, Mark>();
  if (!state) return marks;
  const parent = rows.find((r) => r.id === parentOf(state))?.state;
  const ran = parent ? tasksOf(parent).map((t) => word(t.name)) : [];
  for (const name of ran.length || !parent ? ran : nextOf(parent)) marks.set(name, "ran");
  for (const n of nextOf(state)) marks.set(n, "next");
  for (const t of tasksOf(state)) {
    if (asksOf(t).length > 0) marks.set(word(t.name), "waiting");
    if (t.error) marks.set(word(t.name), "failed");
  }
  return marks;
}

// tookOf is the time between two checkpoints, for people.
function tookOf(state: State, before: State | undefined): string | undefined {
  if (typeof state.created_at !== "string" || typeof before?.created_at !== "string") return undefined;
  const ms = new Date(state.created_at).getTime() - new Date(before.created_at).getTime();
  return ms >= 0 ? spent(ms) : undefined;
}

function Checkpoint(props: { id: string; thread: Thread | undefined; state: State; rows: Row[]; head: boolean; refresh: () => void }) {
  const { id, thread, state, head, refresh } = props;
  const parent = parentOf(state);
  const before = props.rows.find((r) => r.id === parent)?.state;
  const took = tookOf(state, before);
  const entries = state.values !== null && typeof state.values === "object" && !Array.isArray(state.values) ? Object.entries(state.values) : undefined;
  return (
    <>
      <h2>
        {madeBy(state)} {stepOf(state)} <Id id={idOf(state)} short />
        {parent && (
          <a class="quiet" href={link(route.value.path, { ...route.value.query, at: idOf(state), with: parent })}>
            what changed
          </a>
        )}
      </h2>
      {head && <Answer id={id} thread={thread} state={state} refresh={refresh} />}
      <Tasks id={id} state={state} rows={props.rows} />
      <section aria-label="Values">
        <h3>Values</h3>
        {entries ? (
          entries.length ? (
            entries.map(([name, value]) => (
              <Guarded key={name}>
                <Channel id={id} at={idOf(state)} name={name} value={value} />
              </Guarded>
            ))
          ) : (
            <p class="empty">No channel has a value.</p>
          )
        ) : (
          <Value value={state.values} open />
        )}
      </section>
      <section aria-label="About this checkpoint">
        <h3>About</h3>
        <Value name="checkpoint" value={state.checkpoint as unknown as Json} />
        <Value name="metadata" value={state.metadata} />
        <Value name="created" value={state.created_at} />
        {took && <p class="note">Made {took} after its parent.</p>}
      </section>
    </>
  );
}

function Channel({ id, at, name, value }: { id: string; at: string; name: string; value: Json }) {
  if (marked(value) === "large") return <Large id={id} at={at} name={name} size={numberOf((value as Fields).bytes)} />;
  const messages = asMessages(value);
  if (!messages) return <Value name={name} value={value} open={small(value)} />;
  return (
    <div>
      <h4>{visible(name)}</h4>
      <Conversation messages={messages} />
    </div>
  );
}

// Large is the value of a channel that is fetched when a person opens it.
function Large({ id, at, name, size }: { id: string; at: string; name: string; size: number }) {
  const [open, set] = useState(false);
  const state = useLoad(async () => (open ? await api.state(id, at, "channel:" + name) : undefined), [open, id, at, name]);
  const value = (state.value?.values as Fields | undefined)?.[name];
  const messages = asMessages(value);
  if (messages) {
    return (
      <div>
        <h4>{visible(name)}</h4>
        <Conversation messages={messages} />
      </div>
    );
  }
  if (value !== undefined) return <Value name={name} value={value} open />;
  return (
    <div class="leaf">
      <span class="key">{visible(name)}</span>
      <button class="quiet" disabled={open && !state.error} onClick={() => (open ? state.again() : set(true))}>
        {open && !state.error ? "loading" : "show"} {bytes(size)}
      </button>
      {state.error && <p class="error">{state.error}</p>}
    </div>
  );
}

// mostInside is how many checkpoints of a subgraph are shown.
const mostInside = 50;

// Subgraph is the history of the graph that a task runs, read when it is opened.
function Subgraph({ id, at }: { id: string; at: CheckpointRef }) {
  const [open, set] = useState(false);
  const states = useLoad(async () => (open ? await api.history(id, mostInside, undefined, true, at) : undefined), [open, id, JSON.stringify(at)]);
  return (
    <div>
      <button class="toggle" aria-expanded={open} onClick={() => set(!open)}>
        subgraph <span class="preview">{visible(at.checkpoint_ns)}</span>
      </button>
      {open && (
        <div class="inner">
          {states.error && <p class="error">{states.error}</p>}
          {states.value?.map((s, i) => (
            <details key={idOf(s)} class="task" open={i === 0}>
              <summary>
                {madeBy(s)} {stepOf(s)} · next: {nextOf(s).map(visible).join(", ") || "end"}
              </summary>
              <Value name="values" value={s.values} open />
              {tasksOf(s).map((t) => (
                <div key={word(t.id)}>
                  <Value name={t.name} value={t as unknown as Json} />
                  {!!t.checkpoint && <Subgraph id={id} at={t.checkpoint} />}
                </div>
              ))}
            </details>
          ))}
          {states.value?.length === 0 && <p class="empty">It has no checkpoint yet.</p>}
          {states.value?.length === mostInside && <p class="note">Older ones are not shown.</p>}
        </div>
      )}
    </div>
  );
}

// useTasks is what the server noted of tasks of a checkpoint: by the run that made a checkpoint
// from it, and, of tasks that this run did not begin, by the last runs of the thread.
function useTasks(id: string, state: State, rows: Row[]): Loaded<Map<string, RanTask>> {
  const children = rows.filter((r) => r.parent === idOf(state)).map((r) => word(r.state.metadata?.run_id));
  const runs = [...new Set(children.filter(Boolean))].join();
  const ids = tasksOf(state).map((t) => word(t.id)).join();
  return useLoad(async () => {
    const found = new Map<string, RanTask>();
    if (!info.value?.stele?.tasks || !ids) return found;
    const look = async (runs: string[]) => {
      for (const run of runs) {
        const told = await api.tasksOf(id, run).catch(() => undefined); // a run that the queue does not keep
        for (const t of list(told?.tasks)) {
          const other = found.get(t.id);
          const newest = other && other.began_at > t.began_at ? other : t;
          found.set(t.id, { ...newest, starts: t.starts + (other?.starts ?? 0) });
        }
      }
    };
    const made = runs ? runs.split(",") : [];
    await look(made);
    // What ended in an earlier run is kept by those that went on, and only that one noted it.
    if (!ids.split(",").every((task) => found.has(task))) {
      const recent = (await api.runs(id)).slice(0, 5).map((r) => r.run_id);
      await look(recent.filter((run) => !made.includes(run)));
    }
    return found;
  }, [id, idOf(state), ids, runs, live.value?.ended]);
}

function Tasks({ id, state, rows }: { id: string; state: State; rows: Row[] }) {
  const ran = useTasks(id, state, rows);
  const tasks = tasksOf(state);
  if (tasks.length === 0) return null;
  return (
    <section aria-label="Tasks">
      <h3>Tasks</h3>
      {tasks.map((t, i) => (
        <TaskOf key={word(t.id) + i} id={id} at={idOf(state)} task={t} ran={ran.value?.get(word(t.id))} asked={!!info.value?.stele?.tasks && !!ran.value} />
      ))}
    </section>
  );
}

function TaskOf({ id, at, task: t, ran, asked }: { id: string; at: string; task: Task; ran: RanTask | undefined; asked: boolean }) {
  const asks = asksOf(t);
  const ended = t.result !== undefined && t.result !== null;
  return (
    <details class={"task" + (t.error ? " failed" : "")} open={!!t.error}>
      <summary>
        <b>{visible(t.name)}</b> {t.error ? "failed" : ended ? "ended" : asks.length ? "waits for an answer" : ran?.status === "begun" ? "has begun" : "is to run"}
        {ran && <span class="note took"> {tookBy(ran)}</span>}
      </summary>
      {!!t.error && (
        <pre class="error">
          <Text text={t.error} />
        </pre>
      )}
      {info.value?.stele?.task_inputs && <Input id={id} at={at} task={word(t.id)} />}
      {ended && <Value name="writes" value={t.result} open />}
      {asks.length > 0 && <Value name="interrupts" value={asks as unknown as Json} />}
      {!!t.checkpoint && <Subgraph id={id} at={t.checkpoint} />}
      <Value name="id" value={t.id} />
      {t.path !== undefined && <Value name="path" value={t.path} />}
      {ran ? (
        <p class="note">
          Begun <Time at={ran.began_at} />
          {ran.starts > 1 && ` (${ran.starts} times in all)`}
          {ran.attempts > 0 && `; its node was called ${ran.attempts === 1 ? "once" : ran.attempts + " times"}, in ${spent(ran.took_ns / 1e6)}`}.
        </p>
      ) : (
        <p class="note">{asked ? "No run of the server's queue noted when this task ran." : !info.value?.stele?.tasks && "This server does not tell what the task was called with, its duration or its retries."}</p>
      )}
    </details>
  );
}

// tookBy says in short how long a task took, and how often it was tried.
function tookBy(ran: RanTask): string {
  const tries = Math.max(ran.starts, 1) - 1 + Math.max(ran.attempts, 1);
  return [ran.status === "begun" ? "" : spent(ran.took_ns / 1e6), tries > 1 ? `${tries} tries` : ""].filter(Boolean).join(", ");
}

// Input is what a task is called with, fetched when a person opens it.
function Input({ id, at, task }: { id: string; at: string; task: string }) {
  const [open, set] = useState(false);
  const state = useLoad(async () => (open ? await api.state(id, at, "task:" + task) : undefined), [open, id, at, task]);
  const told = state.value && tasksOf(state.value)[0];
  if (told) return <Value name="input" value={told.stele_input} open />;
  return (
    <div class="leaf">
      <span class="key">input</span>
      <button class="quiet" disabled={open && state.loading} onClick={() => (open ? state.again() : set(true))}>
        {state.value ? "is not told" : open && state.loading ? "loading" : "show"}
      </button>
      {state.error && <p class="error">{state.error}</p>}
    </div>
  );
}

function small(value: Json): boolean {
  if (value === null || typeof value !== "object") return true;
  return (Array.isArray(value) ? value.length : Object.keys(value).length) <= 12;
}

function Live() {
  const l = live.value!;
  return (
    <section class="live" aria-label="Running" aria-live="polite">
      <h3>
        {l.ended ? (l.error ? "The run failed" : "The run ended") : "Running"}{" "}
        {l.ended ? (
          <button class="quiet" onClick={() => (live.value = undefined)}>
            close
          </button>
        ) : (
          <button class="quiet" onClick={() => l.cancel()}>
            cancel
          </button>
        )}
      </h3>
      {l.error && (
        <p class="error" role="alert">
          <Text text={l.error} />
        </p>
      )}
      {l.nodes.length > 0 && <p class="note">{l.nodes.slice(-8).map(visible).join(" → ")}</p>}
      {l.texts.map(([id, text]) => (
        <div class="bubble ai" key={id}>
          <Text text={text} first={100_000} />
        </div>
      ))}
    </section>
  );
}

// Exports reads the whole history, with its values, when it is asked to.
function Exports({ id }: { id: string }) {
  const [open, set] = useState(false);
  const [read, setRead] = useState<number>();
  const [error, setError] = useState<string>();
  const give = async (make: (states: State[]) => void) => {
    setError(undefined);
    const states: State[] = [];
    try {
      for (;;) {
        setRead(states.length);
        const page = await api.history(id, pageSize, states.at(-1)?.checkpoint, true);
        states.push(...page);
        if (page.length < pageSize) break;
      }
      make(states);
      set(false);
    } catch (e) {
      setError(say(e));
    }
    setRead(undefined);
  };
  return (
    <div class="menu">
      <button aria-expanded={open} onClick={() => set(!open)}>
        Export
      </button>
      {open && (
        <div class="items">
          <button disabled={read !== undefined} onClick={() => give((states) => save(`${id}.ndjson`, "application/x-ndjson", exportLines(states)))}>
            NDJSON
          </button>
          <button disabled={read !== undefined} onClick={() => give((states) => save(`${id}.html`, "text/html", exportHTML(id, states)))}>
            A page to hand on
          </button>
          {read !== undefined && <p class="note">{count(read)} checkpoints read</p>}
          {error && <p class="error">{error}</p>}
        </div>
      )}
    </div>
  );
}
