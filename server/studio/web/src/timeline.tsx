// When what of a thread ran: its runs, and in each the tasks of its supersteps, with what they cost
// and how often they were tried, and where a person was waited for. Where no queue noted the tasks,
// the times are those of the checkpoints, and the page says so.

import { Fragment } from "preact";
import { useRef, useState } from "preact/hooks";
import { api } from "./api";
import { type Deed, type Told, tokensOf, type Use, wordsOf } from "./deeds";
import { useLoad } from "./load";
import { nodeName } from "./names";
import { costOf, money, type Prices, prices } from "./prices";
import { change } from "./route";
import { liveOf } from "./running";
import { info } from "./session";
import { RunStatus, triesOf } from "./status";
import { count, Id, list, spent, Time, visible, word } from "./text";
import { asksOf, type Row, standOf, stepOf, tasksOf, waitsOf } from "./tree";
import type { RanTask, Run } from "./types";

// runsShown is of how many runs the tasks are asked for at first, the newest ones.
const runsShown = 8;

// Wave is a bar: a task, or a step.
interface Wave {
  id: string;
  at: string; // the checkpoint that tells more
  step: string;
  name: string;
  said: string;
  depth: number; // in graphs within the graph
  from: number;
  to: number;
  kind: "work" | "model" | "tool" | "failed" | "waiting" | "asleep" | "begun";
  ended: boolean; // when it ended was noted
  tries: number;
  uses: Use[];
}

interface Group {
  id: string;
  run?: Run;
  waves: Wave[];
  noted: boolean; // by the queue
  waited: boolean; // for a person, before it
  waits: boolean; // it ended with a question
}

const open = (run: Run | undefined) => run?.status === "pending" || run?.status === "running";

const time = (at: unknown) => (typeof at === "string" ? new Date(at).getTime() : NaN);

// stepsOf are the waves of the checkpoints that a run made, by when these were made.
function stepsOf(rows: Row[], deeds: Map<string, Deed>): Wave[] {
  return rows.flatMap((row): Wave[] => {
    const deed = deeds.get(row.id);
    const to = time(row.state.created_at);
    const from = deed?.took === undefined ? to : to - deed.took;
    if (Number.isNaN(to) || !deed || row.state.metadata?.source !== "loop") return [];
    const failed = standOf(row.state) === "failed";
    const name = [...new Set(deed.tasks.map((t) => t.name))].map(nodeName).join(", ") || deed.words;
    const said = [wordsOf(deed, name), deed.names.join(", "), deed.by && `by ${deed.by}`].filter(Boolean).join(" ");
    const step: Wave = { id: row.id, at: row.id, step: stepOf(row.state), name, said: deed.tasks.length ? said : "", depth: 0, from, to, kind: deed.uses.length ? "model" : deed.tools ? "tool" : "work", tries: 1, uses: deed.uses, ended: true };
    // What failed made no checkpoint: when it ended is not known.
    return failed ? [step, { ...step, id: row.id + " failed", name: deed.then, said: "", from: to, kind: "failed", uses: [] }] : [step];
  });
}

// wavesOf are the waves of the tasks that the queue noted.
function wavesOf(ran: RanTask[], told: Map<string, Told & { at: string; step: string }>, open: boolean, sleepers: Set<string>): Wave[] {
  // A node that runs a graph has its model's tokens, and is no model.
  const around = new Set(ran.flatMap((t) => t.namespace ?? []).map((ns) => ns.slice(ns.lastIndexOf(":") + 1)));
  return ran.map((t) => {
    const of = told.get(t.id);
    const from = time(t.began_at);
    const model = (of?.uses.length || (t.namespace?.length && nodeName(t.name) === "model")) && !around.has(t.id);
    const kind = t.status === "error" ? "failed" : sleepers.has(t.id) && t.status === "waiting" ? "asleep" : t.status === "waiting" ? "waiting" : t.status === "begun" && open ? "begun" : model ? "model" : of?.tools || nodeName(t.name) === "tools" ? "tool" : "work";
    return { id: t.id, at: of?.at ?? "", step: of?.step ?? "", name: nodeName(t.name), said: of ? [wordsOf(of, nodeName(t.name)), of.names.join(", ")].filter(Boolean).join(" ") : "", depth: t.namespace?.length ?? 0, from, to: from + t.took_ns / 1e6, kind, tries: triesOf(t), uses: of?.uses ?? [], ended: t.status !== "begun" };
  });
}

