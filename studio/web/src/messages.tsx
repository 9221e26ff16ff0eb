// Messages read as a conversation. They are LangChain's, as LangGraph's server writes them.

import { useState } from "preact/hooks";
import { count, Text, visible } from "./text";
import type { Fields, Json } from "./types";
import { Value } from "./value";

// Call is a call of a tool. Some programs store OpenAI's form of it, which has a function.
export interface Call {
  id?: string | null;
  name?: string;
  args?: Json;
  function?: { name?: string; arguments?: Json };
}

export const toolOf = (call: Call) => call.name ?? call.function?.name ?? "";
export const argsOf = (call: Call) => call.args ?? call.function?.arguments;

export interface Message {
  type: string;
  id?: string | null;
  name?: string | null;
  content: Json;
  tool_calls?: Call[];
  invalid_tool_calls?: { id?: string | null; name?: string | null; args?: Json; error?: string | null }[];
  tool_call_id?: string;
  status?: string;
  usage_metadata?: { input_tokens?: number; output_tokens?: number; total_tokens?: number } | null;
}

const kinds = new Set(["human", "ai", "system", "tool", "function", "remove", "chat", "developer"]);

// asMessages is the list if every element is a message.
export function asMessages(value: Json | undefined): Message[] | undefined {
  if (!Array.isArray(value) || value.length === 0) return undefined;
  const all = value.every(
    (m) => m !== null && typeof m === "object" && !Array.isArray(m) && "content" in m && typeof m.type === "string" && kinds.has(m.type.replace("MessageChunk", "").toLowerCase()),
  );
  return all ? (value as unknown as Message[]) : undefined;
}

const names: Record<string, string> = { human: "Person", ai: "Model", system: "System", tool: "Tool" };

export function Conversation({ messages }: { messages: Message[] }) {
  const [shown, show] = useState(50);
  const results = new Map<string, Message>();
  const called = new Set<string>();
  for (const m of messages) if (m.type === "tool" && m.tool_call_id) results.set(m.tool_call_id, m);
  for (const m of messages) for (const c of m.tool_calls ?? []) if (c.id) called.add(c.id);
  const tokens = messages.reduce((sum, m) => sum + (m.usage_metadata?.total_tokens ?? 0), 0);
  // A result is shown inside the call that it answers.
  const rows = messages.filter((m) => !(m.type === "tool" && m.tool_call_id && called.has(m.tool_call_id)));
  const from = Math.max(0, rows.length - shown);
  return (
    <div class="conversation">
      {from > 0 && (
        <button class="quiet" onClick={() => show(shown + 200)}>
          {count(from)} earlier messages
        </button>
      )}
      {rows.slice(from).map((m, i) => (
        <Bubble key={m.id ?? from + i} message={m} results={results} />
      ))}
      {tokens > 0 && <p class="note">{count(tokens)} tokens in all</p>}
    </div>
  );
}

function Bubble({ message: m, results }: { message: Message; results: Map<string, Message> }) {
  const kind = m.type.replace("MessageChunk", "").toLowerCase();
  return (
    <article class={"bubble " + (kind in names ? kind : "other")} aria-label={names[kind] ?? m.type}>
      <header>
        {names[kind] ?? visible(m.type)}
        {m.name ? <> · {visible(m.name)}</> : null}
        {m.usage_metadata?.total_tokens ? <span class="note"> {count(m.usage_metadata.total_tokens)} tokens</span> : null}
      </header>
      <Content content={m.content} />
      {(m.tool_calls ?? []).map((call, i) => (
        <details class="call" key={call.id ?? i}>
          <summary>
            calls <b>{visible(toolOf(call))}</b>
            {results.has(call.id ?? "") ? (results.get(call.id!)!.status === "error" ? " · failed" : " · answered") : " · no answer yet"}
          </summary>
          <Value value={argsOf(call)} name="arguments" open />
          {results.has(call.id ?? "") && (
            <div class="result">
              <Content content={results.get(call.id!)!.content} />
            </div>
          )}
        </details>
      ))}
      {(m.invalid_tool_calls ?? []).map((call, i) => (
        <details class="call bad" key={i}>
          <summary>a call that cannot be read{call.name ? <>: {visible(call.name)}</> : null}</summary>
          <Value value={call as unknown as Fields} open />
        </details>
      ))}
    </article>
  );
}

// Content is a text, or a list of blocks.
function Content({ content }: { content: Json }) {
  if (typeof content === "string") return content ? <Prose text={content} /> : null;
  if (!Array.isArray(content)) return <Value value={content} />;
  return (
    <>
      {content.map((block, i) => {
        if (typeof block === "string") return <Prose key={i} text={block} />;
        if (block !== null && typeof block === "object" && !Array.isArray(block)) {
          if (block.type === "text" && typeof block.text === "string") return <Prose key={i} text={block.text} />;
          if (block.type === "tool_use" || block.type === "tool_call") return null;
          return <Value key={i} value={block} name={typeof block.type === "string" ? block.type : undefined} />;
        }
        return <Value key={i} value={block} />;
      })}
    </>
  );
}

// Prose is plain text. Markdown is rendered only when a person asks for it, cleaned, and
// without links and images, so that reading a thread never loads anything.
function Prose({ text }: { text: string }) {
  const [html, render] = useState<string>();
  const looks = text.length < 200_000 && /(^|\n)(#|[-*] |\d+\. |```|\|)|\*\*|`/.test(text);
  return (
    <div class="prose">
      {html === undefined ? <Text text={text} /> : <div class="markdown" dangerouslySetInnerHTML={{ __html: html }} />}
      {looks && (
        <button
          class="quiet"
          onClick={() =>
            html === undefined
              ? import("./markdown").then((m) => render(m.clean(text)))
              : render(undefined)
          }
        >
          {html === undefined ? "as Markdown" : "as text"}
        </button>
      )}
    </div>
  );
}
