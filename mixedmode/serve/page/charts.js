// Charts by epoch: one column for each of the newest epochs, stacked by series. Drawn again at each change and width.

import { html, svg, tip } from "./dom.js";
import { dateTime } from "./format.js";

const HEIGHT = 150, LEFT = 66, BOTTOM = 20, TOP = 6, COLUMN_MIN = 5, COLUMN_MAX = 22, SERIES_MAX = 8;

// The top of an axis: the least round number of its unit that is not below `value`.
const axisTop = (value, unitOf) => roundUp(value / unitOf(value)) * unitOf(value);

// The least round number that is not below `value`, such as 1, 2, 2.5 or 5 times a power of ten.
export function roundUp(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((round) => round >= value * 0.9999);
}

// {name, values} of the largest series; the others are added up as "other".
export function largest(series) {
  const sum = (one) => one.values.reduce((total, value) => total + Math.abs(value ?? 0), 0);
  const kept = series.filter((one) => sum(one) > 0);
  if (kept.length <= SERIES_MAX) return kept;
  const ordered = [...kept].sort((one, other) => sum(other) - sum(one));
  const names = new Set(ordered.slice(0, SERIES_MAX - 1).map((one) => one.name));
  const rest = kept.filter((one) => !names.has(one.name));
  const values = rest[0].values.map((_, index) => rest.reduce((total, one) => total + (one.values[index] ?? 0), 0));
  return [...kept.filter((one) => names.has(one.name)), { name: "other", values }];
}

export class Chart {
  // text: a sentence below the title. series(epochs) -> [{name, values}], one value for each epoch, or null if unknown.
  constructor({ title, text, series, format, unit = () => 1, isLine = false, byKind = false }) {
    Object.assign(this, { format, unit, isLine, byKind, series, colours: new Map() });
    this.box = html("div", { class: "plot" });
    this.legend = html("ul", { class: "legend" });
    this.element = html("section", { class: "card", "aria-label": title }, html("h2", {}, title), html("p", { class: "quiet" }, text), this.legend, this.box);
    this.epochs = [];
    new ResizeObserver(() => this.draw()).observe(this.box);
  }

  show(epochs) {
    this.epochs = epochs;
    this.draw();
  }

  draw() {
    const width = this.box.clientWidth || this.width || 300; // a hidden box has no width, and is drawn once it is shown
    this.width = width;
    if (width < 100) return;
    const room = width - LEFT - 4;
    const epochs = this.epochs.slice(-Math.max(8, Math.floor(room / COLUMN_MIN)));
    const all = this.series(epochs), series = largest(all);
    this.element.hidden = !all.some((one) => one.values.some((value) => value != null)); // a folder has no times
    const columns = epochs.map((_, index) => series.map((one) => one.values[index] ?? 0));
    const known = epochs.map((_, index) => series.some((one) => one.values[index] != null));
    if (!known.some(Boolean)) {
      this.legend.replaceChildren();
      this.box.replaceChildren(html("p", { class: "empty" }, "none in these epochs"));
      return;
    }
    const totals = columns.map((column) => (this.isLine ? Math.max(...column) : column.reduce((sum, value) => sum + value, 0)));
    // One backlog epoch may be larger than a thousand live ones: its column is cut, and its value is written beside it.
    const live = totals.filter((_, index) => epochs[index].kind === "live"), scaled = live.some((total) => total > 0) ? live : totals;
    const top = axisTop(Math.max(...scaled), this.unit), low = this.isLine ? Math.min(0, ...columns.flat()) : 0;
    const bottom = low < 0 ? -axisTop(-low, this.unit) : 0;
    const step = Math.min(COLUMN_MAX, room / epochs.length);
    const y = (value) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - (Math.min(value, top) - bottom) / (top - bottom));
    const x = (index) => LEFT + index * step;
    const parts = [bottom, (top + bottom) / 2, top].flatMap((value) => [
      svg("line", { class: "grid", x1: LEFT, x2: width, y1: y(value), y2: y(value) }),
      svg("text", { class: "axis", x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, this.format(value)),
    ]);
    parts.push(...(this.isLine ? this.lines(series, x, y, step) : this.columns(epochs, series, columns, x, y, step)));
    parts.push(...totals.map((total, index) => (total > top ? svg("text", { class: "cut", x: x(index) + step + 3, y: TOP + 11 }, `↑ ${this.format(total)}`) : null)));
    parts.push(...this.axis(epochs, x, step, width));
    const drawing = svg("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, height: HEIGHT, role: "img", "aria-label": this.element.getAttribute("aria-label") }, ...parts);
    tip(drawing, (event) => {
      const index = Math.floor((event.clientX - drawing.getBoundingClientRect().left - LEFT) / step);
      const epoch = epochs[index];
      return epoch && known[index] ? [`epoch ${epoch.epoch} · ${epoch.kind} · ${dateTime(epoch.committed_ms)}`, ...series.map((one) => `${one.name}: ${this.format(one.values[index])}`)] : null;
    });
    this.box.replaceChildren(drawing);
    this.showLegend(epochs, series);
  }

  columns(epochs, series, columns, x, y, step) {
    const width = Math.max(1, step - (step > 4 ? 1 : 0));
    return columns.flatMap((column, index) => {
      let below = 0;
      return column.map((value, number) => {
        if (!(value > 0)) return null;
        const colour = this.byKind ? epochs[index].kind : `c${this.colour(series[number].name)}`;
        const part = svg("rect", { class: colour, x: x(index), width, y: y(below + value), height: Math.max(0.5, y(below) - y(below + value)) });
        below += value;
        return part;
      });
    });
  }

  // A number that stays the same for a name as long as the page is open.
  colour(name) {
    if (!this.colours.has(name)) this.colours.set(name, this.colours.size % SERIES_MAX);
    return this.colours.get(name);
  }

  lines(series, x, y, step) {
    return series.flatMap((one) => {
      const number = this.colour(one.name);
      const points = one.values.map((value, index) => (value == null ? null : [x(index) + step / 2, y(value)]));
      const path = points.map((point, index) => (point && `${points[index - 1] ? "L" : "M"}${point[0].toFixed(1)} ${point[1].toFixed(1)}`)).filter(Boolean).join("");
      const alone = points.filter((point, index) => point && !points[index - 1] && !points[index + 1]);
      return [svg("path", { class: `line l${number}`, d: path }), ...alone.map(([cx, cy]) => svg("circle", { class: `c${number}`, cx, cy, r: 2.5 }))];
    });
  }

  axis(epochs, x, step, width) {
    const every = Math.max(1, Math.ceil(70 / step));
    return epochs.map((epoch, index) => (index % every || x(index) > width - 40 ? null : svg("text", { class: "axis", x: x(index), y: HEIGHT - 5 }, `${index ? "" : "epoch "}${epoch.epoch}`)));
  }

  showLegend(epochs, series) {
    const kinds = [...new Set(epochs.map((epoch) => epoch.kind))];
    const entries = this.byKind ? kinds.map((kind) => [kind, kind]) : series.map((one) => [`c${this.colour(one.name)}`, one.name]);
    this.legend.replaceChildren(...(entries.length > 1 || !this.byKind ? entries : []).map(([colour, name]) =>
      html("li", {}, svg("svg", { class: "key", viewBox: "0 0 10 10" }, svg("rect", { class: colour, width: 10, height: 10, rx: 2 })), name)));
  }
}
