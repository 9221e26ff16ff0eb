// The history of a thread, newest first, loaded page by page; and a jump to a step or a time of it,
// which loads what is there and not what lies between.

import { useEffect, useRef, useState } from "preact/hooks";
import { api } from "./api";
import { say } from "./load";
import { info } from "./session";
import { idOf } from "./tree";
import type { CheckpointRef, State } from "./types";

export const pageSize = 100;

// lazy: the history comes without values, which are fetched for the checkpoint that is shown.
export const lazy = () => info.value?.stele?.lazy_history ?? false;

// Place is a number of a superstep, or a time.
export type Place = { step: number } | { time: number };

interface Loaded {
  top: State[]; // from the newest on
  rest: State[]; // from a jump on; empty if nothing is left out
  more: boolean; // there are older ones than the last
}

const nothing: Loaded = { top: [], rest: [], more: true };

export function useHistory(id: string) {
  const [loaded, set] = useState(nothing);
  const [status, setStatus] = useState<{ busy: boolean; error?: string }>({ busy: true });
  const turn = useRef(0);
  const busy = useRef<Promise<unknown> | undefined>(undefined);
  const shown = useRef(id);
  shown.current = id;
  const known = useRef(loaded);
  known.current = loaded;
  const page = (before?: CheckpointRef, limit = pageSize) => api.history(id, limit, before, !lazy());

  // load asks for something, unless that has begun already, and shows what change makes of the answer; undefined
  // if another answer was newer. What fails is shown, and thrown.
  const load = (ask: () => Promise<State[]>, change: (now: Loaded, page: State[]) => Loaded, again = false): Promise<State[] | undefined> => {
    if (busy.current && !again) return Promise.resolve(undefined);
    const mine = again ? ++turn.current : turn.current;
    const under = read(mine, ask, change).finally(() => {
      if (busy.current === under) busy.current = undefined;
    });
    busy.current = under;
    return under;
  };
  const read = async (mine: number, ask: () => Promise<State[]>, change: (now: Loaded, page: State[]) => Loaded): Promise<State[] | undefined> => {
    setStatus((s) => ({ ...s, busy: true }));
    try {
      const answer = await ask();
      if (mine !== turn.current) return undefined;
      const next = change(known.current, answer);
      known.current = next;
      set(next);
      setStatus({ busy: false });
      return answer;
    } catch (error) {
      if (mine !== turn.current) return undefined;
      setStatus({ busy: false, error: say(error) });
      throw error;
    }
  };
  const first = () =>
    load(() => page(), ({ top, rest, more }, fresh) => {
      // What is older than this page stays, if the two touch.
      const ids = new Set(fresh.map(idOf));
      const oldest = fresh.at(-1);
      const at = oldest ? top.findIndex((s) => idOf(s) === idOf(oldest)) : -1;
      const older = at >= 0 ? top.slice(at + 1).filter((s) => !ids.has(idOf(s))) : [];
      const kept = at >= 0 ? rest : [];
      return { top: [...fresh, ...older], rest: kept, more: older.length + kept.length > 0 ? more : fresh.length === pageSize };
    }, true).catch(() => undefined);
  const next = async () => {
    const last = known.current.rest.at(-1) ?? known.current.top.at(-1);
    if (last) await load(() => page(last.checkpoint), ({ top, rest }, older) => ({ ...(rest.length ? { top, rest: [...rest, ...older] } : { top: [...top, ...older], rest }), more: older.length === pageSize })).catch(() => undefined);
  };
  // fill loads a page of what a jump left out.
  const fill = async () => {
    const last = known.current.top.at(-1);
    if (last && known.current.rest.length) await load(() => page(last.checkpoint), (now, older) => joined([...now.top, ...older], now.rest, now.more)).catch(() => undefined);
  };
  // jump returns the checkpoint that is at a place, after it is loaded; undefined if there is none. It throws what
  // the server says if it could not be looked for.
  const jump = async (to: Place): Promise<State | undefined> => {
    while (busy.current) await busy.current.catch(() => undefined);
    if (shown.current !== id) return undefined;
    const here = found([...known.current.top], to, !known.current.more && !known.current.rest.length) ?? ("step" in to ? found(known.current.rest, to, false) : undefined);
    if (here) return here;
    const there = async () => {
      if ("time" in to) return page({ checkpoint_id: idAt(to.time) });
      const [at] = await api.history(id, 1, undefined, !lazy(), undefined, { step: to.step });
      return at ? [at, ...(await page(at.checkpoint, pageSize - 1))] : [];
    };
    const answer = await load(there, (now, window) => (window.length ? joined(now.top, window, window.length === pageSize) : now));
    return answer ? answer[0] : jump(to);
  };
  useEffect(() => {
    known.current = nothing;
    set(nothing);
    setStatus({ busy: true });
    void first();
    return () => void turn.current++;
  }, [id]);
  return { ...loaded, ...status, first, next, fill, jump };
}

// joined puts a page behind others. If both have a checkpoint, nothing is left out between them.
function joined(top: State[], rest: State[], more: boolean): Loaded {
  const ids = new Set(rest.map(idOf));
  const touch = top.findIndex((s) => ids.has(idOf(s)));
  if (touch < 0) return { top, rest, more };
  const at = rest.findIndex((s) => idOf(s) === idOf(top[touch]!));
  const known = new Set(top.map(idOf));
  return { top: [...top, ...rest.slice(at).filter((s) => !known.has(idOf(s)))], rest: [], more };
}

// found looks for a place among checkpoints that follow each other. A time is there if an older
// checkpoint is, too, or there is none.
function found(states: State[], to: Place, all: boolean): State | undefined {
  if ("step" in to) return states.find((s) => s.metadata?.step === to.step);
  const at = states.findIndex((s) => new Date(s.created_at ?? "").getTime() <= to.time);
  return at >= 0 ? states[at] : all ? states.at(-1) : undefined;
}

// idAt is the id before which all checkpoints were made until a time: ids are UUIDs of version 6,
// which begin with the number of 100 ns since 1582.
export function idAt(ms: number): string {
  const ticks = ((BigInt(Math.round(ms)) + 1n) * 10_000n + 0x01b21dd213814000n).toString(16).padStart(15, "0");
  return `${ticks.slice(0, 8)}-${ticks.slice(8, 12)}-6${ticks.slice(12)}-8000-000000000000`;
}

// placeOf reads what a person wrote: the number of a step, a time of today, or a date.
export function placeOf(text: string): Place | undefined {
  const t = text.trim();
  const step = /^(?:step\s*)?(-?\d{1,9})$/i.exec(t);
  if (step) return { step: Number(step[1]) };
  const clock = /^(\d{1,2}):(\d{2})(?::(\d{2}))?$/.exec(t);
  if (clock) {
    const today = new Date(Date.now());
    today.setHours(Number(clock[1]), Number(clock[2]), Number(clock[3] ?? 59), 999);
    return { time: today.getTime() };
  }
  // A browser makes a date of nearly anything.
  if (!/^\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)?)?$/i.test(t)) return undefined;
  const time = new Date(t.replace(" ", "T")).getTime();
  return Number.isNaN(time) ? undefined : { time };
}
