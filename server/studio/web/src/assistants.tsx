// The assistants of the server: which one a thread is of, and a field to choose one.

import { graphs } from "./session";
import { visible } from "./text";
import type { Assistant, Fields } from "./types";

// assistantOf finds the assistant whose graph the thread was run by, or made a checkpoint.
export function assistantOf(all: Assistant[] | undefined, of: { metadata: Fields } | undefined): Assistant | undefined {
  if (!all || !of) return undefined;
  const { assistant_id, graph_id } = of.metadata ?? {};
  return all.find((a) => a.assistant_id === assistant_id) ?? all.find((a) => a.graph_id === graph_id) ?? (all.length === 1 ? all[0] : undefined);
}

export function AssistantField({ chosen, choose }: { chosen: string | undefined; choose?: (id: string) => void }) {
  // There is nothing to choose of one.
  if (graphs.value?.length === 1) return <input type="hidden" name="assistant" value={graphs.value[0]!.assistant_id} />;
  return (
    <label class="field">
      Assistant
      <select name="assistant" onChange={(e) => choose?.(e.currentTarget.value)}>
        {chosen === undefined && <option value="">choose…</option>}
        {(graphs.value ?? []).map((a) => (
          <option key={a.assistant_id} value={a.assistant_id} selected={a.assistant_id === chosen}>
            {visible(a.name || a.graph_id)}
          </option>
        ))}
      </select>
    </label>
  );
}
