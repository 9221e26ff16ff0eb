// Exports of a thread: lines of JSON, and a page that shows them without any server.

import { argsOf, asMessages, callsOf, toolOf } from "./messages";
import { visible } from "./text";
import { idOf, madeBy, nextOf, standOf, stepOf } from "./tree";
import type { Json, State } from "./types";

export function exportLines(states: State[]): string {
  return states.map((s) => JSON.stringify(s)).join("\n") + "\n";
}

const escapes: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };
const esc = (text: unknown) => visible(text).replace(/[&<>"']/g, (c) => escapes[c]!);

// talk is the conversation of a checkpoint, if it has one.
function talk(state: State | undefined): string {
  const values = state?.values;
  if (!values || typeof values !== "object" || Array.isArray(values)) return "";
  const text = (content: Json) => (typeof content === "string" ? content : JSON.stringify(content, null, 2));
  return Object.entries(values)
    .flatMap(([channel, value]) => {
      const messages = asMessages(value);
      if (!messages) return [];
      const all = messages.map((m) => {
        const calls = callsOf(m).map((c) => `<pre>calls ${esc(toolOf(c))} ${esc(text(argsOf(c) ?? ""))}</pre>`);
        return `<section><b>${esc(m.type)}${m.name ? " · " + esc(m.name) : ""}</b>${text(m.content) ? `<pre>${esc(text(m.content))}</pre>` : ""}${calls.join("")}</section>`;
      });
      return [`<h2>${esc(channel)}</h2>`, ...all];
    })
    .join("\n");
}

// exportHTML is one file without scripts, styles of others, or anything that is loaded.
export function exportHTML(id: string, states: State[]): string {
  const parts = states.map(
    (s) =>
      `<details><summary><b>${esc(madeBy(s))} ${esc(stepOf(s))}</b> ${esc(standOf(s))} · next: ${esc(nextOf(s).join(", ") || "end")} · <code>${esc(idOf(s))}</code> · ${esc(s.created_at ?? "")}</summary><pre>${esc(JSON.stringify(s, null, 2))}</pre></details>`,
  );
  return `<!doctype html><html lang="en"><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'"><meta name="viewport" content="width=device-width"><title>${esc(id)}</title><style>body{font:15px/1.5 system-ui;max-width:70em;margin:2em auto;padding:0 1em;color-scheme:light dark}pre{white-space:pre-wrap;overflow-wrap:anywhere}summary{cursor:pointer;padding:.3em 0}section{border-left:3px solid #9994;padding-left:.8em;margin:.8em 0}section pre{margin:.2em 0}</style><h1>Thread <code>${esc(id)}</code></h1><p>${states.length} checkpoints, newest first.</p>${talk(states[0])}<h2>History</h2>${parts.join("\n")}</html>`;
}

export function save(name: string, type: string, text: string) {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const a = document.createElement("a");
  a.href = url;
  a.download = name.replace(/[^\w.-]+/g, "_");
  a.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
