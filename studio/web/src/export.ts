// Exports of a thread: lines of JSON, and a page that shows them without any server.

import { visible } from "./text";
import { idOf, madeBy, standOf, stepOf } from "./tree";
import type { State } from "./types";

export function exportLines(states: State[]): string {
  return states.map((s) => JSON.stringify(s)).join("\n") + "\n";
}

const escapes: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };
const esc = (text: string) => visible(text).replace(/[&<>"']/g, (c) => escapes[c]!);

// exportHTML is one file without scripts, styles of others, or anything that is loaded.
export function exportHTML(id: string, states: State[]): string {
  const parts = states.map(
    (s) =>
      `<details><summary><b>${esc(madeBy(s))} ${esc(stepOf(s))}</b> ${esc(standOf(s))} · next: ${esc(s.next.join(", ") || "end")} · <code>${esc(idOf(s))}</code> · ${esc(s.created_at ?? "")}</summary><pre>${esc(JSON.stringify(s, null, 2))}</pre></details>`,
  );
  return `<!doctype html><html lang="en"><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'"><meta name="viewport" content="width=device-width"><title>${esc(id)}</title><style>body{font:15px/1.5 system-ui;max-width:70em;margin:2em auto;padding:0 1em;color-scheme:light dark}pre{white-space:pre-wrap;overflow-wrap:anywhere}summary{cursor:pointer;padding:.3em 0}</style><h1>Thread <code>${esc(id)}</code></h1><p>${states.length} checkpoints, newest first.</p>${parts.join("\n")}</html>`;
}

export function save(name: string, type: string, text: string) {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const a = document.createElement("a");
  a.href = url;
  a.download = name.replace(/[^\w.-]+/g, "_");
  a.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
