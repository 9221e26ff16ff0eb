// One thread: its history as a tree, the graph, and the chosen checkpoint.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { graphOf, ownerOf, questionsOf, titleOf } from "./about";
import { Actions } from "./actions";
import { Answer } from "./answer";
import { api, runsListed } from "./api";
import { CancelRun } from "./dialog";
import { Guarded } from "./guarded";
import { brief, graphs, info, readonly, titled } from "./session";
import { assistantOf } from "./assistants";
import { Compare } from "./compare";
import { CopyId } from "./copy";
import { type Deed, deedsOf, tokensOf, withNoted } from "./deeds";
import { exportHTML, exportLines, save } from "./export";
import { Graph, type Mark, withTaken } from "./graph";
import { lazy, pageSize, useHistory } from "./history";
import { type Loaded, say, useEvery, useLoad } from "./load";
import { asMessages, Conversation } from "./messages";
import { internal, internalLast, nodeName } from "./names";
import { change, link, route } from "./route";
import { forget, liveOf, run } from "./running";
import { bytes, causeOf, count, Id, list, spent, Text, Time, visible, word } from "./text";
import { Cause, RunStatus, sleepsOf, Status, tookOf as tookOfRun, triesOf } from "./status";
import { Signals } from "./signals";
import { History, Words } from "./steps";
import { notesOf, runsShown, useRan } from "./ran";
import { Timeline } from "./timeline";
import { asksOf, idOf, madeBy, nextOf, parentOf, type Row, rowsOf, stepOf, tasksOf, waitInWords, waitsOf } from "./tree";
import type { CheckpointRef, Fields, Json, QueuedRun, RanTask, Run, State, Steps, Task, Thread } from "./types";
import { marked, numberOf, Value } from "./value";
import { useSteps, Workflow } from "./workflow";

