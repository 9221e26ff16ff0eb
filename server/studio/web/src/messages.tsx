// Messages read as a conversation. They are LangChain's, as LangGraph's server writes them.

import { useState } from "preact/hooks";
import { isFields } from "./json";
import { count, list, Text, visible, word } from "./text";
import type { Fields, Json } from "./types";
import { Value } from "./value";

// Call is a call of a tool. Some programs store OpenAI's form of it, which has a function.
export interface Call {
  id?: Json;
  name?: Json;
  args?: Json;
  function?: { name?: Json; arguments?: Json } | null;
}

export const callsOf = (m: Message) => list(m.tool_calls);
export const toolOf = (call: Call) => word(call.name ?? call.function?.name);
export const argsOf = (call: Call) => call.args ?? call.function?.arguments;

// Message is a message as programs store it: whatever its fields should be, they may be anything.
export interface Message {
  type: string;
  id?: Json;
  name?: Json;
  content: Json;
  tool_calls?: Call[] | null;
  invalid_tool_calls?: { name?: Json }[] | null;
  tool_call_id?: Json;
  status?: Json;
  usage_metadata?: { input_tokens?: Json; output_tokens?: Json; total_tokens?: Json } | null;
  response_metadata?: Fields | null;
}

// textOf is the text of a message, without its other blocks.
export function textOf(content: Json): string {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return "";
  return content.map((b) => (typeof b === "string" ? b : isFields(b) && typeof b.text === "string" ? b.text : "")).join("");
}

const tokensOf = (m: Message) => (typeof m.usage_metadata?.total_tokens === "number" ? m.usage_metadata.total_tokens : 0);

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
  for (const m of messages) if (m.type === "tool" && m.tool_call_id) results.set(word(m.tool_call_id), m);
  for (const m of messages) for (const c of callsOf(m)) if (c.id) called.add(word(c.id));
  const tokens = messages.reduce((sum, m) => sum + tokensOf(m), 0);
  // A result is shown inside the call that it answers.
  const rows = messages.filter((m) => !(m.type === "tool" && m.tool_call_id && called.has(word(m.tool_call_id))));
  const from = Math.max(0, rows.length - shown);
  return (
    <div class="conversation">
      {from > 0 && (
        <button class="quiet" onClick={() => show(shown + 200)}>
          {count(from)} earlier messages
        </button>
      )}
      {rows.slice(from).map((m, i) => (
        <Bubble key={word(m.id) + " " + (from + i)} message={m} results={results} alone={messages.length === 1} />
      ))}
      {tokens > 0 && messages.length > 1 && <p class="note">{count(tokens)} tokens in total</p>}
    </div>
  );
}

function Bubble({ message: m, results, alone }: { message: Message; results: Map<string, Message>; alone: boolean }) {
  const kind = m.type.replace("MessageChunk", "").toLowerCase();
  return (
    <article class={"bubble " + (kind in names ? kind : "other")} aria-label={names[kind] ?? visible(m.type)}>
      <header>
        {names[kind] ?? visible(m.type)}
        {m.name ? <> · {visible(m.name)}</> : null}
        {tokensOf(m) ? <span class="note"> {count(tokensOf(m))} tokens</span> : null}
      </header>
      <Content content={m.content} />
      {callsOf(m).map((call, i) => {
        const result = results.get(word(call.id));
        return (
          <details class="call" key={i}>
            <summary>
              calls <b>{visible(toolOf(call))}</b>
              {result ? (result.status === "error" ? " · failed" : " · answered") : !alone && " · no answer yet"}
            </summary>
            <Value value={argsOf(call)} name="arguments" open />
            {result && (
              <div class="result">
                <Content content={result.content} />
              </div>
            )}
          </details>
        );
      })}
      {list(m.invalid_tool_calls).map((call, i) => (
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
