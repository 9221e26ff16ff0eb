// Two checkpoints side by side, by channel: what was added, removed and changed.

import { diffArrays, diffWordsWithSpace } from "diff";
import { Fragment } from "preact";
import { useMemo, useState } from "preact/hooks";
import { type Deed, wordsOf } from "./deeds";
import { isFields } from "./json";
import { asMessages, Conversation } from "./messages";
import { internalLast } from "./names";
import { change } from "./route";
import { count, Id, Text, Time, visible } from "./text";
import { ancestryOf, idOf, madeBy, type Row, stepOf } from "./tree";
import type { Fields, Json, State } from "./types";
import { Value } from "./value";

// "ids": only ids of messages and calls differ, which say nothing to a person.
export type Difference = "same" | "ids" | "added" | "removed" | "changed";

export interface ChannelDifference {
  channel: string;
  kind: Difference;
  before?: Json;
  after?: Json;
}

// equal is deep equality of JSON, whatever the order of keys; with butIds, whatever the ids of
// messages and calls, which are made anew each time.
export function equal(a: Json | undefined, b: Json | undefined, butIds = false): boolean {
  if (a === b) return true;
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) return false;
  if (Array.isArray(a) || Array.isArray(b)) {
    return Array.isArray(a) && Array.isArray(b) && a.length === b.length && a.every((v, i) => equal(v, b[i], butIds));
  }
  const keys = Object.keys(a);
  return keys.length === Object.keys(b).length && keys.every((k) => Object.hasOwn(b, k) && ((butIds && isMadeId(a, k)) || equal(a[k], b[k], butIds)));
}

// isMadeId reports whether a field of a message, of a call of a tool, or of what a provider said of a
// message is an id. Other ids, such as that of an order, are what a program works with.
const isMadeId = (of: Fields, key: string) => (key === "id" || key === "tool_call_id") && (("content" in of && "type" in of) || ("args" in of && "name" in of) || "model_name" in of);


export function compareValues(before: Json, after: Json): ChannelDifference[] {
  const fields = (v: Json): Fields => (isFields(v) ? v : { value: v });
  const a = fields(before);
  const b = fields(after);
  const channels = [...new Set([...Object.keys(a), ...Object.keys(b)])].sort().sort(internalLast);
  return channels.map((channel) => {
    const kind: Difference = !Object.hasOwn(a, channel) ? "added" : !Object.hasOwn(b, channel) ? "removed" : equal(a[channel], b[channel]) ? "same" : isMadeId(a, channel) || equal(a[channel], b[channel], true) ? "ids" : "changed";
    return { channel, kind, before: a[channel], after: b[channel] };
  });
}

// Part is a piece of a text; the marked ones are what the other side does not have.
interface Part {
  text: string;
  marked: boolean;
}

// Cell is one side of a line: a text in parts, or a value.
type Cell = { parts: Part[] } | { value: Json };

// Line is a row of both sides. A side that is missing has nothing there.
export interface Line {
  path: string;
  same?: boolean; // to a person
  ids?: boolean; // but the ids differ
  left?: Cell;
  right?: Cell;
}

// Of lines longer than longestWords characters, or behind so many that allWords were compared,
// the words are not compared; nor of lines that differ in more than wordEdits places. Of lists and
// texts that differ in more than mostEdits places, nothing is: it would take too long.
const longestWords = 10_000;
const allWords = 200_000;
const wordEdits = 400;
const mostEdits = 2000;

const whole = (value: Json | undefined): Cell | undefined =>
  value === undefined ? undefined : typeof value === "string" ? { parts: [{ text: value, marked: true }] } : { value };

// linesOf aligns two values: texts by their lines and words, lists by their elements, maps by
// their keys. room.words is the number of characters of which the words may still be compared.
export function linesOf(before: Json | undefined, after: Json | undefined, path = "", room = { words: allWords }): Line[] {
  const into = (key: string | number) => (path ? path + " › " : "") + key;
  if (typeof before === "string" && typeof after === "string") {
    return aligned(before.split("\n"), after.split("\n"), (a, b) => a === b, (a, b) => [words(a, b, path, room)], () => path, (text) => ({ parts: [{ text, marked: false }] }));
  }
  if (Array.isArray(before) && Array.isArray(after)) {
    return aligned(before, after, (a, b) => equal(a, b, true), (a, b, i) => (alike(a, b) ? linesOf(a, b, into(i), room) : [{ path: into(i), left: whole(a), right: whole(b) }]), into, (value) => ({ value }));
  }
  if (isFields(before) && isFields(after)) {
    return compareValues(before, after).flatMap((d) => (d.kind === "same" ? [] : d.kind === "ids" ? [{ path: into(d.channel), same: true, ids: true, left: whole(d.before), right: whole(d.after) }] : linesOf(d.before, d.after, into(d.channel), room)));
  }
  return [{ path, left: whole(before), right: whole(after) }];
}

