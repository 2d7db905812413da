// A page of sections: a run, a trial or a comparison, kept as the server's words change.

import { copied, el } from "./dom.js";
import { ask, follow } from "./live.js";
import { nowPanel } from "./now.js";

const slug = (title) => title.toLowerCase().replace(/[^a-z0-9]+/g, "-");

export function showSections(page, what) {
  const shown = new Map(); // title -> { digest, element }
  const panel = what.run && !what.trial ? nowPanel(what.run, page) : null;
  const parts = el("div", { id: "parts" });
  const reading = el("p", { class: "reading", hidden: true, role: "status" });
  page.main.replaceChildren(...(panel ? [panel.element] : []), reading, parts);

  function place(section) {
    const known = shown.get(section.title);
    if (known && (known.digest === section.digest || section.html === undefined)) return known.element;
    const element = el("section", { id: `part-${slug(section.title)}` }, el("h2", {}, section.title), copied(section.html));
    if (known) keepPlots(known.element, element);
    shown.set(section.title, { digest: section.digest, element });
    return element;
  }

  // Plots that were there before are moved over and drawn anew in place, so that nothing flickers.
  function keepPlots(before, after) {
    for (const holder of after.querySelectorAll("script.figure")) {
      const fresh = holder.previousElementSibling;
      const old = fresh.id && [...before.querySelectorAll("figure > div")].find((one) => one.id === fresh.id);
      if (old) {
        old.style.height = fresh.style.height;
        fresh.replaceWith(old);
      }
    }
    const open = [...before.querySelectorAll("details")].map((one) => one.open);
    [...after.querySelectorAll("details")].forEach((one, i) => (one.open = open[i] ?? false));
    const fields = [...before.querySelectorAll("select")];
    [...after.querySelectorAll("select")].forEach((one, i) => {
      if (fields[i] && fields[i].selectedIndex < one.length) one.selectedIndex = fields[i].selectedIndex;
    });
    const typed = before.querySelector(".filtered input")?.value;
    const field = after.querySelector(".filtered input");
    if (typed && field) field.value = typed;
  }

  // One section after the other, with a breath between: the first plot does not wait for a long table.
  async function render(told) {
    page.title(what.title ?? told.title, told.subtitle);
    panel?.render(told);
    reading.hidden = told.share >= 1;
    reading.textContent = `reading the record: ${Math.floor(100 * told.share)}%`;
    const titles = new Set(told.sections.map((section) => section.title));
    for (const [title, { element }] of shown) {
      if (titles.has(title)) continue;
      element.remove();
      shown.delete(title);
    }
    for (const [i, section] of told.sections.entries()) {
      const before = shown.get(section.title)?.element;
      const element = place(section);
      if (before && before !== element) before.replaceWith(element);
      if (parts.children[i] !== element) parts.insertBefore(element, parts.children[i] ?? null);
      if (before === element) continue;
      window.makeTables(element);
      element.querySelector(".filtered input")?.dispatchEvent(new Event("input"));
      if (what.run && !what.trial) linkTrials(element, what.run);
      window.drawAll(element);
      await new Promise((done) => setTimeout(done));
      if (!parts.isConnected) return; // the reader has gone on to another page
    }
  }

  const step = (by) => {
    const all = [...parts.children];
    const at = all.findIndex((one) => one.getBoundingClientRect().bottom > 80);
    all[Math.min(Math.max(0, at + by), all.length - 1)]?.scrollIntoView({ behavior: "smooth" });
  };
  const back = () => (location.hash = what.trial ? `#/run/${encodeURIComponent(what.run)}` : "#/");
  page.keys({ j: () => step(1), k: () => step(-1), Escape: back, u: back }, "j k next part · u back · t theme");

  return follow(what.names, async () => {
    const have = [...shown.values()].map((one) => one.digest).join(",");
    const parameters = new URLSearchParams(what.parameters);
    parameters.append("have", have);
    try {
      const told = await ask(what.path, parameters);
      await render(told);
      return { took: told.took, more: told.share < 1 ? 50 : told.more ? 1000 : 0 };
    } catch (error) {
      reading.hidden = error instanceof TypeError; // no answer: what is shown stays
      reading.textContent = error.message;
      throw error;
    }
  }, page.state);
}

// In the table of trials each number leads to its trial.
function linkTrials(section, run) {
  if (section.id !== "part-trials") return;
  for (const row of section.querySelectorAll("tbody tr")) {
    const cell = row.cells[0];
    cell.replaceChildren(el("a", { href: `#/run/${encodeURIComponent(run)}/trial/${cell.dataset.key}` }, cell.textContent));
  }
}
