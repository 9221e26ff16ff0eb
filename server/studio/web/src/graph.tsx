// The drawing of a graph: dagre places the boxes, this draws them.

import dagre from "@dagrejs/dagre";
import { useMemo } from "preact/hooks";
import { nodeName } from "./names";
import { list, visible, word } from "./text";
import { nextOf, type Row, tasksOf } from "./tree";
import type { Drawing, Json, State } from "./types";

export type Mark = "ran" | "next" | "waiting" | "failed";

interface Box {
  id: string;
  label: string;
  x: number;
  y: number;
  width: number;
  height: number;
}

interface Line {
  from: string;
  to: string;
  path: string;
  conditional: boolean;
  taken: boolean;
  label?: Json;
}

export function layout(drawing: Drawing): { boxes: Box[]; lines: Line[]; width: number; height: number } {
  const graph = new dagre.graphlib.Graph({ multigraph: true });
  graph.setGraph({ rankdir: "TB", nodesep: 24, ranksep: 34, marginx: 8, marginy: 8 });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const node of list(drawing.nodes)) {
    const label = labelOf(word(node.id));
    graph.setNode(word(node.id), { label, width: Math.min(220, 24 + 7.4 * label.length), height: 30 });
  }
  list(drawing.edges).forEach((edge, i) => {
    if (!graph.hasNode(word(edge.source)) || !graph.hasNode(word(edge.target))) return;
    // Beside a node its loop has room.
    const loop = edge.source === edge.target ? { width: 2 * loopWidth } : {};
    graph.setEdge(word(edge.source), word(edge.target), { ...loop, conditional: !!edge.conditional, taken: !!edge.taken, text: edge.data }, String(i));
  });
  dagre.layout(graph);
  const boxes = graph.nodes().map((id) => {
    const n = graph.node(id) as { label: string; x: number; y: number; width: number; height: number };
    return { id, label: n.label, x: n.x, y: n.y, width: n.width, height: n.height };
  });
  const lines = graph.edges().map((e) => {
    const edge = graph.edge(e) as { points: { x: number; y: number }[]; conditional: boolean; taken: boolean; text?: Json };
    const path = e.v === e.w ? loop(graph.node(e.v) as { x: number; y: number; width: number }) : curve(edge.points);
    return { from: e.v, to: e.w, path, conditional: edge.conditional, taken: edge.taken, label: edge.text };
  });
  const size = graph.graph() as { width?: number; height?: number };
  return { boxes, lines, width: size.width ?? 0, height: size.height ?? 0 };
}

function labelOf(id: string): string {
  const text = nodeName(id);
  return text.length > 26 ? text.slice(0, 25) + "…" : text;
}

const loopWidth = 26;

// loop leads from a node to itself, at its right side.
function loop({ x, y, width }: { x: number; y: number; width: number }): string {
  const side = x + width / 2;
  return `M${r(side)},${r(y - 8)}C${r(side + loopWidth)},${r(y - 20)} ${r(side + loopWidth)},${r(y + 20)} ${r(side)},${r(y + 8)}`;
}

