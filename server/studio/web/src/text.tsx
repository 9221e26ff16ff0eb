// How text that came from a model, a person or a program is shown. It is text, never markup,
// and what cannot be seen is made visible: control characters, and those that turn the
// direction of writing, which could make one id look like another.

import { useState } from "preact/hooks";
import type { Json } from "./types";

// hidden is what no font draws: control characters, and what Unicode calls default-ignorable, such as the
// tags with which a text for models is hidden from people. An emoji may say how it is drawn.
const hidden = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u2028\u2029]|(?![\ufe0e\ufe0f])\p{Default_Ignorable_Code_Point}|(?<!\p{Extended_Pictographic})[\ufe0e\ufe0f]/gu;

// word is whatever a program has put where a name or a text is expected.
export function word(it: unknown): string {
  if (typeof it === "string") return it;
  return it === undefined || it === null ? "" : (JSON.stringify(it) ?? "");
}

// list is what a program has put where a list of objects is expected: others are left out.
export function list<T extends object>(it: readonly T[] | null | undefined): T[] {
  return Array.isArray(it) ? it.filter((e) => e !== null && typeof e === "object") : [];
}

export function visible(text: unknown): string {
  return word(text).replace(hidden, (c) => {
    const code = c.codePointAt(0)!.toString(16).padStart(4, "0");
    return code.length > 4 ? `\\u{${code}}` : `\\u${code}`;
  });
}

const few = 2000;

// Text shows a text up to a bound, and more of it when asked: a value of megabytes would stop
// the page.
export function Text({ text: it, class: name, first = few }: { text: unknown; class?: string; first?: number }) {
  const [shown, show] = useState(first);
  const text = word(it);
  const cut = text.length > shown;
  return (
    <span class={name} dir="auto">
      {visible(cut ? text.slice(0, shown) : text)}
      {cut && (
        <>
          {"… "}
          <button class="quiet" onClick={() => show(Math.max(shown * 10, 20_000))}>
            {count(text.length - shown)} more characters
          </button>
        </>
      )}
    </span>
  );
}

export function Id({ id, short }: { id: unknown; short?: boolean }) {
  const text = visible(id);
  // Ids that people chose say something: they are cut by the room that there is.
  // Those of checkpoints have the version 6, and of their time what changes is in the middle.
  const cut = !short || !/^[0-9a-f]{8}-[0-9a-f-]{27}$/i.test(text) ? text : text[14] === "6" ? "…" + text.slice(9, 18) : text.slice(0, 8) + "…" + text.slice(-4);
  return (
    <code class="id" title={text} dir="ltr">
      {cut}
    </code>
  );
}

export function count(n: number): string {
  return n.toLocaleString("en");
}

export function bytes(n: number): string {
  if (n < 1000) return `${n} B`;
  const units = ["kB", "MB", "GB", "TB"];
  let unit = -1;
  do {
    n /= 1000;
    unit++;
  } while (n >= 999.5 && unit < units.length - 1);
  return `${n < 10 ? n.toFixed(1) : Math.round(n)} ${units[unit]}`;
}

// exact is a local time such as 2006-01-02 15:04:05. The browser's own formatter takes tens of
// milliseconds to make, of the time to the first screen.
export function exact(at: Date): string {
  const two = (n: number) => String(n).padStart(2, "0");
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}

// Time shows how long ago something was, and when, on hover.
export function Time({ at }: { at: Json | undefined }) {
  if (typeof at !== "string") return at ? <span>{visible(at)}</span> : null;
  const then = new Date(at);
  if (Number.isNaN(then.getTime())) return <span>{visible(at)}</span>;
  return (
    <time dateTime={at} title={exact(then)}>
      {ago(Date.now() - then.getTime())}
    </time>
  );
}

// spent is how long something took.
export function spent(ms: number): string {
  return ms < 1000 ? `${Math.round(ms)} ms` : ms < 60_000 ? `${(ms / 1000).toFixed(1)} s` : ms < 5_400_000 ? `${Math.round(ms / 60_000)} min` : ms < 129_600_000 ? `${Math.round(ms / 3_600_000)} h` : `${Math.round(ms / 86_400_000)} d`;
}

export function ago(ms: number): string {
  const s = Math.round(ms / 1000);
  if (s < 5) return "now";
  if (s < 60) return `${s} s ago`;
  if (s < 3600) return `${Math.floor(s / 60)} min ago`;
  if (s < 86_400) return `${Math.floor(s / 3600)} h ago`;
  return `${Math.floor(s / 86_400)} d ago`;
}

// causeOf is the text of an error without the ids of tasks, which are for programs.
export const causeOf = (error: unknown) => word(error).replace(/ \(task [0-9a-f-]{36}\)/g, "");

// minute is a time that a person keeps in mind: to the minute, and in how long it is.
export function minute(at: unknown): string {
  const then = new Date(word(at));
  if (Number.isNaN(then.getTime())) return visible(at);
  const left = then.getTime() - Date.now();
  return exact(then).slice(0, 16) + (left > 0 ? `, in ${spent(left)}` : "");
}
