// The list of runs: searched, sorted, picked for comparison, and followed.

import { el } from "./dom.js";
import { ask, follow } from "./live.js";
import { age, bytes, score, signed, whole } from "./words.js";

const COLUMNS = [
  ["run", (run) => run.name, false],
  ["status", (run) => run.status, false],
  ["method", (run) => run.method ?? "", false],
  ["score", (run) => run.score, true],
  ["gain", (run) => run.gain, true],
  ["rounds", (run) => run.rounds, true],
  ["traffic", (run) => run.bytes, true],
  ["age", (run) => run.created, true],
];

const absent = (value) => value === null || value === undefined || value === "";

const state = { search: "", column: 7, order: -1, picked: new Set(), at: -1 };

export function showList(page) {
  let runs = [];
  let boards = [];
  const search = el("input", { type: "search", placeholder: "search runs  ( / )", "aria-label": "search runs", value: state.search });
  const picked = el("a", { class: "button", hidden: true });
  const clear = el("button", { type: "button", class: "button quiet", hidden: true }, "clear");
  const count = el("span", { class: "muted" });
  const body = el("tbody");
  const heads = COLUMNS.map(([name, , numeric], column) =>
    el("th", { class: numeric ? "n" : "", tabindex: 0, onclick: () => sortBy(column), onkeydown: (event) => event.key === "Enter" && sortBy(column) }, name),
  );
  const table = el("table", { class: "runs" }, el("thead", {}, el("tr", {}, el("th", { class: "pick", "aria-label": "compare" }), ...heads)), body);
  const empty = el("p", { class: "note", hidden: true });
  const after = el("div");
  page.main.replaceChildren(
    el("section", {}, el("div", { class: "bar" }, search, count, picked, clear), el("div", { class: "scroll" }, table), empty),
    after,
  );
  for (const change of ["input", "search"]) { // the browser's own button to clear it says only the latter
    search.addEventListener(change, () => {
      state.search = search.value;
      render();
    });
  }
  clear.addEventListener("click", () => {
    state.picked.clear();
    render();
  });

  function sortBy(column) {
    state.order = state.column === column ? -state.order : COLUMNS[column][2] ? -1 : 1;
    state.column = column;
    render();
  }

  function shown() {
    const wanted = state.search.toLowerCase().split(/\s+/).filter(Boolean);
    const kept = runs.filter((run) => {
      const told = [run.name, run.status, run.method, run.data, run.verdict].join(" ").toLowerCase();
      return wanted.every((word) => told.includes(word));
    });
    const key = COLUMNS[state.column][1];
    return kept.sort((a, b) => {
      const [x, y] = [key(a), key(b)];
      if (absent(x) || absent(y)) return absent(x) - absent(y); // what is not known goes last, in both orders
      return state.order * (typeof x === "number" ? x - y : String(x).localeCompare(String(y)));
    });
  }

  function pick(name, on) {
    if (on) state.picked.add(name);
    else state.picked.delete(name);
    render();
  }

  function row(run) {
    const box = el("input", { type: "checkbox", "aria-label": `compare ${run.name}`, onclick: (event) => event.stopPropagation(), onchange: (event) => pick(run.name, event.target.checked) });
    box.checked = state.picked.has(run.name);
    const reason = run.reason && run.status !== "running" ? el("small", {}, run.reason) : null;
    const name = el("a", { href: `#/run/${encodeURIComponent(run.name)}` }, run.name);
    const error = run.error ? ` ± ${score(run.error)}` : "";
    const share = run.total ? Math.min(1, (run.rounds ?? 0) / run.total) : 0;
    const meter = run.status === "running" ? el("span", { class: "meter" }, el("i", { style: `width:${Math.round(100 * share)}%` })) : null;
    return el(
      "tr",
      { onclick: (event) => event.target.tagName !== "A" && (location.hash = `#/run/${encodeURIComponent(run.name)}`) },
      el("td", { class: "pick" }, box),
      el("td", { class: "name" }, name, reason),
      el("td", {}, el("span", { class: `status ${run.status.replace(" ", "-")}` }, run.status), meter),
      el("td", {}, run.method ?? "–", el("small", {}, run.data ?? "")),
      el("td", { class: "n" }, score(run.score), el("small", {}, run.metric ?? "")),
      el("td", { class: "n" }, `${signed(run.gain)}${error}`, el("small", {}, run.gain === null ? "" : (run.verdict ?? ""))),
      el("td", { class: "n" }, whole(run.rounds), el("small", {}, run.total ? `of ${whole(run.total)}` : "")),
      el("td", { class: "n" }, bytes(run.bytes)),
      el("td", { class: "n" }, age(run.created)),
    );
  }

  function render() {
    const found = shown();
    heads.forEach((head, column) => {
      if (column === state.column) head.dataset.order = state.order;
      else delete head.dataset.order;
    });
    body.replaceChildren(...found.map(row));
    state.at = Math.min(state.at, found.length - 1);
    body.rows[state.at]?.classList.add("at");
    count.textContent = state.search ? `${found.length} of ${runs.length} runs` : `${runs.length} runs`;
    const names = [...state.picked].filter((name) => runs.some((run) => run.name === name));
    picked.hidden = names.length < 2;
    clear.hidden = names.length === 0;
    picked.textContent = `compare ${names.length} runs`;
    picked.href = `#/compare/${names.map(encodeURIComponent).join("/")}`;
    empty.hidden = runs.length > 0;
    empty.textContent = "No runs here yet: `fedhpo tune study.toml` begins one.";
  }

  function move(step) {
    const rows = [...body.rows];
    document.activeElement?.blur(); // Enter now means the row
    rows[state.at]?.classList.remove("at");
    if (state.at < 0) step = Math.max(step, 1);
    state.at = Math.min(Math.max(0, state.at + step), rows.length - 1);
    rows[state.at]?.classList.add("at");
    rows[state.at]?.scrollIntoView({ block: "nearest" });
  }

  function showBoards() {
    after.replaceChildren();
    boards.forEach(showBoard);
    window.makeTables(after);
  }

  function showBoard(board) {
    const cells = (values, tag) => values.map((value) => el(tag, { class: typeof value === "number" ? "n" : "", dataset: { key: value ?? "" } }, value === null ? "–" : String(value)));
    const made = el("table", { class: "sortable" }, el("thead", {}, el("tr", {}, ...cells(board.columns, "th"))), el("tbody", {}, ...board.rows.map((values) => el("tr", {}, ...cells(values, "td")))));
    after.append(el("section", {}, el("h2", {}, board.title), el("div", { class: "scroll" }, made)));
  }

  page.keys({
    "/": () => search.focus(),
    j: () => move(1),
    k: () => move(-1),
    ArrowDown: () => move(1),
    ArrowUp: () => move(-1),
    Enter: () => body.rows[state.at]?.querySelector("a").click(),
    x: () => body.rows[state.at]?.querySelector("input").click(),
    c: () => picked.hidden || picked.click(),
  }, "/ search · j k move · enter open · x pick · c compare · t theme");

  const stop = follow([], async () => {
    const told = await ask("runs", {});
    page.title("Runs", told.directory);
    runs = told.runs;
    const tables = [told.leaderboard, told.calls].filter(Boolean);
    if (JSON.stringify(boards) !== JSON.stringify(tables)) {
      boards = tables;
      showBoards();
    }
    render();
    return { took: told.took };
  }, page.state);
  const ages = setInterval(render, 30000);
  return () => {
    clearInterval(ages);
    stop();
  };
}
