/**
 * Goes on with a graph that programs in other languages have begun, on the store that they
 * have begun it on. The tests of the client for Python start it:
 *
 *	node handover.mjs ADDRESS THREAD CALLS
 *
 * CALLS is a JSON list. Each call is `{"input": ...}` or `{"resume": ...}`; after each the
 * state and the questions are printed, a line of JSON. The graph is that of
 * wire/python/tests/test_handover.py.
 */
import { Annotation, Command, INTERRUPT, interrupt, Send, START, StateGraph } from "@langchain/langgraph";
import { SteleSaver } from "langgraph-checkpoint-stele";

const [address, thread, calls] = process.argv.slice(2);

const fan = (to) => () => new Command({ goto: [0, 1, 2].map((n) => new Send(to, { n })) });
const work = ({ n }) => ({ log: [`javascript ${n}`] });

const review = new StateGraph(Annotation.Root({ answer: Annotation() }))
  .addNode("ask", () => ({ answer: interrupt("May I?") }))
  .addEdge(START, "ask")
  .compile();
const graph = new StateGraph(
  Annotation.Root({
    log: Annotation({ reducer: (all, more) => all.concat(more), default: () => [] }),
    answer: Annotation(),
    confirmed: Annotation(),
  }),
)
  .addNode("fan", fan("work"), { ends: ["work"] })
  .addNode("work", work)
  .addNode("review", review)
  .addNode("more", fan("check"), { ends: ["check"] })
  .addNode("check", work)
  .addNode("confirm", () => ({ confirmed: interrupt("Is it right?") }))
  .addEdge(START, "fan")
  .addEdge("work", "review")
  .addEdge("review", "more")
  .addEdge("check", "confirm");

const saver = SteleSaver.fromUrl(address);
const compiled = graph.compile({ checkpointer: saver });
for (const call of JSON.parse(calls)) {
  const input = "resume" in call ? new Command({ resume: call.resume }) : call.input;
  const { [INTERRUPT]: questions = [], ...state } = await compiled.invoke(input, { configurable: { thread_id: thread } });
  console.log(JSON.stringify({ state, questions: questions.map(({ value }) => value) }));
}
await saver.close();
