// The graph of the job: boxes in columns from the sources to the outputs, and an arrow for each input of a box.

import { byId, svg } from "./dom.js";
import { short } from "./format.js";

const WIDTH = 188, HEIGHT = 44, GAP_X = 84, GAP_Y = 16, LETTERS = 25;

const cut = (text) => (text.length > LETTERS ? `${text.slice(0, LETTERS - 1)}…` : text);

// The column of each node: one after the last of its inputs.
function columnsOf({ nodes, edges }) {
  const columns = new Map(nodes.map((node) => [node.id, 0]));
  for (let round = 0; round < nodes.length; round += 1) {
    let isStill = true;
    for (const [from, to] of edges) if (columns.get(to) <= columns.get(from)) { columns.set(to, columns.get(from) + 1); isStill = false; }
    if (isStill) break;
  }
  const last = Math.max(0, ...columns.values());
  for (const node of nodes) if (node.kind === "output") columns.set(node.id, last);
  return columns;
}

// The text below the name of each node, from its rate in the newest epoch.
function notesOf(nodes, epochs) {
  const newest = epochs[epochs.length - 1], before = epochs[epochs.length - 2];
  if (!newest) return new Map(nodes.map((node) => [node.id, node.kind]));
  const rate = (count, unit) => (newest.seconds ? `${short(count / newest.seconds)} ${unit}/s` : `${short(count)} ${unit}`);
  const read = (name) => {
    const is = newest.sources?.[name]?.records, was = before?.epoch === newest.epoch - 1 ? before.sources?.[name]?.records : newest.epoch === 0 ? 0 : null;
    return is == null ? "source" : was == null ? `${short(is)} records` : rate(Math.max(0, is - was), "records");
  };
  const notes = { source: read, output: (name) => rate(name === "" ? newest.rows_out : newest.outputs?.[name] ?? 0, "rows"),
    step: (name) => { const read = newest.rows_read?.[name], step = newest.steps?.[name];
      return [read == null ? "" : rate(read, "rows"), step == null ? "" : `${step.subtasks} subtasks`].filter(Boolean).join(", ") || "step"; },
    dimension: () => "dimension" };
  return new Map(nodes.map((node) => [node.id, notes[node.kind](node.name)]));
}

// The boxes of each column, from top to bottom. An arrow over several columns has a place of its own in those between.
function rowsOf(graph, columns) {
  const groups = [], routes = new Map();
  const put = (id, column) => (groups[column] ??= []).push(id);
  for (const node of graph.nodes) put(node.id, columns.get(node.id));
  for (const [from, to] of graph.edges) {
    const between = [];
    for (let column = columns.get(from) + 1; column < columns.get(to); column += 1) {
      between.push(`${from} ${to} ${column}`);
      put(between[between.length - 1], column);
    }
    routes.set(`${from} ${to}`, between);
  }
  const inputs = new Map();
  for (const [from, to] of graph.edges) {
    const path = [from, ...routes.get(`${from} ${to}`), to];
    path.slice(1).forEach((id, index) => inputs.set(id, [...(inputs.get(id) ?? []), path[index]]));
  }
  const rows = new Map();
  for (const group of groups) { // in the order of the mean row of their inputs, so that few arrows cross
    const mean = (id) => { const found = (inputs.get(id) ?? []).map((one) => rows.get(one)); return found.length ? found.reduce((sum, row) => sum + row, 0) / found.length : 0; };
    const weights = new Map((group ?? []).map((id) => [id, mean(id)]));
    group?.sort((one, other) => weights.get(one) - weights.get(other)).forEach((id, row) => rows.set(id, row - (group.length - 1) / 2));
  }
  return { groups, routes, rows };
}

export function showGraph(job, epochs) {
  const graph = job.graph, columns = columnsOf(graph), notes = notesOf(graph.nodes, epochs);
  const { groups, routes, rows } = rowsOf(graph, columns);
  const height = Math.max(1, ...groups.map((group) => group?.length ?? 0)) * (HEIGHT + GAP_Y) + GAP_Y;
  const width = groups.length * (WIDTH + GAP_X) - GAP_X + 2;
  const places = new Map();
  groups.forEach((group, column) => group?.forEach((id) =>
    places.set(id, [1 + column * (WIDTH + GAP_X), height / 2 + rows.get(id) * (HEIGHT + GAP_Y) - HEIGHT / 2])));
  const arrows = graph.edges.map(([from, to]) => {
    const path = [from, ...routes.get(`${from} ${to}`), to].map((id) => places.get(id));
    const line = path.slice(1).map(([right, bottom], index) => {
      const [left, top] = path[index], isLast = index === path.length - 2;
      const x1 = left + WIDTH, y1 = top + HEIGHT / 2, x2 = isLast ? right - 7 : right, y2 = bottom + HEIGHT / 2, middle = (x1 + x2) / 2;
      return `${index ? "L" : "M"}${x1},${y1} C${middle},${y1} ${middle},${y2} ${x2},${y2}`;
    });
    return svg("path", { class: "edge", d: line.join(" "), "marker-end": "url(#arrow)", "data-from": from, "data-to": to });
  });
  const boxes = graph.nodes.map((node) => {
    const [x, y] = places.get(node.id), name = node.name || "output";
    return svg("g", { class: `node ${node.kind}` }, svg("title", {}, `${name}: ${notes.get(node.id)}`),
      svg("rect", { x, y, width: WIDTH, height: HEIGHT, rx: 6 }), svg("rect", { class: "side", x, y, width: 4, height: HEIGHT }),
      svg("text", { class: "node-name", x: x + 13, y: y + 18 }, cut(name)), svg("text", { class: "axis", x: x + 13, y: y + 35 }, cut(notes.get(node.id))));
  });
  const marker = svg("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 1, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" }, svg("path", { class: "arrow-head", d: "M0,0 L8,4 L0,8 z" }));
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": "graph of the job" }, svg("defs", {}, marker), ...arrows, ...boxes);
  picture.style.minWidth = `${width}px`; // a graph that is wider than its box scrolls, because smaller text cannot be read
  const scrolled = byId("flow").scrollLeft;
  byId("flow").replaceChildren(picture);
  byId("flow").scrollLeft = scrolled;
}