// groupsOf are the runs of a thread, newest first.
function groupsOf(rows: Row[], deeds: Map<string, Deed>, runs: Run[], ran: Map<string, RanTask[]>): Group[] {
  const states = new Map(rows.map((r) => [r.id, r]));
  const sleepers = new Set(rows.flatMap((r) => tasksOf(r.state)).filter((t) => waitsOf(t).length > 0 && asksOf(t).length === 0).map((t) => word(t.id)));
  const told = new Map<string, Told & { at: string; step: string }>();
  const made = new Map<string, Row[]>();
  for (const row of [...rows].reverse()) {
    for (const t of deeds.get(row.id)?.tasks ?? []) told.set(t.id, { ...t, at: row.id, step: stepOf(row.state) });
    const run = word(row.state.metadata?.run_id);
    const of = made.get(run);
    if (of) of.push(row);
    else made.set(run, [row]);
  }
  const known = new Set(runs.map((r) => r.run_id));
  const ids = [...runs.map((r) => r.run_id), ...[...made.keys()].filter((id) => !known.has(id)).reverse()];
  return ids.map((id) => {
    const noted = list(ran.get(id));
    const of = made.get(id) ?? [];
    const parent = of[0]?.parent === undefined ? undefined : states.get(of[0].parent);
    const last = of.at(-1);
    const run = runs.find((r) => r.run_id === id);
    const waves = noted.length > 0 ? wavesOf(noted, told, open(run), sleepers).filter((w) => !Number.isNaN(w.from)) : stepsOf(of, deeds);
    return { id, run, waves, noted: noted.length > 0, waited: !!parent && standOf(parent.state) === "waiting", waits: !!last && ["waiting", "sleeping"].includes(standOf(last.state)) };
  });
}

export function Timeline({ id, rows, deeds, mark }: { id: string; rows: Row[]; deeds: Map<string, Deed>; mark: string }) {
  const [shown, show] = useState(runsShown);
  const price = useLoad(prices, []);
  const kept = useRef(new Map<string, RanTask[]>());
  const told = useLoad(async () => {
    const runs = (await api.runs(id)).slice(0, shown);
    const ran = new Map<string, RanTask[]>();
    const look = async (r: Run) => {
      // A run that the queue does not keep has no tasks. Those of one that has ended stay what they are.
      const tasks = kept.current.get(r.run_id) ?? list((await api.tasksOf(id, r.run_id).catch(() => undefined))?.tasks);
      ran.set(r.run_id, tasks);
      if (tasks.length > 0 && !open(r)) kept.current.set(r.run_id, tasks);
    };
    if (info.value?.stele?.tasks) await Promise.all(runs.map(look));
    return { runs, ran };
  }, [id, mark, shown, liveOf(id)?.ended]);
  if (!told.value) return <p class="note">{told.error ?? "Loading…"}</p>;
  const groups = groupsOf(rows, deeds, told.value.runs, told.value.ran).filter((g) => g.waves.length > 0).sort((a, b) => begin(b) - begin(a));
  if (groups.length === 0) return <p class="empty">Nothing has run on this thread yet. What a run does is drawn here over time.</p>;
  const uses = [...deeds.values()].flatMap((d) => d.uses);
  return (
    <section class="timeline" aria-label="Timeline">
      <p class="note facts">
        <span class="legend model">model</span>
        <span class="legend tool">tools</span>
        <span class="legend work">other work</span>
        <span class="legend waiting">waits for an answer</span>
        <span class="legend failed">failed</span>
        {uses.length > 0 && (
          <span class="sum">
            {count(tokensOf(uses))} tokens in {count(rows.length)} steps
            <Cost uses={uses} prices={price.value} sum />
          </span>
        )}
      </p>
      {uses.length > 0 && <p class="note">Tokens of calls whose answers are not among the messages of this thread, as in a subgraph with its own, are not known.</p>}
      {groups.map((g, i) => (
        <Fragment key={g.id}>
          <RunOf group={g} prices={price.value} later={i > 0} />
          {g.waited && groups[i + 1] && <p class="pause">waited {spent(Math.max(0, begin(g) - end(groups[i + 1]!)))} for an answer</p>}
        </Fragment>
      ))}
      {told.value.runs.length === shown && (
        <button class="quiet" onClick={() => show(shown + 20)}>
          the times of earlier runs
        </button>
      )}
    </section>
  );
}

