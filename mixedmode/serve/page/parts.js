// The parts of the page that are text: progress, figures, steps, checkpoints, events.

import { byId, html } from "./dom.js";
import { ago, bytes, count, dateTime, seconds, short } from "./format.js";

const PHASES = ["planning", "reading", "sorting", "processing", "storing", "done"];
const LONG_MS = 5000; // a live epoch is shown once it takes longer, so that the page does not jump at each epoch
const NAMES = { done: "committing" };

const fact = (name, value, title) => html("div", title ? { title } : {}, html("dt", {}, name), html("dd", {}, value));

export function showProgress(job, now) {
  const under = job.epoch_under_way;
  const spent = under == null ? 0 : Math.max(0, now - (under.began_ms ?? under.at_ms));
  const isShown = under != null && (under.kind === "backlog" || spent > LONG_MS);
  byId("progress").hidden = !isShown;
  if (!isShown) return;
  const share = under.share ?? 0, phase = under.phase ?? "planning";
  byId("progress-title").textContent = `Epoch ${under.epoch}, ${under.kind}`;
  byId("progress-bar").style.width = `${(100 * share).toFixed(1)}%`;
  byId("progress-bar").className = under.kind;
  byId("progress-phases").replaceChildren(...PHASES.map((name) =>
    html("li", { class: name === phase ? "now" : PHASES.indexOf(name) < PHASES.indexOf(phase) ? "past" : "" }, NAMES[name] ?? name)));
  const ofTotal = (done, total, show) => (total ? `${show(done)} of ${show(total)}` : show(done));
  const facts = [["step", under.step || "–"], ["done", `${(100 * share).toFixed(0)} %`],
    ["left", under.seconds_left == null ? "not known yet" : `about ${seconds(Math.max(1, under.seconds_left))}`],
    ["read", ofTotal(under.bytes_read ?? 0, under.bytes_total, bytes)],
    ["records", ofTotal(under.records ?? 0, under.records_total, short)],
    ["records/s", under.records && under.seconds ? short(under.records / under.seconds) : "–"],
    ["tasks done", under.tasks_total ? `${under.tasks_done} of ${under.tasks_total}` : "–"],
    ["keys done", `${(100 * (under.keys_share ?? 0)).toFixed(0)} %`], ["spilled", bytes(under.bytes_spilled ?? 0)],
    ["for", seconds(spent / 1000)]];
  byId("progress-facts").replaceChildren(...facts.map(([name, value]) => fact(name, value)));
}

export function showTiles(job, epochs, now) {
  const newest = epochs[epochs.length - 1] ?? job.newest_epoch;
  const timed = epochs.filter((epoch) => epoch.seconds).slice(-30);
  const spent = timed.reduce((sum, epoch) => sum + epoch.seconds, 0);
  const sum = (field) => epochs.reduce((total, epoch) => total + (epoch[field] ?? 0), 0);
  const tiles = [
    ["epoch", newest ? count(newest.epoch) : "–", "the newest commit"], ["committed", newest ? ago(now - newest.committed_ms) : "–", newest ? `at ${dateTime(newest.committed_ms)}` : ""],
    ["records/s", newest?.records_per_second == null ? "–" : short(newest.records_per_second), "of the newest epoch"],
    ["epoch time", timed.length ? seconds(spent / timed.length) : "–", `mean of ${timed.length} epochs`],
    ["lag of processing", seconds(newest?.processing_lag_seconds), "of the oldest record, beyond the interval"],
    ["lag of event time", seconds(newest?.event_time_lag_seconds), newest?.watermark_ms == null ? "no watermark" : `watermark ${dateTime(newest.watermark_ms)}`],
    ["state", newest ? bytes(newest.state_bytes) : "–", "committed"],
    ["late", count(sum("records_late")), "in the epochs shown"], ["skipped", count(sum("records_skipped")), "in the epochs shown"],
    ...(job.failures_in_a_row == null ? [] : [["failures", count(job.failures_in_a_row), "of the epoch, in a row"]])];
  byId("tiles").replaceChildren(...tiles.map(([name, value, note]) =>
    html("div", { class: "card" }, html("dt", {}, name), html("dd", {}, value), html("dd", { class: "quiet" }, note))));
}

function table(id, headings, rows, ifEmpty) {
  if (rows.length === 0) {
    byId(id).replaceChildren(html("tbody", {}, html("tr", {}, html("td", { class: "quiet" }, ifEmpty))));
    return;
  }
  const head = html("thead", {}, html("tr", {}, ...headings.map(([name, isNumber]) => html("th", isNumber ? { class: "number" } : {}, name))));
  const cells = (row) => row.map((value, index) => html("td", headings[index][1] ? { class: "number" } : {}, value));
  byId(id).replaceChildren(head, html("tbody", {}, ...rows.map((row) => html("tr", {}, ...cells(row)))));
}

export function showSteps(epochs) {
  const newest = epochs[epochs.length - 1], before = epochs[epochs.length - 2];
  const change = (name, field) => {
    const was = before?.steps?.[name]?.[field], is = newest.steps[name][field];
    return was == null ? "–" : `${is < was ? "−" : "+"}${short(Math.abs(is - was))}`;
  };
  const joins = newest?.joins ?? {}, hasJoins = Object.keys(joins).length > 0;
  const ofJoin = (one) => (one == null ? ["", ""] : [`${count(one.rows_late_left)} / ${count(one.rows_late_right)}`, `${count(one.fan_out_max)} / ${count(one.fan_out_p99)}`]);
  const names = [...new Set([...Object.keys(newest?.rows_read ?? {}), ...Object.keys(newest?.steps ?? {})])];
  const rows = names.map((name) => {
    const step = newest.steps?.[name];
    const state = step == null ? ["", "", "", "", ""] : [count(step.subtasks), count(step.entries), change(name, "entries"), bytes(step.bytes), count(step.runs)];
    return [name, count(newest.rows_read?.[name]), ...state, ...(hasJoins ? ofJoin(joins[name]) : [])];
  });
  const columns = [["step", false], ["rows read", true], ["subtasks", true], ["entries", true], ["last epoch", true], ["state", true], ["files", true]];
  table("steps", [...columns, ...(hasJoins ? [["late left / right", true], ["fan-out max / p99", true]] : [])], rows, "figures come with the first commit");
}

export function showCheckpoints(checkpoints) {
  const rows = [...checkpoints].reverse().slice(0, 10).map((one) => ("error" in one
    ? [count(one.epoch), "damaged", one.error, "", "", "", ""]
    : [count(one.epoch), one.kind, dateTime(one.committed_ms), count(one.records), count(one.rows_out), bytes(one.state_bytes), dateTime(one.watermark_ms)]));
  table("checkpoints", [["epoch", false], ["kind", false], ["committed", false], ["records", true], ["rows out", true], ["state", true], ["watermark", false]], rows, "none yet");
}

export function showMarks(marks) {
  const shown = [...marks].reverse().slice(0, 30);
  byId("marks").replaceChildren(...(shown.length ? shown : [null]).map((mark) => (mark == null
    ? html("li", { class: "quiet" }, "nothing yet")
    : html("li", {}, html("time", {}, dateTime(mark.at_ms)), html("span", { class: `badge ${mark.kind.replace(" ", "-")}` }, mark.kind), html("span", {}, mark.text)))));
}