// alike: what stands in place of the other is the other, changed.
function alike(a: Json, b: Json): boolean {
  if (typeof a === "string" && typeof b === "string") return true;
  if (!isFields(a) || !isFields(b)) return false;
  if (a.id !== b.id && "id" in a && "id" in b) return false;
  return equal(a.type, b.type) && Object.keys(a).filter((k) => k in b).length * 2 >= Object.keys(a).length;
}

// aligned pairs what is equal, and what was put in place of something.
function aligned<T extends Json>(before: T[], after: T[], same: (a: T, b: T) => boolean, pair: (a: T, b: T, at: number) => Line[], pathOf: (at: number) => string, plain: (v: T) => Cell): Line[] {
  const parts = diffArrays(before, after, { comparator: same, maxEditLength: mostEdits });
  if (!parts) return [{ path: pathOf(0), left: { value: before }, right: { value: after } }];
  const lines: Line[] = [];
  let at = 0; // in after; of what was removed, where it would be
  let was = 0; // in before
  let gone: T[] = [];
  const lose = () => {
    gone.forEach((v, i) => lines.push({ path: pathOf(at + i), left: whole(v) }));
    gone = [];
  };
  for (const part of parts) {
    if (part.removed) {
      gone = part.value;
      was += gone.length;
      continue;
    }
    if (part.added) {
      for (const v of part.value) {
        const old = gone.shift();
        lines.push(...(old === undefined ? [{ path: pathOf(at), right: whole(v) }] : pair(old, v, at)));
        at++;
      }
      lose();
      continue;
    }
    lose();
    for (const v of part.value) {
      const old = before[was++]!;
      const ids = equal(old, v) ? {} : { ids: true };
      lines.push({ path: pathOf(at++), same: true, ...ids, left: plain(old), right: plain(v) });
    }
  }
  lose();
  return lines;
}

// words is a line of a text whose words are compared.
function words(a: string, b: string, path: string, room: { words: number }): Line {
  const long = a.length + b.length;
  const all = long > longestWords || (room.words -= long) < 0 ? undefined : diffWordsWithSpace(a, b, { maxEditLength: wordEdits });
  if (!all) return { path, left: whole(a), right: whole(b) };
  const side = (mine: "added" | "removed", other: "added" | "removed"): Cell => ({ parts: all.filter((p) => !p[other]).map((p) => ({ text: p.value, marked: p[mine] ?? false })) });
  return { path, left: side("removed", "added"), right: side("added", "removed") };
}

// context is how many equal lines are shown beside a difference.
const context = 2;

// Shown is a line, or a number of equal ones that are folded.
type Shown = Line | { folded: Line[] };

// fold hides equal lines that are far from a difference.
export function fold(lines: Line[]): Shown[] {
  const near = lines.map(() => false);
  lines.forEach((l, i) => {
    if (!l.same) near.fill(true, Math.max(0, i - context), i + context + 1);
  });
  const out: Shown[] = [];
  for (let i = 0; i < lines.length; ) {
    let end = i;
    while (end < lines.length && !near[end]) end++;
    if (end - i > 1) out.push({ folded: lines.slice(i, end) });
    else if (end > i) out.push(lines[i]!);
    if (end < lines.length) out.push(lines[end]!);
    i = end + 1;
  }
  return out;
}

export function Compare({ before, after, rows, deeds }: { before: State; after: State; rows: Row[]; deeds: Map<string, Deed> }) {
  const all = useMemo(() => compareValues(before.values, after.values), [before, after]);
  const different = all.filter((d) => d.kind !== "same" && d.kind !== "ids");
  const ids = all.filter((d) => d.kind === "ids");
  const equalOnes = all.filter((d) => d.kind === "same");
  const [same, showSame] = useState(false);
  const fork = useMemo(() => partedAt(rows, idOf(before), idOf(after)), [rows, before, after]);
  const parted = fork !== idOf(before) && fork !== idOf(after) ? fork : undefined;
  return (
    <div class="compare">
      <div class="ends">
        <End name={parted ? "one branch" : "before"} state={before} deed={deeds.get(idOf(before))} side="left" />
        <End name={parted ? "other branch" : "after"} state={after} deed={deeds.get(idOf(after))} side="right" />
      </div>
      <p class="note">
        {parted && (
          <>
            Two branches, which part at <Id id={parted} short />.{" "}
          </>
        )}
        <button class="quiet" onClick={() => change({ at: idOf(before), with: idOf(after) })}>
          swap the sides
        </button>
      </p>
      {different.length === 0 && <p>{ids.length === 0 ? "Both have the same values." : "Both have the same values, but for ids."}</p>}
      {different.map((d) => (
        <section key={d.channel} class={"difference " + d.kind}>
          <h3>
            {visible(d.channel)} <span class="note">{d.kind}</span>
          </h3>
          <Sides difference={d} left={nameOf(before)} right={nameOf(after)} />
        </section>
      ))}
      {ids.length > 0 && (
        <p class="note">
          Only ids of messages and calls differ in {ids.map((d) => visible(d.channel)).join(", ")}.
        </p>
      )}
      {equalOnes.length > 0 && (
        <button class="quiet" aria-expanded={same} onClick={() => showSame(!same)}>
          {equalOnes.length === 1 ? "one channel is" : `${count(equalOnes.length)} channels are`} the same
        </button>
      )}
      {same && <p class="note">{equalOnes.map((d) => visible(d.channel)).join(", ")}</p>}
    </div>
  );
}

