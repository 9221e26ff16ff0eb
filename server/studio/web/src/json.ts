// JSON as it is written. JavaScript has no integers above 2^53, and writes 1.0 as 1; a value that
// a person only looks at, or stores again after an edit elsewhere in it, must stay what it was.

import type { Fields, Json } from "./types";

// Exact is a number that JavaScript would write in another way. JSON.stringify writes it as it was read.
interface Exact {
  rawJSON: string;
}

const raw = JSON as unknown as { rawJSON?: (text: string) => Exact; isRawJSON?: (v: unknown) => v is Exact };

// odd finds, in a text of JSON, every number that may need it, and little else: an integer of 16 digits,
// a fraction, an exponent, a negative zero. Most answers of servers have none, and are read fast.
const odd = /(?:^|"\s*:|[[,])\s*-?(?:\d{16}|\d+[.eE]|0(?<=-0))/;

// parse reads JSON. Browsers of before 2025 round what they have no number for.
export function parse(text: string): Json {
  if (!raw.rawJSON || !odd.test(text)) return JSON.parse(text) as Json;
  const keep = (_: string, value: unknown, context?: { source?: string }) =>
    typeof value === "number" && context?.source !== undefined && String(value) !== context.source ? raw.rawJSON!(context.source) : value;
  return JSON.parse(text, keep as (key: string, value: unknown) => unknown) as Json;
}

const isExact = (v: unknown): v is Exact => raw.isRawJSON?.(v) ?? false;

export const isNumber = (v: Json | undefined) => typeof v === "number" || isExact(v);

export const isFields = (v: Json | undefined): v is Fields => v !== null && typeof v === "object" && !Array.isArray(v) && !isExact(v);

// scalarOf is the text of what is no list and no object; undefined of what is.
export function scalarOf(v: Json): string | undefined {
  if (isExact(v)) return v.rawJSON;
  return v === null || typeof v !== "object" ? String(v) : undefined;
}

// rounded is a value with JavaScript's numbers, for code that knows no others.
export function rounded(v: Json): Json {
  if (isExact(v)) return Number(v.rawJSON);
  if (Array.isArray(v)) return v.map(rounded);
  return isFields(v) ? Object.fromEntries(Object.entries(v).map(([k, e]) => [k, rounded(e)])) : v;
}

// resolved follows references within a JSON Schema.
export function resolved(schema: Json | undefined, root: Fields): Fields {
  for (let i = 0; i < 20 && isFields(schema) && typeof schema.$ref === "string" && schema.$ref.startsWith("#/"); i++) {
    let at: Json | undefined = root;
    for (const part of schema.$ref.slice(2).split("/")) at = isFields(at) ? at[decodeURIComponent(part).replace(/~1/g, "/").replace(/~0/g, "~")] : undefined;
    schema = at;
  }
  return isFields(schema) ? schema : {};
}
