// A value as a tree: maps and lists open when asked, with a hundred entries at a time.

import { useState } from "preact/hooks";
import { isFields, scalarOf } from "./json";
import { bytes, count, Text, visible, word } from "./text";
import type { Fields, Json } from "./types";

const page = 100;

// Value is closed, open, or open to the bottom.
export function Value({ value, name, open = false }: { value: Json | undefined; name?: Json; open?: boolean | "all" }) {
  const [opened, setOpened] = useState(!!open);
  const [shown, show] = useState(page);
  const label = name !== undefined && (
    <>
      <span class="key">{visible(name)}</span>{" "}
    </>
  );
  if (value === undefined) {
    return (
      <div class="leaf">
        {label}<em>not there</em>
      </div>
    );
  }
  if (marked(value) === "bytes") {
    const { bytes: size, start } = value as Fields;
    return (
      <div class="leaf">
        {label}<span class="note">{bytes(numberOf(size))} of binary data</span> <span class="scalar">{hex(word(start), numberOf(size))}</span>
      </div>
    );
  }
  if (marked(value) === "type") {
    const { type, code, value: inner } = value as Fields;
    return <Value name={`${word(name)} ${word(type) || `extension ${word(code)}`}`.trim()} value={inner} open={open} />;
  }
  if (marked(value) === "large") {
    return (
      <div class="leaf">
        {label}<span class="note">{bytes(numberOf((value as Fields).bytes))}, not shown here</span>
      </div>
    );
  }
  const scalar = scalarOf(value);
  if (value === null || typeof value !== "object" || scalar !== undefined) {
    return (
      <div class="leaf">
        {label}{typeof value === "string" ? <Text class="scalar string" text={value} /> : <span class="scalar">{scalar}</span>}
      </div>
    );
  }
  const entries: [string, Json][] = Array.isArray(value)
    ? value.slice(0, shown).map((v, i) => [String(i), v])
    : Object.entries(value).slice(0, shown);
  const size = Array.isArray(value) ? value.length : Object.keys(value).length;
  if (size === 0) {
    return (
      <div class="leaf">
        {label}<span class="scalar">{Array.isArray(value) ? "[]" : "{}"}</span>
      </div>
    );
  }
  return (
    <div class="branch">
      <button class="toggle" aria-expanded={opened} onClick={() => setOpened(!opened)}>
        {label}<span class="preview">{preview(value, size)}</span>
      </button>
      {opened && (
        <div class="inner">
          {entries.map(([key, v]) => (
            <Value key={key} name={key} value={v} open={open === "all" && open} />
          ))}
          {size > shown && (
            <button class="quiet" onClick={() => show(shown + 10 * page)}>
              {count(size - shown)} more
            </button>
          )}
        </div>
      )}
    </div>
  );
}

// marked is what a server of stele's puts in place of a value that JSON has no form for: "bytes",
// "type" or "large".
export function marked(value: Json | undefined): string | undefined {
  return isFields(value) && typeof value.$stele === "string" ? value.$stele : undefined;
}

// numberOf is a size; NaN of what is none.
export const numberOf = (v: Json | undefined): number => (typeof v === "number" ? v : NaN);

// hex is how binary data begins.
function hex(start: string, size: number): string {
  let binary: string;
  try {
    binary = atob(start).slice(0, 32);
  } catch {
    return start;
  }
  return Array.from(binary, (c) => c.charCodeAt(0).toString(16).padStart(2, "0")).join(" ") + (size > binary.length ? " …" : "");
}

// preview says what a closed value is, in one line.
function preview(value: Json[] | { [key: string]: Json }, size: number): string {
  if (Array.isArray(value)) return `list of ${count(size)}`;
  const keys = Object.keys(value).slice(0, 4).map(visible).map((k) => (k.length > 24 ? k.slice(0, 24) + "…" : k));
  return `{ ${keys.join(", ")}${size > 4 ? `, ${count(size - 4)} more` : ""} }`;
}
