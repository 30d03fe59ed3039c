// Numbers, durations and times for a person. Pure.

const COUNT = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const SHORT = new Intl.NumberFormat("en-US", { notation: "compact", maximumSignificantDigits: 3 });

export const count = (value) => (value == null ? "–" : COUNT.format(value));
export const short = (value) => (value == null ? "–" : Math.abs(value) < 10000 ? COUNT.format(value) : SHORT.format(value));

export function bytes(value) {
  if (value == null) return "–";
  let size = value;
  for (const unit of ["B", "KiB", "MiB", "GiB", "TiB"]) {
    if (Math.abs(size) < 1024 || unit === "TiB") return `${size.toFixed(unit === "B" || Math.abs(size) >= 100 ? 0 : 1)} ${unit}`;
    size /= 1024;
  }
}

export function seconds(value) {
  if (value == null) return "–";
  const size = Math.abs(value);
  if (size >= 172800) return `${(value / 86400).toFixed(1)} d`;
  if (size >= 7200) return `${(value / 3600).toFixed(1)} h`;
  if (size >= 120) return `${(value / 60).toFixed(1)} min`;
  if (size >= 10 || size === 0) return `${value.toFixed(0)} s`;
  return size >= 1 ? `${value.toFixed(1)} s` : `${(value * 1000).toFixed(0)} ms`;
}

// The unit in which a value is shown, so that an axis has round numbers in it.
export const byteUnit = (value) => 1024 ** Math.min(4, Math.max(0, Math.floor(Math.log2(Math.max(1, Math.abs(value))) / 10)));
export const secondUnit = (value) => [86400, 3600, 60].find((unit) => Math.abs(value) >= 2 * unit) ?? 1;

export const ago = (ms) => (ms < 1000 ? "now" : `${seconds(ms / 1000)} ago`);

// A time with its date and zone. Event times may be beyond the dates of JavaScript, which end about the year 275760.
export function dateTime(ms) {
  if (ms == null) return "–";
  const date = new Date(ms);
  return Number.isNaN(date.getTime()) ? `${COUNT.format(ms)} ms since 1970` : `${date.toISOString().slice(0, -5).replace("T", " ")} UTC`;
}
