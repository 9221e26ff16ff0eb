/** LangGraph checkpoints and long-term memory in a stele store. */
import { warnWithoutBinary } from "./binary.js";

export { SteleSaver } from "./saver.js";
export type { Removal, SaverOptions, ThreadInfo, ThreadQuery } from "./saver.js";
export { SteleStore } from "./store.js";
export { SteleSerializer } from "./serializer.js";
export type { ClientOptions, LocalOptions, RemoteOptions } from "./client.js";
export type { DirectoryOptions } from "./directory.js";
export * from "./errors.js";

warnWithoutBinary();
