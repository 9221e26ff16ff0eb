// Two checkpoints side by side, by channel: what was added, removed and changed.

import { diffArrays, diffWordsWithSpace } from "diff";
import { useState } from "preact/hooks";
import { asMessages, Conversation } from "./messages";
import { count, Text, visible } from "./text";
import type { Fields, Json } from "./types";
import { Value } from "./value";

export type Difference = "same" | "added" | "removed" | "changed";

export interface ChannelDifference {
  channel: string;
  kind: Difference;
  before?: Json;
  after?: Json;
}

// equal is deep equality of JSON, whatever the order of keys.
export function equal(a: Json | undefined, b: Json | undefined): boolean {
  if (a === b) return true;
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) return false;
  if (Array.isArray(a) || Array.isArray(b)) {
    return Array.isArray(a) && Array.isArray(b) && a.length === b.length && a.every((v, i) => equal(v, b[i]));
  }
  const keys = Object.keys(a);
  return keys.length === Object.keys(b).length && keys.every((k) => k in b && equal(a[k], b[k]));
}

export function compareValues(before: Json, after: Json): ChannelDifference[] {
  const fields = (v: Json): Fields => (v !== null && typeof v === "object" && !Array.isArray(v) ? v : { value: v });
  const a = fields(before);
  const b = fields(after);
  const channels = [...new Set([...Object.keys(a), ...Object.keys(b)])].sort();
  return channels.map((channel) => {
    const kind: Difference = !(channel in a) ? "added" : !(channel in b) ? "removed" : equal(a[channel], b[channel]) ? "same" : "changed";
    return { channel, kind, before: a[channel], after: b[channel] };
  });
}

export function Compare({ before, after }: { before: Json; after: Json }) {
  const all = compareValues(before, after);
  const different = all.filter((d) => d.kind !== "same");
  const [same, showSame] = useState(false);
  return (
    <div class="compare">
      {different.length === 0 && <p>Both have the same values.</p>}
      {different.map((d) => (
        <section key={d.channel} class={"difference " + d.kind}>
          <h3>
            {visible(d.channel)} <span class="note">{d.kind}</span>
          </h3>
          <Change before={d.before} after={d.after} />
        </section>
      ))}
      {all.length > different.length && (
        <button class="quiet" onClick={() => showSame(!same)}>
          {all.length - different.length === 1 ? "one channel is" : `${count(all.length - different.length)} channels are`} the same
        </button>
      )}
      {same && <p class="note">{all.filter((d) => d.kind === "same").map((d) => visible(d.channel)).join(", ")}</p>}
    </div>
  );
}

// Texts longer than this are shown whole beside each other: a diff would take too long.
const longest = 20_000;
const mostElements = 2000;

function Change({ before, after }: { before: Json | undefined; after: Json | undefined }) {
  if (typeof before === "string" && typeof after === "string" && before.length + after.length < longest) {
    return (
      <p class="words" dir="auto">
        {diffWordsWithSpace(before, after).map((part, i) =>
          part.added ? <ins key={i}>{visible(part.value)}</ins> : part.removed ? <del key={i}>{visible(part.value)}</del> : <span key={i}>{visible(part.value)}</span>,
        )}
      </p>
    );
  }
  if (Array.isArray(before) && Array.isArray(after) && before.length + after.length < mostElements) {
    return <ListChange before={before} after={after} />;
  }
  const maps = [before, after].every((v) => v !== null && typeof v === "object" && !Array.isArray(v));
  if (maps) {
    return (
      <div class="inner">
        {compareValues(before as Fields, after as Fields)
          .filter((d) => d.kind !== "same")
          .slice(0, 200)
          .map((d) => (
            <div key={d.channel} class={"difference " + d.kind}>
              <span class="key">{visible(d.channel)}</span>
              <Change before={d.before} after={d.after} />
            </div>
          ))}
      </div>
    );
  }
  return (
    <>
      {before !== undefined && (
        <del>
          <Side value={before} />
        </del>
      )}
      {after !== undefined && (
        <ins>
          <Side value={after} />
        </ins>
      )}
    </>
  );
}

// ListChange compares element by element; elements that stay are counted and not repeated.
function ListChange({ before, after }: { before: Json[]; after: Json[] }) {
  const parts = diffArrays(before, after, { comparator: (a, b) => equal(a, b) });
  return (
    <div class="inner">
      {parts.map((part, i) =>
        part.added || part.removed ? (
          part.value.slice(0, 100).map((v, j) =>
            part.added ? (
              <ins key={i + "." + j}>
                <Side value={v} />
              </ins>
            ) : (
              <del key={i + "." + j}>
                <Side value={v} />
              </del>
            ),
          )
        ) : (
          <p key={i} class="note">
            {count(part.value.length)} the same
          </p>
        ),
      )}
    </div>
  );
}

function Side({ value }: { value: Json }) {
  const messages = asMessages([value]);
  if (messages) return <Conversation messages={messages} />;
  return typeof value === "string" ? <Text text={value} /> : <Value value={value} open />;
}
