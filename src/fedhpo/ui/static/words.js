// Numbers as people read them.

const known = (value) => typeof value === "number" && isFinite(value);

export const score = (value) => (known(value) ? value.toFixed(4) : "–");
export const whole = (value) => (known(value) ? Math.round(value).toLocaleString("en") : "–");
export const signed = (value) => (known(value) ? (value < 0 ? "−" : "+") + Math.abs(value).toFixed(4) : "–");

export function bytes(value) {
  if (!known(value)) return "–";
  if (value >= 1e9) return `${(value / 1e9).toFixed(1)} GB`;
  return value < 1e7 ? `${(value / 1e6).toFixed(1)} MB` : `${(value / 1e6).toFixed(0)} MB`;
}

export function duration(seconds) {
  if (!known(seconds)) return "–";
  if (seconds < 60) return `${Math.max(1, Math.round(seconds))} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.round(hours / 24)} days`;
}

export const age = (created) => (known(created) ? `${duration(Date.now() / 1000 - created)} ago` : "–");
