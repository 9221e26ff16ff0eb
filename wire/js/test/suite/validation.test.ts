/** LangGraph's own suite for savers, as it is and with a server that is killed all the time. */
import { specTest, deltaChannelHistoryTests } from "@langchain/langgraph-checkpoint-validation";
import { SteleSaver } from "langgraph-checkpoint-stele";
import { afterAll, describe } from "vitest";
import { directory, killer } from "./servers.js";

describe.each(["plain", "killed"])("%s", (how) => {
  const kill = how === "killed" ? killer(10) : undefined;
  const initializer = {
    checkpointerName: "langgraph-checkpoint-stele",
    createCheckpointer: () => {
      const dir = directory();
      const saver = SteleSaver.fromDir(dir, { idleExit: 1000 });
      return kill ? kill.wrap(saver, dir) : saver;
    },
    destroyCheckpointer: (saver: SteleSaver) => saver.close(),
  };
  specTest(initializer);
  deltaChannelHistoryTests(initializer);
  afterAll(() => kill?.check());
});
