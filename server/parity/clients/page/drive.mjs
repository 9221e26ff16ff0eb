// useStream in a browser, against a server: page.jsx is used as a person uses it, and what that
// does is looked up in the server.
//
// Usage: node drive.mjs API PAGE DIR CHROMIUM [HOOK.PLAY], where package.json is installed. PAGE is the
// address at which DIR is served: an origin of its own, as pages have.
// The graphs are agent of ../../graphs_test.go, and story of ../../page_test.go.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const [api, page, dir, executablePath, only] = process.argv.slice(2);
const require = createRequire(pathToFileURL(process.cwd() + "/")); // where the packages are
const { build } = require("esbuild");
const { chromium } = require("playwright-core");

await build({
  entryPoints: [fileURLToPath(new URL("page.jsx", import.meta.url))],
  outfile: join(dir, "page.js"),
  bundle: true,
  format: "esm",
  jsx: "automatic",
  nodePaths: [join(process.cwd(), "node_modules")],
  define: { "process.env.NODE_ENV": '"production"' },
  logLevel: "warning",
});
await writeFile(join(dir, "index.html"), '<!doctype html><meta charset="utf-8"><title>chat</title><link rel="icon" href="data:,"><div id="chat"></div><script type="module" src="page.js"></script>');

const patience = 60_000; // of every wait; it decides nothing but how long a failure takes

async function call(method, path, body) {
  const r = await fetch(api + path, { method, headers: { "content-type": "application/json" }, body: body && JSON.stringify(body) });
  assert.ok(r.ok, `${method} ${path}: ${r.status} ${await r.clone().text()}`);
  return r.status === 204 ? undefined : r.json();
}

// stele has stored what it tells. LangGraph's own server stores how a run ended after it has told that, and for a
// question even later: it tells that the run is interrupted before the run ends.
const { stele } = await call("GET", "/info");

// Tab is a chat in a tab of the browser. What its console reports is a failure.
class Tab {
  reports = [];

  static async open(browser, hook, graph) {
    const tab = new Tab();
    tab.page = await (await browser.newContext()).newPage();
    tab.page.setDefaultTimeout(patience);
    tab.page.on("console", (m) => m.type() === "error" && tab.reports.push(`${m.text()} ${m.location().url}`));
    tab.page.on("pageerror", (e) => tab.reports.push(String(e)));
    await tab.page.goto(`${page}/?${new URLSearchParams({ api, hook, graph })}`);
    return tab;
  }

  async close() {
    assert.deepEqual(this.reports, []);
    await this.page.context().close();
  }

  get thread() {
    return new URL(this.page.url()).searchParams.get("thread");
  }

  // shown is the conversation: [type, text] of each message.
  shown() {
    return this.page.$$eval("#messages li", (all) => all.map((m) => [m.dataset.type, m.querySelector("p").innerText]));
  }

  text(selector) {
    return this.page.$eval(selector, (e) => e.innerText);
  }

  // question is what the page shows of a question, in one order of its fields; "null" if there is none.
  async question() {
    return JSON.stringify(JSON.parse((await this.text("#interrupt")) || "null"), ["city", "question"]);
  }

  // until waits until f returns true, or what it returns is what is wanted.
  async until(what, f, wanted = true) {
    let got;
    for (const end = Date.now() + patience; Date.now() < end; await new Promise((r) => setTimeout(r, 20))) {
      got = await f();
      try {
        assert.deepEqual(got, wanted);
        return;
      } catch {}
    }
    assert.fail(`${what}: ${JSON.stringify(got)}, wanted ${JSON.stringify(wanted)}; the page says: ${await this.text("#error")} ${this.reports}`);
  }

  // stores demands something of the server that follows from what the page shows.
  async stores(what, f, wanted) {
    if (stele) assert.deepEqual(await f(), wanted, what);
    else await this.until(what, f, wanted);
  }

  // shows waits for a conversation, and for the end of its run unless a run goes on.
  async shows(wanted, loading = "idle") {
    await this.until("the conversation", () => this.shown(), wanted);
    await this.until("whether a run goes on", () => this.text("#loading"), loading);
    assert.equal(await this.text("#error"), "");
    const ids = await this.page.$$eval("#messages li", (all) => all.map((m) => m.dataset.id));
    assert.equal(new Set(ids).size, ids.length, "two messages have one id");
  }

