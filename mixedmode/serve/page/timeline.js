// The timeline: a strip of phases over time, with marks above it.

import { html, svg, tip } from "./dom.js";
import { dateTime, seconds } from "./format.js";

const HEIGHT = 74, STRIP = 22, STRIP_TOP = 26;

export class Timeline {
  constructor(element) {
    this.element = element;
    this.timeline = { spans: [], marks: [] };
    new ResizeObserver(() => this.draw()).observe(element);
  }

  show(timeline, now) {
    Object.assign(this, { timeline, now });
    this.draw();
  }

  draw() {
    const width = this.element.clientWidth, { spans, marks } = this.timeline;
    if (width < 100) return;
    if (!spans.length) {
      this.element.replaceChildren(html("p", { class: "empty" }, "nothing yet"));
      return;
    }
    const last = spans[spans.length - 1];
    const end = last.kind === "ended" || last.kind === "stopped" ? Math.max(last.from_ms, ...marks.map((mark) => mark.at_ms)) : this.now;
    const from = spans[0].from_ms, length = Math.max(1, (end - from) * (last.kind === "ended" || last.kind === "stopped" ? 1.04 : 1));
    const x = (ms) => 6 + (width - 12) * Math.min(1, Math.max(0, (ms - from) / length));
    const kinds = [...new Set(spans.map((span) => span.kind))];
    const drawn = spans.map((span) => {
      const to = span.to_ms ?? from + length, left = x(span.from_ms), right = x(to);
      const name = right - left > 9 * span.kind.length ? svg("text", { class: "span-name", x: (left + right) / 2, y: STRIP_TOP + 15, "text-anchor": "middle" }, span.kind) : null;
      return svg("g", {}, svg("rect", { class: span.kind.replace(" ", "-"), x: left, y: STRIP_TOP, width: Math.max(1, right - left - 1), height: STRIP, rx: 2 }), name);
    });
    const points = marks.filter((mark) => mark.at_ms >= from).map((mark) => svg("g", { class: `mark ${mark.kind.replace(" ", "-")}` },
      svg("line", { x1: x(mark.at_ms), x2: x(mark.at_ms), y1: 14, y2: STRIP_TOP + STRIP }), svg("circle", { cx: x(mark.at_ms), cy: 10, r: 4.5 })));
    const labels = [[from, "start"], [(from + end) / 2, "middle"], [end, "end"]].filter((_, index) => index !== 1 || width > 500).map(([ms, anchor]) =>
      svg("text", { class: "axis", x: x(ms), y: HEIGHT - 8, "text-anchor": anchor }, dateTime(ms)));
    const drawing = svg("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, height: HEIGHT, role: "img", "aria-label": kinds.join(", then ") }, ...drawn, ...points, ...labels);
    tip(drawing, (event) => this.at(event.clientX - drawing.getBoundingClientRect().left, x));
    this.element.replaceChildren(drawing, html("ul", { class: "legend" }, ...kinds.map((kind) =>
      html("li", {}, svg("svg", { class: "key", viewBox: "0 0 10 10" }, svg("rect", { class: kind.replace(" ", "-"), width: 10, height: 10, rx: 2 })), kind))));
  }

  // The texts for a place of the pointer: the nearest mark, else the span.
  at(place, x) {
    const near = this.timeline.marks.filter((mark) => Math.abs(x(mark.at_ms) - place) < 7);
    if (near.length) return near.slice(-6).map((mark) => `${dateTime(mark.at_ms)}: ${mark.text}`);
    const span = [...this.timeline.spans].reverse().find((one) => x(one.from_ms) <= place);
    if (!span) return null;
    return [span.kind, `from ${dateTime(span.from_ms)}`, `for ${seconds(((span.to_ms ?? this.now) - span.from_ms) / 1000)}`];
  }
}
