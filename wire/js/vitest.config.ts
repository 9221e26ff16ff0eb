import { defineConfig } from "vitest/config";

// LangGraph's suite takes the test functions from the global scope. What starts servers
// takes its time on a busy machine.
export default defineConfig({ test: { globals: true, include: ["test/**/*.test.ts"], testTimeout: 120_000, hookTimeout: 120_000 } });