  async write(text, button) {
    await this.page.fill("#text", text);
    await this.page.click(button);
  }

  send(text) {
    return this.write(text, "#send");
  }

  edit(n, text) {
    return this.write(text, `#messages li:nth-child(${n}) button`);
  }

  // stored demands that the server has a conversation.
  stored(wanted) {
    return this.stores("the stored conversation", async () => {
      const { values } = await call("GET", `/threads/${this.thread}/state`);
      return values.messages.map((m) => [m.type, plain(m.content)]);
    }, wanted);
  }

  // status demands a status of the thread.
  status(wanted) {
    return this.stores("the status", async () => (await call("GET", `/threads/${this.thread}`)).status, wanted);
  }
}

// plain is the text of a message: LangGraph's own server makes blocks of it for version 2.
const plain = (content) => (typeof content === "string" ? content : content.map((b) => b.text ?? "").join(""));
const human = (text) => ["human", text];
const repeats = (text) => ["ai", `You said: ${text}`];
const turn = (text) => [human(text), repeats(text)];

// A chat with tool calls: each message comes once, and the thread has what the page shows.
async function tools(browser, hook) {
  const tab = await Tab.open(browser, hook, "agent");
  await tab.send("hello");
  await tab.shows(turn("hello"));
  await tab.send("weather in Paris");
  const wanted = [...turn("hello"), human("weather in Paris"), ["ai", ""], ["tool", "It rains in Paris"], repeats("It rains in Paris")];
  await tab.shows(wanted);
  await tab.stored(wanted);
  await tab.status("idle");
  const thread = await call("GET", `/threads/${tab.thread}`);
  assert.deepEqual(thread.values.messages[3].tool_calls.map((c) => [c.name, c.args]), [["weather", { city: "Paris" }]]);
  const { parent_checkpoint: before } = await call("GET", `/threads/${tab.thread}/state`);
  const parent = await tab.text("#parent"); // the SDK has none, and LangGraph's own server says nothing
  assert.ok(["", before.checkpoint_id].includes(parent), `the values are those behind ${parent}, not ${before.checkpoint_id}`);
  await tab.page.reload();
  await tab.shows(wanted);
  if (hook === "react") await tab.until("the checkpoint before", () => tab.text("#parent"), before.checkpoint_id);
  await tab.close();
}

const asked = JSON.stringify({ city: "Rome", question: "The weather of Rome?" });
const answered = [human("weather in Rome"), ["ai", ""], ["tool", "sunny"], repeats("sunny")];

// asks opens a chat with a question of the graph.
async function asks(browser, hook) {
  const tab = await Tab.open(browser, hook, "agent");
  await tab.send("weather in Rome");
  await tab.until("the question", () => tab.question(), asked);
  await tab.shows([human("weather in Rome"), ["ai", ""]]);
  await tab.status("interrupted");
  return tab;
}

// over waits for the answered conversation, and demands that the server has no question.
async function over(tab) {
  await tab.shows(answered);
  await tab.stored(answered);
  await tab.status("idle");
  assert.deepEqual((await call("GET", `/threads/${tab.thread}`)).interrupts, {});
}

// A question of the graph: the page shows it, shows it again after a reload, and answers it.
async function question(browser, hook) {
  const tab = await asks(browser, hook);
  await tab.page.reload();
  await tab.until("the question after a reload", () => tab.question(), asked);
  if (hook === "react") await tab.until("the question in the stream", () => tab.text("#told"), "interrupted"); // quick says why
  await tab.write("sunny", "#answer");
  await over(tab);
  await tab.until("no question", () => tab.question(), "null");
  await tab.close();
}

// An answer that is quicker than the stream. After a reload the hook of @langchain/react shows the question from the
// state; the stream, which says again all that was, begins here when the server has accepted the answer. It counts.
// But for version 1.1.0 of the hook what the stream then says is new, and so is the question: old is only what is
// numbered up to the applied_through_seq of the accepted answer, which is 0 for a command that is a request, with
// LangGraph's own server too. If the next state that it reads still has the question, as the run has not begun, the
// page shows it until a reload. Therefore only then it must be gone; question waits for the stream before it answers.
async function quick(browser, hook) {
  const tab = await asks(browser, hook);
  let begin;
  const begun = new Promise((resolve) => (begin = resolve));
  await tab.page.route("**/stream/events", (route) => begun.then(() => route.continue()));
  await tab.page.reload();
  await tab.until("the question after a reload", () => tab.question(), asked);
  const accepted = tab.page.waitForResponse((r) => r.url().endsWith("/commands"));
  await tab.write("sunny", "#answer");
  assert.equal((await (await accepted).json()).type, "success");
  begin();
  await over(tab);
  await tab.page.reload();
  await tab.shows(answered);
  assert.equal(await tab.question(), "null");
  await tab.close();
}