const nameOf = (s: State) => `${madeBy(s)} ${stepOf(s)}`.trim() + " " + visible(idOf(s));

function End({ name, state, deed, side }: { name: string; state: State; deed: Deed | undefined; side: string }) {
  return (
    <p class={"end " + side}>
      <span class="note">{name}</span> <b>{deed ? [wordsOf(deed), ...deed.names].join(" ") : `${madeBy(state)} ${stepOf(state)}`}</b> {deed && !deed.words.startsWith("Step ") && stepOf(state) !== "" && <span class="note">step {stepOf(state)}</span>} <Id id={idOf(state)} short /> <Time at={state.created_at} />
    </p>
  );
}

// partedAt is the newest checkpoint that two have both come from, among those that are loaded.
export function partedAt(rows: Row[], a: string, b: string): string | undefined {
  const line = ancestryOf(rows, a);
  for (const id of ancestryOf(rows, b)) if (line.has(id)) return rows.some((r) => r.id === id) ? id : undefined;
  return undefined;
}

const atFirst = 200;

// Sides is a table: a screen reader tells which side a cell is on, and both are one below the
// other where the window is narrow.
function Sides({ difference: d, left, right }: { difference: ChannelDifference; left: string; right: string }) {
  const lines = useMemo(() => fold(linesOf(d.before, d.after)), [d.before, d.after]);
  const [opened, open] = useState<ReadonlySet<number>>(new Set());
  const [shown, show] = useState(atFirst);
  const listed: [string, Line | number][] = [];
  let path = "";
  lines.slice(0, shown).forEach((l, i) => {
    if (!("folded" in l)) listed.push([`${i}`, l]);
    else if (opened.has(i)) l.folded.forEach((f, j) => listed.push([`${i}.${j}`, f]));
    else listed.push([`${i}`, l.folded.length]);
  });
  const unit = typeof d.after === "string" ? ["line", "lines"] : ["element", "elements"];
  return (
    <table class="sides">
      <caption class="unseen">{visible(d.channel)}</caption>
      <thead class="unseen">
        <tr>
          <th scope="col">{left}</th>
          <th scope="col">{right}</th>
        </tr>
      </thead>
      <tbody>
        {listed.map(([key, line]) => {
          if (typeof line === "number") {
            return (
              <tr key={key} class="fold">
                <td colSpan={2}>
                  <button class="quiet" onClick={() => open(new Set([...opened, Number(key)]))}>
                    {count(line)} {unit[line === 1 ? 0 : 1]} the same
                  </button>
                </td>
              </tr>
            );
          }
          const head = line.path !== path && line.path !== "";
          path = line.path;
          return (
            <Fragment key={key}>
              {head && (
                <tr class="path">
                  <td colSpan={2}>
                    <span class="key">{visible(line.path)}</span>
                    {line.ids && <span class="note">only ids differ</span>}
                  </td>
                </tr>
              )}
              <tr class={line.same ? "same" : undefined}>
                <td class={line.left && !line.same ? "removed" : undefined}>{line.left && <Side cell={line.left} removed same={line.same} />}</td>
                <td class={line.right && !line.same ? "added" : undefined}>{line.right && <Side cell={line.right} same={line.same} />}</td>
              </tr>
            </Fragment>
          );
        })}
        {lines.length > shown && (
          <tr class="fold">
            <td colSpan={2}>
              <button class="quiet" onClick={() => show(shown * 5)}>
                {count(lines.length - shown)} more
              </button>
            </td>
          </tr>
        )}
      </tbody>
    </table>
  );
}

function Side({ cell, removed, same }: { cell: Cell; removed?: boolean; same?: boolean }) {
  const Mark = removed ? "del" : "ins";
  if ("parts" in cell) {
    return (
      <span class="words" dir="auto">
        {cell.parts.map((p, i) => {
          const text = <Text text={p.text} />;
          return p.marked && p.text ? <Mark key={i}>{text}</Mark> : <span key={i}>{text}</span>;
        })}
      </span>
    );
  }
  const messages = asMessages([cell.value]);
  const shown = messages ? <Conversation messages={messages} /> : <Value value={cell.value} open={!same} />;
  return same ? shown : <Mark class="whole">{shown}</Mark>;
}