const begin = (g: Group) => Math.min(...g.waves.map((w) => w.from));
const end = (g: Group) => Math.max(...g.waves.map((w) => w.to));

// Cost is what uses cost, and of a sum the models that have no price.
function Cost({ uses, prices, sum }: { uses: Use[]; prices: Prices | undefined; sum?: boolean }) {
  const cost = costOf(uses, prices);
  if (!cost) return null;
  return (
    <>
      {cost.sum !== undefined && `, ${money(cost.sum, prices!.currency)}`}
      {sum && cost.without.length > 0 && <span class="unpriced">, no price of {cost.without.map(visible).join(", ")}</span>}
    </>
  );
}

function RunOf({ group: g, prices, later }: { group: Group; prices: Prices | undefined; later: boolean }) {
  const from = begin(g);
  const all = Math.max(1, end(g) - from);
  const uses = g.waves.flatMap((w) => w.uses);
  const part = (ms: number) => `${Math.round((1000 * ms) / all) / 10}%`;
  let step = "";
  return (
    <section class="run" aria-label={`Run ${visible(g.id)}`}>
      <h2>
        {g.run && <RunStatus status={g.run.status} waiting={g.waits} later={later} />} {g.id ? <Id id={g.id} short /> : "Made by no run"} <Time at={new Date(from).toISOString()} />
        <span class="note">
          {spent(all)}
          {uses.length > 0 && `, ${count(tokensOf(uses))} tokens`}
          <Cost uses={uses} prices={prices} sum />
        </span>
      </h2>
      {!g.noted && <p class="note">From the times of the checkpoints: when each task began and ended was not noted.</p>}
      <ol class="waves">
        {g.waves.map((w) => {
          const first = w.step !== "" && w.step !== step;
          if (first) step = w.step;
          return (
            <li key={w.id} class={"wave " + w.kind + (first ? " first" : "")}>
              <button class="name" disabled={!w.at} style={`padding-left: ${w.depth}rem`} onClick={() => change({ at: w.at, view: undefined })}>
                <span class="step">{first && `step ${w.step}`}</span>
                <span class="what">
                  <b>{w.name}</b> <span class="about">{w.said}</span>
                </span>
              </button>
              <span class="track" aria-hidden="true">
                <span style={`left: ${part(w.from - from)}; width: ${part(w.to - w.from)}`} />
              </span>
              <span class="figures">
                {w.kind === "begun" ? "under way" : w.kind === "waiting" ? "asked" : w.kind === "asleep" ? "sleeps" : !w.ended ? "its end was not noted" : w.to > w.from ? spent(w.to - w.from) : w.kind === "failed" ? "failed" : ""}
                {w.kind === "failed" && w.to > w.from && ", failed"}
                {w.tries > 1 && `, ${w.tries} tries`}
                {w.uses.length > 0 && `, ${count(tokensOf(w.uses))} tokens`}
                <Cost uses={w.uses} prices={prices} />
              </span>
            </li>
          );
        })}
      </ol>
    </section>
  );
}
