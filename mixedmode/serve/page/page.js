// The page: reads the job, listens to its events, and draws. See docs/serve.md.

import { Chart } from "./charts.js";
import { byId, html } from "./dom.js";
import * as format from "./format.js";
import { showGraph } from "./graph.js";
import { showCheckpoints, showMarks, showProgress, showSteps, showTiles } from "./parts.js";
import { Refused, control, keepControlToken, keepToken, listen, read } from "./server.js";
import { Timeline } from "./timeline.js";

const EPOCHS = 300, RETRY_MS = 2000, JOB_MS = 1000, CHECKPOINTS_MS = 5000;
const state = { id: null, job: null, epochs: [], timeline: { spans: [], marks: [] }, checkpoints: [], ahead: 0, told: [] };

const stages = (isDriver) => (epochs) => {
  const names = [...new Set(epochs.flatMap((epoch) => Object.keys(epoch.stage_seconds ?? {})))].filter((name) => name.startsWith("driver: ") === isDriver);
  return names.map((name) => ({ name: name.replace("driver: ", ""), values: epochs.map((epoch) => epoch.stage_seconds?.[name] ?? null) }));
};
const one = (name, field) => (epochs) => [{ name, values: epochs.map((epoch) => epoch[field]) }];

const CHARTS = [
  { title: "Throughput", text: "records per second of each epoch", byKind: true, format: format.short, series: one("records/s", "records_per_second") },
  { title: "Lag of event time", text: "how far the watermark was behind the clock at the commit", isLine: true, format: format.seconds, unit: format.secondUnit, series: one("lag", "event_time_lag_seconds") },
  { title: "Lag of processing", text: "how long the oldest record of a live epoch waited for its result, beyond the interval", isLine: true, format: format.seconds, unit: format.secondUnit, series: one("lag", "processing_lag_seconds") },
  { title: "Epoch time by stage", text: "elapsed seconds of the driver's stages", format: format.seconds, unit: format.secondUnit, series: stages(true) },
  { title: "Work of the tasks by stage", text: "seconds of work, added up over all tasks", format: format.seconds, unit: format.secondUnit, series: stages(false) },
  { title: "Records", text: "records of each epoch", byKind: true, format: format.short, series: one("records", "records") },
  { title: "Late and dropped records", text: "too late for every window, ahead of the clock, skipped after an error", format: format.short,
    series: (epochs) => [["late", "records_late"], ["ahead of the clock", "records_ahead"], ["skipped", "records_skipped"]].flatMap(([name, field]) => one(name, field)(epochs)) },
  { title: "Rows read by step", text: "rows that keyed steps read in each epoch", format: format.short,
    series: (epochs) => [...new Set(epochs.flatMap((epoch) => Object.keys(epoch.rows_read ?? {})))].map((name) => ({ name, values: epochs.map((epoch) => epoch.rows_read?.[name] ?? null) })) },
  { title: "State by step", text: "bytes of the committed state", format: format.bytes, unit: format.byteUnit,
    series: (epochs) => [...new Set(epochs.flatMap((epoch) => Object.keys(epoch.steps ?? {})))].map((name) => ({ name, values: epochs.map((epoch) => epoch.steps?.[name]?.bytes ?? null) })) },
  { title: "Rows to outputs", text: "rows that each epoch wrote", byKind: true, format: format.short, series: one("rows", "rows_out") },
].map((given) => new Chart(given));

byId("charts").append(...CHARTS.map((chart) => chart.element));
const timeline = new Timeline(byId("timeline"));
const now = () => Date.now() + state.ahead;

function draw() {
  const { job, epochs } = state;
  if (!job) return;
  document.title = `${job.name} · mixedmode`;
  byId("name").textContent = job.name;
  const phase = job.epoch_under_way?.kind === "backlog" ? "backlog" : job.phase;
  for (const [id, text] of [["mode", job.mode && `${job.mode} mode`], ["phase", phase === "unknown" ? null : phase]]) {
    byId(id).hidden = !text;
    byId(id).textContent = text ?? "";
  }
  byId("phase").className = `badge ${phase.replace(" ", "-")}`;
  byId("control").hidden = !job.operations?.length;
  document.querySelector("[data-operation=pause]").hidden = phase === "paused";
  document.querySelector("[data-operation=resume]").hidden = phase !== "paused";
  showProgress(job, now());
  showTiles(job, epochs, now());
  showGraph(job, epochs);
  showSteps(epochs);
  showCheckpoints(state.checkpoints);
  showMarks(state.timeline.marks);
  timeline.show(state.timeline, now());
  byId("charts").hidden = epochs.length === 0;
  for (const chart of CHARTS) chart.show(epochs);
  document.body.dataset.epoch = epochs.length ? epochs[epochs.length - 1].epoch : "";
  document.body.dataset.phase = phase;
}

let isDue = false;
function drawSoon() {
  if (isDue) return;
  isDue = true;
  requestAnimationFrame(() => { isDue = false; draw(); });
}

