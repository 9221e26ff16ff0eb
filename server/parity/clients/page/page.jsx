// A chat by useStream, of the SDK or of @langchain/react: the address says which, and the thread.
// drive.mjs builds it and uses it as a person does.

import { useChannel, useMessageMetadata, useStream } from "@langchain/react";
import { useStream as useStreamOfSDK } from "@langchain/langgraph-sdk/react";
import { useState } from "react";
import { createRoot } from "react-dom/client";

const address = new URL(window.location.href);
const asked = (name) => address.searchParams.get(name) ?? undefined;

// useOptions are those that both hooks take.
function useOptions() {
  const [threadId, setThread] = useState(asked("thread"));
  const onThreadId = (id) => {
    setThread(id);
    address.searchParams.set("thread", id);
    window.history.replaceState(null, "", address); // so that a reload shows the same thread
  };
  return { apiUrl: asked("api"), assistantId: asked("graph"), threadId, onThreadId };
}

const said = (text) => ({ messages: [{ type: "human", content: text }] });

// SDK is a chat by the hook of @langchain/langgraph-sdk/react, which knows branches.
function SDK() {
  const s = useStreamOfSDK({ ...useOptions(), fetchStateHistory: { limit: 100 }, reconnectOnMount: true });
  const edit = (message, text) => {
    const { firstSeenState } = s.getMessagesMetadata(message);
    s.submit(said(text), { checkpoint: firstSeenState.parent_checkpoint });
  };
  const branches = (message) => {
    const { branch, branchOptions } = s.getMessagesMetadata(message) ?? {};
    return branchOptions && { at: branchOptions.indexOf(branch), count: branchOptions.length, go: (i) => s.setBranch(branchOptions[i]) };
  };
  // Without a checkpoint the hook shows the newest fork when the run has ended.
  const send = (text) => s.submit(said(text), s.branch ? { checkpoint: s.history.at(-1).checkpoint } : {});
  return (
    <Chat
      messages={s.messages}
      calls={s.toolCalls.map((c) => ({ name: c.call.name, args: c.call.args, output: c.result?.content, state: c.state }))}
      interrupt={s.interrupt}
      loading={s.isLoading}
      error={s.error}
      send={send}
      answer={(text) => s.submit(undefined, { command: { resume: text } })}
      edit={edit}
      branches={branches}
    />
  );
}

const lifecycle = ["lifecycle"];

// React is a chat by the hook of @langchain/react. It has no branches: a page that wants them reads
// the history, and runs from a checkpoint of it. A question is answered by its id: after a reload the hook
// shows it from the state, and knows which one waits only when the stream says so again. The page shows
// what the stream has said last about a run: the hook has taken all that came before it.
function React() {
  const s = useStream(useOptions());
  const runs = useChannel(s, lifecycle, undefined, { replay: false }); // of the hook's own stream
  const [heads, setHeads] = useState([]);
  const history = () => s.client.threads.getHistory(s.threadId, { limit: 100 });
  const edit = async (message, text) => {
    const states = await history();
    const first = states.findLast((state) => state.values.messages?.some((m) => m.id === message.id));
    setHeads([...heads, states[0].checkpoint.checkpoint_id]);
    await s.submit(said(text), { forkFrom: first.parent_checkpoint.checkpoint_id });
  };
  const parent = useMessageMetadata(s, s.messages.at(-1)?.id)?.parentCheckpointId;
  return (
    <Chat
      messages={s.messages}
      calls={s.toolCalls.map((c) => ({ name: c.name, args: c.args, output: c.output, state: c.status }))}
      interrupt={s.interrupt}
      loading={s.isLoading}
      error={s.error}
      parent={parent}
      told={runs.at(-1)?.params.data.event}
      send={(text, head) => s.submit(said(text), head === undefined ? {} : { forkFrom: heads[head] })}
      answer={(text) => s.respond(text, { interruptId: s.interrupt.id })}
      edit={edit}
      branches={() => undefined}
      heads={heads.length}
    />
  );
}

// Chat shows what a hook has, and does by it what its buttons say.
function Chat({ messages, calls, interrupt, loading, error, parent, told, send, answer, edit, branches, heads = 0 }) {
  const [text, setText] = useState("");
  const take = (f) => () => {
    setText("");
    f(text);
  };
  return (
    <>
      <output id="loading">{loading ? "loading" : "idle"}</output>
      <output id="error">{error ? String(error.message ?? error) : ""}</output>
      <output id="parent">{parent}</output>
      <output id="told">{told}</output>
      <ol id="messages">
        {messages.map((m, i) => (
          <li key={m.id ?? i} data-type={m.type} data-id={m.id}>
            <p>{typeof m.content === "string" ? m.content : m.content.map((b) => b.text).join("")}</p>
            {m.type === "human" && <button onClick={take((text) => edit(m, text))}>edit</button>}
            <Branches of={branches(m)} />
          </li>
        ))}
      </ol>
      <ol id="calls">
        {calls.map((c, i) => (
          <li key={i}>{JSON.stringify(c)}</li>
        ))}
      </ol>
      <output id="interrupt">{interrupt && JSON.stringify(interrupt.value)}</output>
      <input id="text" value={text} onChange={(e) => setText(e.target.value)} />
      <button id="send" onClick={take(send)}>send</button>
      <button id="answer" onClick={take(answer)}>answer</button>
      {Array.from({ length: heads }, (_, i) => (
        <button key={i} className="head" onClick={take((text) => send(text, i))}>go on there</button>
      ))}
    </>
  );
}

function Branches({ of }) {
  if (!of) return null;
  return (
    <span className="branches">
      <button disabled={of.at === 0} onClick={() => of.go(of.at - 1)}>before</button>
      <output>{`${of.at + 1}/${of.count}`}</output>
      <button disabled={of.at === of.count - 1} onClick={() => of.go(of.at + 1)}>after</button>
    </span>
  );
}

createRoot(document.getElementById("chat")).render(asked("hook") === "sdk" ? <SDK /> : <React />);
