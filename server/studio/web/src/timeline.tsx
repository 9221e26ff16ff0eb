// When what of a thread ran: its runs, and in each the tasks of its supersteps, with what they cost
// and how often they were tried, and where a person was waited for. Where no queue noted the tasks,
// the times are those of the checkpoints, and the page says so.

import { Fragment } from "preact";
import { type Deed, type Told, tokensOf, type Use, wordsOf } from "./deeds";
import { type Loaded, useLoad } from "./load";
import { nodeName } from "./names";
import { costOf, money, type Prices, prices } from "./prices";
import { isOpen, type Ran } from "./ran";
import { change } from "./route";
import { RunStatus, triesOf } from "./status";
import { count, Id, list, spent, Time, visible, word } from "./text";
import { asksOf, type Row, standOf, stepOf, tasksOf, waitsOf } from "./tree";
import type { RanTask, Run } from "./types";

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
  lost: boolean; // a start of it was cut off, and what it took
  tries: number;
  uses: Use[];
}

interface Group {
  id: string;
  run?: Run;
  waves: Wave[];
  noted: boolean; // by the queue
  known: boolean; // the queue noted what it called, if anything
  waited: boolean; // for a person, before it
  waits: boolean; // it ended with a question
}

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
    const step: Wave = { id: row.id, at: row.id, step: stepOf(row.state), name, said: deed.tasks.length ? said : "", depth: 0, from, to, kind: deed.uses.length ? "model" : deed.tools ? "tool" : "work", tries: 1, uses: deed.uses, ended: true, lost: false };
    // What failed made no checkpoint: when it ended is not known.
    return failed ? [step, { ...step, id: row.id + " failed", name: deed.then, said: "", from: to, kind: "failed", uses: [] }] : [step];
  });
}

// aroundOf are the tasks whose graphs a task is in, the outermost first. The namespace also has the numbers of repeated calls.
const aroundOf = (t: RanTask) => (t.namespace ?? []).filter((part) => part.includes(":")).map((part) => part.slice(part.lastIndexOf(":") + 1));

// nested orders tasks such that those of a graph inside are below the task that runs it, also where several ran at once.
function nested(ran: RanTask[]): RanTask[] {
  const ids = new Set(ran.map((t) => t.id));
  const inside = new Map<string, RanTask[]>();
  for (const t of ran) {
    const around = aroundOf(t).filter((id) => ids.has(id)).at(-1) ?? "";
    inside.set(around, [...(inside.get(around) ?? []), t]);
  }
  const below = (id: string): RanTask[] => list(inside.get(id)).flatMap((t) => [t, ...below(t.id)]);
  return below("");
}

interface Where extends Told {
  run: string;
  at: string;
  step: string;
}

// wavesOf are the waves of the tasks that the queue noted in a run.
function wavesOf(run: string, ran: RanTask[], told: Map<string, Where[]>, open: boolean, sleepers: Set<string>): Wave[] {
  // A node that runs a graph has its model's tokens, and is no model.
  const around = new Set(ran.flatMap(aroundOf));
  return nested(ran).map((t) => {
    const where = list(told.get(t.id));
    const made = where.find((w) => w.run === run);
    const of = made ?? where.at(-1);
    const from = time(t.began_at);
    const uses = [...list(t.uses), ...list(made?.said)];
    const tool = of?.tools || nodeName(t.name) === "tools";
    const model = !tool && (t.uses?.length || tokensOf(uses) > 0 || (t.namespace?.length && nodeName(t.name) === "model")) && !around.has(t.id);
    const begun = t.status === "begun" && open;
    const kind = t.status === "error" ? "failed" : sleepers.has(t.id) && t.status === "waiting" ? "asleep" : t.status === "waiting" ? "waiting" : begun ? "begun" : model ? "model" : tool ? "tool" : "work";
    return { id: t.id, at: of?.at ?? "", step: of?.step ?? "", name: nodeName(t.name), said: of ? [wordsOf(of, nodeName(t.name)), of.names.join(", ")].filter(Boolean).join(" ") : "", depth: aroundOf(t).length, from, to: from + t.took_ns / 1e6, kind, tries: triesOf(t), uses, ended: t.status !== "begun", lost: t.starts - (t.ends ?? (t.status === "begun" ? 0 : t.starts)) > (begun ? 1 : 0) };
  });
}