// withTaken adds the edges that a thread has taken and the drawing lacks: those of Commands whose
// destinations a program does not declare.
export function withTaken(drawing: Drawing, rows: Row[]): Drawing {
  const nodes = new Set(list(drawing.nodes).map((n) => word(n.id)));
  const key = (a: string, b: string) => JSON.stringify([a, b]);
  const declared = new Set(list(drawing.edges).map((e) => key(word(e.source), word(e.target))));
  const leading = new Set(list(drawing.edges).map((e) => word(e.source)));
  const always = new Set(list(drawing.edges).flatMap((e) => (e.conditional ? [] : word(e.source))));
  const states = new Map(rows.map((r) => [r.id, r.state]));
  const known = new Set(declared);
  const taken: Drawing["edges"] = [];
  const add = (source: string, target: string) => {
    if (!nodes.has(source) || !nodes.has(target) || known.has(key(source, target))) return;
    known.add(key(source, target));
    taken.push({ source, target, conditional: true, taken: true, data: "taken by this thread" });
  };
  for (const { state, parent } of rows) {
    const tasks = tasksOf((parent !== undefined && states.get(parent)) || ({} as State));
    if (state.metadata?.source !== "loop" || !Array.isArray(state.next)) continue;
    const ran = [...new Set(tasks.map((t) => word(t.name)))];
    for (const t of tasks) if (Array.isArray(t.stele_leads)) for (const to of t.stele_leads) add(word(t.name), word(to));
    // Other servers do not tell which of several nodes led to another: it is certain where only one can have.
    const loose = ran.length > 1 ? ran.filter((n) => !leading.has(n)) : ran;
    const told = tasks.every((t) => Array.isArray(t.stele_leads));
    if (!told && loose.length === 1) for (const to of nextOf(state)) if (!ran.some((n) => declared.has(key(n, to)))) add(loose[0]!, to);
    // Where nothing comes next, each node that ran led to the end, unless an edge leads it elsewhere in any case.
    if (state.next.length === 0) for (const n of ran) if (!always.has(n)) add(n, "__end__");
  }
  return taken.length ? { nodes: drawing.nodes, edges: [...list(drawing.edges), ...taken] } : drawing;
}

// curve is a smooth line through dagre's points.
function curve(points: { x: number; y: number }[]): string {
  const [from, ...rest] = points;
  if (!from) return "";
  let d = `M${r(from.x)},${r(from.y)}`;
  rest.forEach((p, i) => {
    const next = rest[i + 1];
    if (next) d += `Q${r(p.x)},${r(p.y)} ${r((p.x + next.x) / 2)},${r((p.y + next.y) / 2)}`;
    else d += `L${r(p.x)},${r(p.y)}`;
  });
  return d;
}

const r = (n: number) => Math.round(n * 10) / 10;

const words: Record<Mark, string> = { ran: "ran", next: "runs next", waiting: "waits", failed: "failed" };

export function Graph({ drawing, marks }: { drawing: Drawing; marks: Map<string, Mark> }) {
  const { boxes, lines, width, height } = useMemo(() => layout(drawing), [drawing]);
  return (
    <svg class="graph" viewBox={`0 0 ${width} ${height}`} style={{ maxWidth: `${width}px` }} role="img" aria-label={describe(boxes, marks)}>
      <defs>
        <marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto-start-reverse">
          <path d="M0,0L8,4L0,8z" class="arrow" />
        </marker>
      </defs>
      {lines.map((l, i) => (
        <path key={i} d={l.path} data-from={l.from} data-to={l.to} class={"edge" + (l.conditional ? " conditional" : "") + (l.taken ? " taken" : "")} marker-end="url(#arrow)">
          {l.label && <title>{visible(l.label)}</title>}
        </path>
      ))}
      {boxes.map((b) => {
        const mark = marks.get(b.id) ?? marks.get(b.id.split(":")[0]!);
        return (
          <g key={b.id} class={"node " + (mark ?? "")} transform={`translate(${r(b.x - b.width / 2)},${r(b.y - b.height / 2)})`}>
            <rect width={b.width} height={b.height} rx={b.id.startsWith("__") ? 15 : 5} />
            <text x={b.width / 2} y={b.height / 2} dominant-baseline="central" text-anchor="middle">
              {b.label}
            </text>
            <title>{visible(b.id) + (mark ? ": " + words[mark] : "")}</title>
          </g>
        );
      })}
    </svg>
  );
}

function describe(boxes: Box[], marks: Map<string, Mark>): string {
  const said = boxes.flatMap((b) => (marks.has(b.id) ? [`${b.label} ${words[marks.get(b.id)!]}`] : []));
  return `Graph of ${boxes.length} nodes${said.length ? ": " + said.join(", ") : ""}`;
}
