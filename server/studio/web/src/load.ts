// What a screen shows while something is fetched, when it is there, and when it failed.

import { useEffect, useRef, useState } from "preact/hooks";
import { Problem } from "./api";

export interface Loaded<T> {
  value?: T;
  error?: string;
  loading: boolean;
  again: () => void;
}

// useLoad fetches when any of deps changes, or when again is called. What came before stays on
// the screen until its successor is there; an answer that comes too late is dropped.
export function useLoad<T>(fetch: (signal: AbortSignal) => Promise<T>, deps: unknown[]): Loaded<T> {
  const [state, set] = useState<{ value?: T; error?: string; loading: boolean }>({ loading: true });
  const [turn, setTurn] = useState(0);
  const fn = useRef(fetch);
  fn.current = fetch;
  useEffect(() => {
    const abort = new AbortController();
    set((s) => ({ ...s, loading: true }));
    fn.current(abort.signal).then(
      (value) => abort.signal.aborted || set({ value, loading: false }),
      (error) => abort.signal.aborted || set((s) => ({ value: s.value, error: say(error), loading: false })),
    );
    return () => abort.abort();
  }, [...deps, turn]);
  return { ...state, again: () => setTurn((t) => t + 1) };
}

export function say(error: unknown): string {
  if (error instanceof Problem) {
    if (error.conflict) return `Somebody else was first, and nothing was overwritten. ${error.detail}`;
    return error.status ? `${error.detail} (${error.status})` : error.detail;
  }
  return error instanceof Error ? error.message : String(error);
}

// useEvery calls fn every ms while the page is visible.
export function useEvery(ms: number, fn: () => void) {
  const current = useRef(fn);
  current.current = fn;
  useEffect(() => {
    const timer = setInterval(() => document.visibilityState === "visible" && current.current(), ms);
    return () => clearInterval(timer);
  }, [ms]);
}
