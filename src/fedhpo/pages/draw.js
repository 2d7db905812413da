// Figures are data; this draws each in the element before it, in the colours of the page's theme.
const DARK = {
  "#1f2933": "#e4e9ee", "#66727f": "#9aa7b4", "#e3e7eb": "#2a333c", "#9aa5b1": "#5a6773", "#ffffff": "#161c22",
  "#0b7285": "#3fb8cc", "#d9730d": "#f29d4b", "#b8c1ca": "#53606c", "#cfd8df": "#33404b", "#f1f3f5": "#232b33",
  "#d5dde3": "#2b3640", "#a9c6cf": "#2a5560", "#76abb9": "#2d7583", "#3f8ea1": "#3396a8",
  "#0072b2": "#4aa8e0", "#d55e00": "#f0813a", "#009e73": "#2fc497", "#cc79a7": "#e09ac2", "#000000": "#e4e9ee",
};

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

// The same value with every colour of the light theme as its partner of the dark one.
function dressed(value) {
  if (typeof value === "string") return DARK[value] ?? value;
  if (Array.isArray(value)) {
    const numbers = typeof value[0] === "number" && typeof value.at(-1) === "number"; // long, and no colours
    return numbers ? value : value.map(dressed);
  }
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, dressed(inner)]));
}

// Of what belongs to trials only those of the chosen status; all without a choice.
let wanted = "";
function chosen(figure) {
  const few = (trace) => {
    const status = trace.meta?.status;
    if (!wanted || !status) return trace;
    const some = (value) => (Array.isArray(value) && value.length === status.length ? value.filter((_, i) => status[i] === wanted) : value);
    const inner = (part) => (part && typeof part === "object" && !Array.isArray(part) ? Object.fromEntries(Object.entries(part).map(([key, value]) => [key, inner(some(value))])) : part);
    const { meta, ...rest } = trace;
    return inner(rest);
  };
  return { ...figure, data: figure.data.map(few) };
}

// A page may ask for its figures before plotly is there.
const plotly = new Promise((done) => {
  if (window.Plotly) done();
  else document.getElementById("plotly")?.addEventListener("load", done);
});

async function drawFigure(place, figure) {
  if (!window.Plotly) await plotly;
  const { data, layout } = isDark() ? dressed(chosen(figure)) : chosen(figure);
  const narrow = place.clientWidth < 420 ? { margin: { ...layout.margin, l: 44, r: 6 } } : {};
  const options = { displaylogo: false, responsive: true, displayModeBar: false };
  return Plotly.react(place, data, { ...layout, ...narrow }, options);
}

function drawAll(root = document) {
  for (const holder of root.querySelectorAll("script[type='application/json'].figure")) {
    const place = holder.previousElementSibling;
    place.figure = JSON.parse(holder.textContent);
    watchPlace(place);
  }
  root.querySelectorAll(".choice").forEach(makeChoice);
  root.querySelectorAll("select.statuses").forEach(makeStatuses);
}

// A list above the trials keeps those of one status, in the table and in all figures.
function makeStatuses(field) {
  const rows = () => field.closest("section").querySelectorAll("tbody tr");
  const show = () => {
    for (const row of rows()) row.classList.toggle("away", field.value !== "" && !row.cells[2].textContent.startsWith(field.value));
  };
  field.value = wanted;
  if (field.selectedIndex < 0) field.value = wanted = "";
  show();
  field.addEventListener("change", () => {
    wanted = field.value;
    show();
    redraw();
  });
}

// A list above a figure chooses which of several is drawn there.
function makeChoice(choice) {
  const field = choice.querySelector("select.axes"), place = choice.querySelector("figure > div");
  const others = [...choice.querySelectorAll("script.other")];
  const show = () => {
    place.figure = JSON.parse(others[field.selectedIndex].textContent);
    watchPlace(place);
  };
  field.addEventListener("change", show);
  if (field.selectedIndex > 0) show();
}

// A figure is drawn when it comes near the screen: a long page is there at once.
const near = new IntersectionObserver(
  (entries) => {
    for (const { target, isIntersecting } of entries) {
      if (!isIntersecting) continue;
      near.unobserve(target);
      target.dataset.drawn = "yes";
      drawFigure(target, target.figure);
    }
  },
  { rootMargin: "400px" },
);

function watchPlace(place) {
  if (place.dataset.drawn) drawFigure(place, place.figure);
  else near.observe(place);
}

function redraw() {
  for (const place of document.querySelectorAll("[data-drawn]")) drawFigure(place, place.figure);
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
addEventListener("beforeprint", () => {
  for (const holder of document.querySelectorAll("script[type='application/json'].figure")) {
    drawFigure(holder.previousElementSibling, holder.previousElementSibling.figure);
  }
});
drawAll();