// Takes what is read of the job, unless it is older than what was taken, or of another job: answers may overtake each other.
function newest(ask, take) {
  let asked = 0, taken = 0;
  return async () => {
    const own = ++asked, id = state.id, answer = await ask(id);
    if (own < taken || id !== state.id) return;
    taken = own;
    take(answer);
    drawSoon();
  };
}
const readJob = newest((id) => Promise.all([read("job", id), read("timeline", id)]), ([job, timeline]) => {
  state.ahead = job.now_ms - Date.now();
  Object.assign(state, { job, timeline });
});
const readCheckpoints = newest((id) => read("checkpoints", id), ({ checkpoints }) => { state.checkpoints = checkpoints; });
// Epochs that this stream told while the answer was under way are kept.
const readEpochs = newest((id) => read(`epochs?limit=${EPOCHS}`, id), ({ epochs }) => {
  const last = epochs.length ? epochs[epochs.length - 1].epoch : -1;
  state.epochs = [...epochs, ...state.told.filter((epoch) => epoch.epoch > last)].slice(-EPOCHS);
});

async function readAll() {
  await readEpochs();
  await Promise.all([readJob(), readCheckpoints()]);
}

// Calls `work` at most once in `ms`, once more after the last request, and again if it failed and may succeed later.
function atMost(ms, work) {
  let timer = null, last = 0;
  const soon = () => {
    timer ??= setTimeout(() => { timer = null; last = Date.now(); work().catch(again); }, Math.max(0, last + ms - Date.now()));
  };
  const again = (error) => { if (!(error instanceof Refused && error.status === 401)) soon(); };
  return soon;
}
const readJobSoon = atMost(JOB_MS, readJob), readCheckpointsSoon = atMost(CHECKPOINTS_MS, readCheckpoints), readAllSoon = atMost(RETRY_MS, readAll);

function take(name, data) {
  if (state.job && name === "progress") state.job.epoch_under_way = { ...state.job.epoch_under_way, ...data };
  if (state.job && name === "epoch-started") state.job.epoch_under_way = { ...data, began_ms: data.at_ms };
  if (state.job && (name === "epoch" || name === "epoch-failed")) state.job.epoch_under_way = null;
  drawSoon();
  if (name === "progress") return;
  if (name === "epoch") {
    state.told = [...state.told, data].slice(-EPOCHS);
    state.epochs = [...state.epochs.filter((epoch) => epoch.epoch < data.epoch), data].slice(-EPOCHS);
    readCheckpointsSoon();
  }
  readJobSoon();
}

function say(text, kind = "") {
  byId("connection").textContent = text;
  byId("connection").className = kind;
}

async function readJobs() {
  const { jobs } = await read("jobs");
  state.id = jobs.includes(state.id) ? state.id : jobs[0];
  byId("jobs").hidden = jobs.length < 2;
  byId("jobs").replaceChildren(...jobs.map((id) => html("option", id === state.id ? { selected: "" } : {}, id)));
}

let round = new AbortController(); // a new round ends the one before it, and its stream
async function follow() {
  round.abort();
  const own = round = new AbortController();
  while (!own.signal.aborted) {
    try {
      await readJobs();
      const id = state.id;
      await listen(id, own.signal, () => { say("connected", "good"); byId("access").hidden = true; state.told = []; readAll().catch(readAllSoon); }, (name, data) => { if (!own.signal.aborted) take(name, data); });
      say("the stream ended; connecting again", "bad");
    } catch (error) {
      if (own.signal.aborted) return;
      if (error instanceof Refused && error.status === 401) {
        say("a token is needed", "bad");
        byId("access").hidden = false;
        return;
      }
      say(error instanceof Refused ? error.message : "the server cannot be reached: the run may have ended", "bad");
    }
    await new Promise((done) => setTimeout(done, RETRY_MS));
  }
}

byId("jobs").addEventListener("change", (event) => {
  Object.assign(state, { id: event.target.value, job: null, epochs: [], checkpoints: [] });
  follow();
});
byId("access").addEventListener("submit", (event) => {
  event.preventDefault();
  keepToken(byId("token").value.trim());
  follow();
});
byId("control-token").addEventListener("input", (event) => keepControlToken(event.target.value.trim()));
byId("control-token").addEventListener("submit", (event) => event.preventDefault());

const SURE = { stop: "Stop the job after its current epoch?", drain: "Drain the job? Its input ends for good: it cannot be started again." };
byId("control").addEventListener("submit", async (event) => {
  const form = event.target, operation = form.dataset.operation;
  if (!operation) return;
  event.preventDefault();
  if (SURE[operation] && !window.confirm(SURE[operation])) return;
  const given = Object.fromEntries(new FormData(form));
  const body = operation === "rescale" ? { subtasks: Number(given.subtasks) } : given.name ? { name: given.name } : {};
  const answer = byId("control-answer");
  answer.textContent = `${operation}: waiting`;
  try {
    const done = await control(operation, body);
    answer.textContent = done.text ?? `savepoint of epoch ${done.epoch}: ${done.place}, ${format.bytes(done.bytes)}`;
    readJobSoon();
  } catch (error) {
    answer.textContent = error.message;
    if (error instanceof Refused && (error.status === 401 || error.status === 403)) byId("control-token").hidden = false;
  }
});

setInterval(drawSoon, 1000);
follow();
