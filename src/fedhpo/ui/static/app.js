// Which page the address names, and what all pages share: title, state, keys.

import { showList } from "./list.js";
import { showSections } from "./sections.js";

const by = (id) => document.getElementById(id);
let leave = () => {};
let keys = {};

const page = {
  main: by("main"),
  title(title, subtitle) {
    by("title").textContent = title;
    by("subtitle").textContent = subtitle;
    document.title = `${title} · fedhpo`;
  },
  state(text) {
    by("state").textContent = text === "live" ? "live" : text;
    by("state").className = text === "live" ? "live" : "";
  },
  keys(map, text) {
    keys = map;
    by("keys").textContent = text;
  },
};

function where(text, address) {
  by("where").replaceChildren();
  if (!text) return;
  const link = document.createElement("a");
  link.href = address;
  link.textContent = text;
  by("where").append(" / ", link);
}

function route() {
  leave();
  const parts = location.hash.replace(/^#\/?/, "").split("/").map(decodeURIComponent);
  const [kind, ...names] = parts;
  page.state("");
  where("", "");
  page.title("", "");
  scrollTo(0, 0);
  if (kind === "run" && names[1] === "trial") {
    const [run, , trial] = names;
    where(run, `#/run/${encodeURIComponent(run)}`);
    const parameters = [["name", run], ["trial", trial]];
    leave = showSections(page, { path: "trial", run, trial, title: `Trial ${trial}`, names: [run], parameters });
  } else if (kind === "run") {
    leave = showSections(page, { path: "run", run: names[0], names: [names[0]], parameters: [["name", names[0]]] });
  } else if (kind === "compare") {
    leave = showSections(page, { path: "compare", names, parameters: names.map((name) => ["name", name]) });
  } else {
    leave = showList(page);
  }
}

addEventListener("keydown", (event) => {
  const typing = event.target.matches("input[type=search], textarea");
  if (event.key === "Escape" && typing) event.target.blur();
  if (event.ctrlKey || event.metaKey || event.altKey || typing) return;
  if (event.key === "Enter" && event.target.matches("a, button, th, input")) return;
  const action = event.key === "t" ? () => by("theme").click() : keys[event.key];
  if (!action) return;
  event.preventDefault();
  action();
});
addEventListener("hashchange", route);
route();