// groupsOf are the runs of a thread, newest first.
function groupsOf(rows: Row[], deeds: Map<string, Deed>, { runs, notes }: Ran): Group[] {
  const states = new Map(rows.map((r) => [r.id, r]));
  const sleepers = new Set(rows.flatMap((r) => tasksOf(r.state)).filter((t) => waitsOf(t).length > 0 && asksOf(t).length === 0).map((t) => word(t.id)));
  const told = new Map<string, Where[]>();
  const made = new Map<string, Row[]>();
  for (const row of [...rows].reverse()) {
    const run = word(row.state.metadata?.run_id);
    for (const t of deeds.get(row.id)?.tasks ?? []) told.set(t.id, [...list(told.get(t.id)), { ...t, run, at: row.id, step: stepOf(row.state) }]);
    const of = made.get(run);
    if (of) of.push(row);
    else made.set(run, [row]);
  }
  const known = new Set(runs.map((r) => r.run_id));
  const ids = [...runs.map((r) => r.run_id), ...[...made.keys()].filter((id) => !known.has(id)).reverse()];
  return ids.map((id) => {
    const note = notes.get(id);
    const ran = [...(note?.tasks.values() ?? [])];
    const of = made.get(id) ?? [];
    const parent = of[0]?.parent === undefined ? undefined : states.get(of[0].parent);
    const last = of.at(-1);
    const run = runs.find((r) => r.run_id === id);
    const waves = ran.length > 0 ? wavesOf(id, ran, told, isOpen(run), sleepers).filter((w) => !Number.isNaN(w.from)) : stepsOf(of, deeds);
    return { id, run, waves, noted: ran.length > 0, known: note?.recorded || ran.length > 0, waited: !!parent && standOf(parent.state) === "waiting", waits: !!last && ["waiting", "sleeping"].includes(standOf(last.state)) };
  });
}

export function Timeline({ rows, deeds, ran, shown, show }: { rows: Row[]; deeds: Map<string, Deed>; ran: Loaded<Ran | undefined>; shown: number; show: (runs: number) => void }) {
  const price = useLoad(prices, []);
  if (!ran.value) return <p class="note">{ran.error ?? "Loading…"}</p>;
  const all = groupsOf(rows, deeds, ran.value);
  const groups = all.filter((g) => g.waves.length > 0).sort((a, b) => begin(b) - begin(a));
  if (groups.length === 0) return <p class="empty">Nothing has run on this thread yet. What a run does is drawn here over time.</p>;
  // What waits, or failed, made no checkpoint.
  const made = new Set([...deeds.values()].flatMap((d) => d.tasks.map((t) => t.id)));
  const uses = [...[...deeds.values()].flatMap((d) => d.uses), ...ran.value.noted.flatMap((n) => (made.has(n.task) ? [] : n.uses))];
  const lacks = tokensOf(uses) > 0 ? unknownOf(all, uses) : "";
  return (
    <section class="timeline" aria-label="Timeline">
      <p class="note facts">
        <span class="legend model">model</span>
        <span class="legend tool">tools</span>
        <span class="legend work">other work</span>
        <span class="legend waiting">waits for an answer</span>
        <span class="legend failed">failed</span>
        {tokensOf(uses) > 0 && (
          <span class="sum">
            {count(tokensOf(uses))} tokens in {count(rows.length)} steps
            <Cost uses={uses} prices={price.value} sum />
          </span>
        )}
      </p>
      {lacks && <p class="note">{lacks}</p>}
      {groups.map((g, i) => (
        <Fragment key={g.id}>
          <RunOf group={g} prices={price.value} later={i > 0} />
          {g.waited && groups[i + 1] && <p class="pause">waited {spent(Math.max(0, begin(g) - end(groups[i + 1]!)))} for an answer</p>}
        </Fragment>
      ))}
      {ran.value.runs.length === shown && (
        <button class="quiet" onClick={() => show(shown + 20)}>
          the times of earlier runs
        </button>
      )}
    </section>
  );
}

const begin = (g: Group) => Math.min(...g.waves.map((w) => w.from));
const end = (g: Group) => Math.max(...g.waves.map((w) => w.to));

// unknownOf says what sums of tokens lack; "" if nothing.
function unknownOf(groups: Group[], uses: Use[]): string {
  const untold = uses.filter((u) => u.total === 0).length;
  const waves = groups.filter((g) => g.noted).flatMap((g) => g.waves);
  const lacks = [
    // A run that has not begun has called nothing.
    groups.some((g) => !g.known && (g.waves.length > 0 || (g.run && g.run.status !== "pending"))) && "calls whose answers are not among the messages of this thread, as in a subgraph with its own",
    untold > 0 && (untold === 1 ? "an answer that does not tell them" : `${count(untold)} answers that do not tell them`),
    waves.some((w) => w.lost) && "tasks that were cut off",
    waves.some((w) => w.kind === "begun") && "tasks that are under way",
  ].filter(Boolean);
  return lacks.length > 0 ? `Not in these sums: tokens of ${lacks.join(", and of ")}. They are not known.` : "";
}

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
  // A task has the tokens of those in the graph that it runs.
  const uses = g.waves.flatMap((w) => (w.depth > 0 ? [] : w.uses));
  const part = (ms: number) => `${Math.round((1000 * ms) / all) / 10}%`;
  let step = "";
  return (
    <section class="run" aria-label={`Run ${visible(g.id)}`}>
      <h2>
        {g.run && <RunStatus status={g.run.status} waiting={g.waits} later={later} />} {g.id ? <Id id={g.id} short /> : "Made by no run"} <Time at={new Date(from).toISOString()} />
        <span class="note">
          {spent(all)}
          {tokensOf(uses) > 0 && `, ${count(tokensOf(uses))} tokens`}
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
                {w.tries > 1 && `, ${w.tries} attempts`}
                {tokensOf(w.uses) > 0 && `, ${count(tokensOf(w.uses))} tokens`}
                <Cost uses={w.uses} prices={prices} />
              </span>
            </li>
          );
        })}
      </ol>
    </section>
  );
}