// A message is edited: a second branch begins before it, and the first one stays. The
// conversation goes on in either.
async function branches(browser, hook) {
  const tab = await Tab.open(browser, hook, "agent");
  await tab.send("one");
  await tab.shows(turn("one"));
  await tab.send("two");
  await tab.shows([...turn("one"), ...turn("two")]);
  await tab.edit(3, "deux");
  await tab.shows([...turn("one"), ...turn("deux")]);
  await tab.stored([...turn("one"), ...turn("deux")]);
  const history = await call("POST", `/threads/${tab.thread}/history`, { limit: 100 });
  const ends = history.filter((s) => !history.some((o) => o.parent_checkpoint?.checkpoint_id === s.checkpoint.checkpoint_id));
  assert.deepEqual(ends.map((s) => plain(s.values.messages.at(-1).content)), ["You said: deux", "You said: two"]);

  if (hook === "sdk") {
    const at = () => tab.text("#messages .branches output");
    await tab.until("two branches", at, "2/2");
    await tab.page.click(".branches button:first-child");
    await tab.shows([...turn("one"), ...turn("two")]);
    await tab.until("the first branch", at, "1/2");
    await tab.page.click(".branches button:last-child");
    await tab.shows([...turn("one"), ...turn("deux")]);
    await tab.page.click(".branches button:first-child");
    await tab.shows([...turn("one"), ...turn("two")]);
    await tab.send("three");
  } else {
    await tab.write("three", ".head");
  }
  const wanted = [...turn("one"), ...turn("two"), ...turn("three")];
  await tab.shows(wanted);
  await tab.stored(wanted);

  await tab.edit(1, "un"); // there is a branch from the beginning, too
  await tab.shows(turn("un"));
  await tab.stored(turn("un"));
  await tab.page.reload();
  await tab.shows(turn("un"));
  await tab.send("deux");
  await tab.shows([...turn("un"), ...turn("deux")]);
  await tab.stored([...turn("un"), ...turn("deux")]);
  await tab.close();
}

// A reload in the middle of a stream: the run goes on, and so does the stream. The story waits
// until an item is stored, so the reload is always in the middle.
async function reload(browser, hook) {
  const tab = await Tab.open(browser, hook, "story");
  const title = randomUUID();
  await tab.send(title);
  await tab.shows([human(title), ["ai", "Once upon a time"]], "loading");
  await tab.page.reload();
  await tab.shows([human(title), ["ai", "Once upon a time"]], "loading");
  const list = async () => (await call("GET", `/threads/${tab.thread}/runs`)).map((r) => [r.run_id, r.status]);
  const runs = await list();
  assert.deepEqual(runs.map((r) => r[1]), ["running"]);
  await call("PUT", "/store/items", { namespace: ["stories"], key: title, value: { go: "on" } });
  const wanted = [human(title), ["ai", "Once upon a time it ended."]];
  await tab.shows(wanted);
  await tab.stored(wanted);
  await tab.stores("the runs", list, [[runs[0][0], "success"]]);
  const next = randomUUID();
  await tab.send(next);
  await tab.shows([...wanted, human(next), ["ai", "Once upon a time"]], "loading");
  await call("PUT", "/store/items", { namespace: ["stories"], key: next, value: { go: "on" } });
  await tab.shows([...wanted, human(next), ["ai", "Once upon a time it ended."]]);
  await tab.close();
}

const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu"] });
let failed = false;
const plays = { sdk: [tools, question, branches, reload], react: [tools, question, quick, branches, reload] };
for (const hook in plays) {
  for (const play of plays[hook]) {
    if (only && only !== `${hook}.${play.name}`) continue;
    try {
      await play(browser, hook);
      console.log(hook, play.name);
    } catch (e) {
      failed = true;
      console.log(hook, play.name, "FAILED", e.stack);
    }
  }
}
await browser.close();
process.exit(failed ? 1 : 0);
