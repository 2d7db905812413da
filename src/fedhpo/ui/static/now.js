// The head of a run's page: what trains now, how fast, how long it will take, what is spent of which budget.

import { el } from "./dom.js";
import { command } from "./live.js";
import { duration } from "./words.js";

export function nowPanel(run, page) {
  const status = el("span", { class: "status" });
  const what = el("span", { class: "what" });
  const stop = button("stop", "stop");
  const resume = button("resume", "resume");
  const meters = el("div", { class: "meters" });
  const fill = el("i");
  const bar = el("span", { class: "meter", role: "meter", "aria-label": "rounds", "aria-valuemin": 0 }, fill);
  const training = el("div", { class: "training" });
  const note = el("p", { class: "warning", hidden: true });
  const element = el("section", { id: "now" }, el("div", { class: "bar" }, status, what, stop, resume), bar, meters, training, note);

  function button(action, label) {
    return el("button", { type: "button", class: "button", hidden: true, onclick: async (event) => {
      event.target.disabled = true;
      try {
        page.state(await command(run, action));
      } catch (error) {
        page.state(error.message);
      }
    } }, label);
  }

  function meter(name, spent, of, text) {
    const share = of ? Math.min(1, spent / of) : 0;
    const bar = el("span", { class: "meter", role: "meter", "aria-label": name, "aria-valuemin": 0, "aria-valuemax": of ?? 0, "aria-valuenow": spent }, el("i", { style: `width:${(100 * share).toFixed(1)}%` }));
    return el("div", {}, el("span", { class: "muted" }, name), el("strong", {}, text), of ? bar : null);
  }

  function render({ now, control, note: said }) {
    status.className = `status ${now.status}`;
    status.textContent = now.status;
    const pace = now.rate ? (now.rate >= 1 ? `${now.rate.toFixed(1)} rounds a second` : `${(60 * now.rate).toFixed(1)} rounds a minute`) : "";
    const left = now.left !== null ? `about ${duration(now.left)} left` : "";
    what.textContent = [now.phase, pace, left].filter(Boolean).join(" · ");
    // What was spent stands in the answers below; here is how far that is.
    bar.setAttribute("aria-valuemax", now.total);
    bar.setAttribute("aria-valuenow", now.rounds);
    fill.style.width = `${(100 * Math.min(1, now.rounds / now.total)).toFixed(1)}%`;
    meters.replaceChildren(
      ...(now.epsilon_budget ? [meter("epsilon", now.epsilon ?? 0, now.epsilon_budget, `${(now.epsilon ?? 0).toPrecision(3)} of ${now.epsilon_budget}`)] : []),
    );
    const more = now.training_count - now.training.length;
    training.replaceChildren(
      ...(now.training.length ? [el("span", { class: "muted" }, "training now")] : []),
      ...now.training.map((one) => el("a", { class: "chip", href: `#/run/${encodeURIComponent(run)}/trial/${one.trial}` }, one.leads ? "the leading trial" : `trial ${one.trial}`)),
      ...(more > 0 ? [el("span", { class: "muted" }, `and ${more} more`)] : []),
    );
    stop.hidden = !(control && now.status === "running");
    resume.hidden = !(control && now.resumable);
    if (now.status !== render.last) stop.disabled = resume.disabled = false;
    render.last = now.status;
    note.hidden = !said;
    note.textContent = said ? `It could not be resumed: ${said}` : "";
  }

  return { element, render };
}