export function ThreadScreen({ id }: { id: string }) {
  const query = route.value.query;
  const thread = useLoad(() => api.thread(id, info.value?.stele?.thread_status), [id]);
  const history = useHistory(id);
  // What a jump left out parts the tree in two.
  const rows = useMemo(() => [...rowsOf(history.top), ...rowsOf(history.rest)], [history.top, history.rest]);
  const said = useMemo(() => deedsOf(rows), [rows]);
  // The history is read again when the thread has changed, by this page or by another.
  const mark = thread.value ? [thread.value.updated_at, thread.value.status, thread.value.stele_status].map(word).join(" ") : "";
  const [shown, show] = useState(runsShown);
  const runs = useLoad(async () => (mark ? await api.runs(id) : undefined), [id, mark, liveOf(id)?.ended]);
  const ran = useRan(id, runs, shown);
  const deeds = useMemo(() => withNoted(said, ran.value?.noted ?? []), [said, ran.value]);
  const chosen = rows.find((r) => r.id === query.at) ?? (query.at ? undefined : rows[0]);
  // A link may lead to a checkpoint that is not loaded yet.
  const other = useLoad(async () => (query.at && !chosen && !history.busy ? await api.state(id, query.at) : undefined), [id, query.at, !!chosen, history.busy]);
  const state = chosen?.state ?? (other.value && idOf(other.value) === query.at ? other.value : undefined);
  const withState = useLoad(
    async () => (query.with ? ((!lazy() && rows.find((r) => r.id === query.with)?.state) || (await api.state(id, query.with))) : undefined),
    [id, query.with, rows.length],
  );
  // What is shown of the chosen checkpoint has its values.
  // Large ones are left out until they are opened, except where checkpoints are compared.
  const large = query.with ? undefined : brief();
  const fetched = useLoad(async () => (lazy() && state ? await api.state(id, idOf(state), large) : undefined), [id, state && idOf(state), mark, large]);
  const whole = !lazy() ? state : fetched.value && state && idOf(fetched.value) === idOf(state) ? fetched.value : undefined;
  // The newest checkpoint has the steps of the superstep that is under way, or that led to it.
  const newest = !query.at || (!!state && !!rows[0] && idOf(rows[0].state) === idOf(state));
  const steps = useSteps(id, newest ? undefined : state && idOf(state), mark);
  const parent = steps.value?.parent_thread_id;
  const seen = useRef("");
  useEvery(2500, () => {
    thread.again();
    if (newest && thread.value?.status === "busy") steps.again();
  });
  const title = thread.value && titleOf(thread.value);
  useEffect(() => {
    titled.value = title ? { id, title } : undefined;
  }, [id, title]);
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
        <div class="named">
          <h1>{visible(thread.value && titleOf(thread.value)) || "untitled"}</h1>
          <p class="note">
            {thread.value && [graphOf(thread.value), versionOf(thread.value, rows[0]?.state), ownerOf(thread.value)?.name].filter(Boolean).map((name) => `${visible(name)} · `)}
            <CopyId id={id} />
            {parent && (
              <>
                {" · "}
                <a href={link(["threads", parent])}>
                  child of <Id id={parent} short />
                </a>
              </>
            )}
          </p>
        </div>
        {thread.value && <Status thread={thread.value} />}
        <Actions id={id} thread={thread.value} state={whole ?? state} head={rows[0]?.state} refresh={refresh}>
          {rows.length > 0 && <Exports id={id} />}
        </Actions>
      </div>
      <div class={query.with ? "columns comparing" : query.view ? "columns over" : "columns"}>
        <History rows={rows} deeds={deeds} gap={history.rest.length ? history.top.length : 0} chosen={state ? idOf(state) : undefined} more={history.more} busy={history.busy} error={history.error} load={rows.length || !history.error ? history.next : history.first} fill={history.fill} jump={history.jump} />
        <section class="middle" aria-label="Graph">
          <GraphOf thread={thread.value} state={whole ?? state} rows={rows} />
          <Runs id={id} runs={runs} waits={!!thread.value && questionsOf(thread.value).length > 0} rows={rows} refresh={refresh} />
        </section>
        <section class="detail" aria-label="Checkpoint">
          {rows.length > 0 && !query.with && (
            <nav class="tabs" aria-label="View">
              <a href={link(route.value.path, { ...query, view: undefined })} aria-current={query.view ? undefined : "page"}>
                Step
              </a>
              <a href={link(route.value.path, { ...query, view: "timeline" })} aria-current={query.view ? "page" : undefined}>
                Timeline
              </a>
            </nav>
          )}
          <Live id={id} />
          {query.view && !query.with && rows.length > 0 ? (
            <Timeline rows={rows} deeds={deeds} ran={ran} shown={shown} show={show} />
          ) : whole && query.with && withState.value ? (
            <>
              <h2>
                Compared with <Id id={query.with} short />{" "}
                <button class="quiet" onClick={() => change({ with: undefined })}>
                  close comparison
                </button>
              </h2>
              <Compare before={withState.value} after={whole} rows={rows} deeds={deeds} />
            </>
          ) : whole && state ? (
            <Checkpoint id={id} thread={thread.value} state={whole} mark={mark} rows={rows} runs={runs.value} deed={deeds.get(idOf(state))} steps={steps.value?.of === (newest ? "" : idOf(state)) ? steps.value : undefined} head={rows[0] ? idOf(rows[0].state) === idOf(state) : false} refresh={refresh} />
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

// versionOf says which version of its graph stored the newest checkpoint, and which one the server has if that is another.
function versionOf(thread: Thread, head: State | undefined): string {
  const version = head?.stele_version;
  if (!version) return "";
  const now = info.value?.stele?.graph_versions?.[graphOf(thread)];
  return `version ${version}` + (now && now !== version ? `, now ${now}` : "");
}

function GraphOf({ thread, state, rows }: { thread: Thread | undefined; state: State | undefined; rows: Row[] }) {
  const assistant = assistantOf(graphs.value, thread);
  const drawing = useLoad(async () => (assistant ? await api.drawing(assistant.assistant_id, false) : undefined), [assistant?.assistant_id]);
  const drawn = useMemo(() => drawing.value && withTaken(drawing.value, rows), [drawing.value, rows]);
  if (!assistant) return <p class="note">No program is mounted that has this thread's graph, so it cannot be drawn.</p>;
  if (drawing.error) return <p class="note">{drawing.error}</p>;
  if (!drawn) return null;
  return <Graph drawing={drawn} marks={marksOf(state, rows)} />;
}

// Runs are those that the server knows of the thread, newest first.
function Runs({ id, runs, waits, rows, refresh }: { id: string; runs: Loaded<Run[] | undefined>; waits: boolean; rows: Row[]; refresh: () => void }) {
  // A server of stele's also tells how often a run was tried, how long it took, and why it failed.
  const queued = useLoad(async () => (info.value?.stele?.runs ? (await api.queueOf(id)).runs : []), [id, runs.value]);
  const [cancel, setCancel] = useState<string>();
  if (!runs.value?.length) return null;
  const more = new Map(queued.value?.map((q) => [q.run_id, q]));
  // Versions of the graph say something where they changed.
  const versions = new Map(rows.map((r) => [word(r.state.metadata?.run_id), r.state.stele_version ?? ""]));
  if (new Set(versions.values()).size < 2) versions.clear();
  return (
    <section aria-label="Runs">
      <h2>Runs</h2>
      <ul class="runs">
        {runs.value.map((r, i) => (
          <li key={r.run_id} title={`run ${visible(r.run_id)}`}>
            <RunStatus status={r.status} waiting={more.get(r.run_id)?.waiting ?? (waits && i === 0)} later={i > 0} /> <Time at={r.created_at} /> <More run={more.get(r.run_id)} version={versions.get(r.run_id)} />
            {!readonly.value && (r.status === "running" || r.status === "pending") && (
              <button class="quiet" onClick={() => setCancel(r.run_id)}>
                cancel
              </button>
            )}
          </li>
        ))}
      </ul>
      {cancel && <CancelRun close={() => setCancel(undefined)} cancel={() => api.cancel(id, cancel).then(() => (runs.again(), refresh()))} />}
    </section>
  );
}

function More({ run, version }: { run: QueuedRun | undefined; version: string | undefined }) {
  if (!run) return null;
  return (
    <>
      <span class="note">{[sleepsOf(run) || tookOfRun(run), run.attempt > 1 && `${run.attempt} attempts`, version && `version ${visible(version)}`].filter(Boolean).join(" · ")}</span>
      {run.error && <Cause error={run.error} />}
    </>
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

function Checkpoint(props: { id: string; thread: Thread | undefined; state: State; mark: string; rows: Row[]; runs: Run[] | undefined; deed: Deed | undefined; steps: Steps | undefined; head: boolean; refresh: () => void }) {
  const { id, thread, state, mark, deed, steps, head, refresh } = props;
  const raw = !!route.value.query.raw;
  const parent = parentOf(state);
  const step = stepOf(state);
  const tokens = tokensOf(deed?.uses ?? []);
  const entries = state.values !== null && typeof state.values === "object" && !Array.isArray(state.values) ? Object.entries(state.values) : undefined;
  const shown = entries?.filter(([name, value]) => raw || (!internal(name) && value !== null)).sort(([a], [b]) => internalLast(a, b));
  return (
    <>
      <div class="title">
        <h2>{deed ? <Words deed={deed} /> : `${madeBy(state)} ${step}`}</h2>
        <p class="note facts">
          {step !== "" && step !== "-1" && <span>step {step}</span>}
          <Time at={state.created_at} />
          {deed?.took !== undefined && <span>took {spent(deed.took)}</span>}
          {tokens > 0 && <span>{count(tokens)} tokens</span>}
          <Id id={idOf(state)} short />
          {parent && (
            <a class="quiet" href={link(route.value.path, { ...route.value.query, at: idOf(state), with: parent })}>
              what changed
            </a>
          )}
          <label class="switch">
            <input type="checkbox" checked={raw} onChange={(e) => change({ raw: e.currentTarget.checked ? "1" : undefined }, true)} /> raw
          </label>
        </p>
      </div>
      {head && <Signals id={id} thread={thread} state={state} mark={mark} refresh={refresh} />}
      {head && <Answer id={id} thread={thread} state={state} refresh={refresh} send={(body) => run(id, body)} />}
      {steps && <Workflow told={steps} />}
      <Tasks id={id} state={state} rows={props.rows} runs={props.runs} raw={raw} />
      <section aria-label="Values">
        <h3>Values</h3>
        {shown ? (
          shown.length ? (
            shown.map(([name, value]) => (
              <Guarded key={name}>{raw && marked(value) !== "large" ? <Value name={name} value={value} open={small(value)} /> : <Channel id={id} at={idOf(state)} name={name} value={value} />}</Guarded>
            ))
          ) : (
            <p class="empty">{entries?.length ? "No channel of the program has a value." : "No channel has a value yet."}</p>
          )
        ) : (
          <Value value={state.values} open />
        )}
      </section>
      {raw && (
        <section aria-label="About this checkpoint">
          <h3>About</h3>
          <Value name="checkpoint" value={state.checkpoint as unknown as Json} open />
          <Value name="metadata" value={state.metadata} open />
          <Value name="created" value={state.created_at} />
        </section>
      )}
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
                {madeBy(s)} {stepOf(s)} · next: {nextOf(s).map(nodeName).join(", ") || "end"}
              </summary>
              <Value name="values" value={s.values} open />
              {tasksOf(s).map((t) => (
                <div key={word(t.id)}>
                  <Value name={nodeName(t.name)} value={t as unknown as Json} />
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
function useTasks(id: string, state: State, rows: Row[], kept: Run[] | undefined): Loaded<Map<string, RanTask> | undefined> {
  const children = rows.filter((r) => r.parent === idOf(state)).map((r) => word(r.state.metadata?.run_id));
  const makers = [...new Set(children.filter(Boolean))].join();
  const ids = tasksOf(state).map((t) => word(t.id)).join();
  return useLoad(async () => {
    const found = new Map<string, RanTask>();
    if (!info.value?.stele?.tasks || !ids) return found;
    if (!kept) return undefined;
    const look = async (runs: string[]) => {
      for (const run of runs) {
        const listed = kept.find((r) => r.run_id === run) ?? { run_id: run, status: "success", updated_at: "" };
        for (const t of (await notesOf(id, listed)).tasks.values()) {
          const other = found.get(t.id);
          const newest = other && other.began_at > t.began_at ? other : t;
          found.set(t.id, { ...newest, starts: t.starts + (other?.starts ?? 0) });
        }
      }
    };
    // A run that a program made beside the server is not in its queue. Of many runs the list has the newest.
    const newest = kept.map((r) => r.run_id);
    const made = (makers ? makers.split(",") : []).filter((run) => newest.includes(run) || newest.length >= runsListed);
    await look(made);
    // What ended in an earlier run is kept by those that went on, and only that one noted it.
    if (!ids.split(",").every((task) => found.has(task))) {
      await look(newest.slice(0, 5).filter((run) => !made.includes(run)));
    }
    return found;
  }, [id, idOf(state), ids, makers, kept]);
}

function Tasks({ id, state, rows, runs, raw }: { id: string; state: State; rows: Row[]; runs: Run[] | undefined; raw: boolean }) {
  const ran = useTasks(id, state, rows, runs);
  const tasks = tasksOf(state);
  if (tasks.length === 0) return null;
  return (
    <section aria-label="Tasks">
      <h3>Tasks</h3>
      {tasks.map((t, i) => (
        <TaskOf key={word(t.id) + i} raw={raw} id={id} at={idOf(state)} task={t} ran={ran.value?.get(word(t.id))} asked={!!info.value?.stele?.tasks && !!ran.value} />
      ))}
    </section>
  );
}

function TaskOf({ id, at, task: t, ran, asked, raw }: { raw: boolean; id: string; at: string; task: Task; ran: RanTask | undefined; asked: boolean }) {
  const asks = asksOf(t);
  const waits = waitsOf(t);
  const ended = t.result !== undefined && t.result !== null;
  return (
    <details class={"task" + (t.error ? " failed" : "")} open={!!t.error}>
      <summary>
        <b title={visible(t.name)}>{raw ? visible(t.name) : nodeName(t.name)}</b> {t.error ? "failed" : ended ? "ended" : asks.length ? "waits for an answer" : waits.length ? waits.map(waitInWords).join("; ") : ran?.status === "begun" ? "has begun" : "is to run"}
        {ran && <span class="note took"> {tookBy(ran)}</span>}
      </summary>
      {!!t.error && (
        <pre class="error">
          <Text text={causeOf(t.error)} />
        </pre>
      )}
      {info.value?.stele?.task_inputs && <Input id={id} at={at} task={word(t.id)} />}
      {ended && <Value name="writes" value={t.result} open />}
      {asks.length > 0 && <Value name="interrupts" value={asks as unknown as Json} />}
      {!!t.checkpoint && <Subgraph id={id} at={t.checkpoint} />}
      {raw && <Value name="id" value={t.id} />}
      {raw && t.path !== undefined && <Value name="path" value={t.path} />}
      {ran ? (
        <p class="note">
          Begun <Time at={ran.began_at} />
          {ran.starts > 1 && ` (${ran.starts} times)`}
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
  const tries = triesOf(ran);
  return [ran.status === "begun" ? "" : spent(ran.took_ns / 1e6), tries > 1 ? `${tries} attempts` : ""].filter(Boolean).join(", ");
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

function Live({ id }: { id: string }) {
  const l = liveOf(id);
  const [cancel, setCancel] = useState(false);
  if (!l) return null;
  return (
    <section class="live" aria-label="Running" aria-live="polite">
      <h3>
        {l.ended ? (l.error ? "The run failed" : "The run ended") : "Running"}{" "}
        {l.ended ? (
          <button class="quiet" onClick={() => forget(id)}>
            close
          </button>
        ) : (
          <button class="quiet" onClick={() => setCancel(true)}>
            cancel
          </button>
        )}
      </h3>
      {cancel && <CancelRun close={() => setCancel(false)} cancel={l.cancel} />}
      {l.error && (
        <p class="error" role="alert">
          <Text text={l.error} />
        </p>
      )}
      {l.nodes.length > 0 && <p class="note">{l.nodes.slice(-8).map(nodeName).join(" → ")}</p>}
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
