// Elements from names and text. Nothing from a run becomes markup: text goes in as text.

export function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "dataset") Object.assign(made.dataset, value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

// What the server's sections consist of; all else in them is dropped, whatever it may be.
const TAGS = new Set(
  "div p h3 span small strong dl dt dd table thead tbody tr th td ul li details summary pre figure figcaption input output br select option".split(" "),
);
const ATTRIBUTES = new Set(["class", "id", "data-key", "data-folds", "tabindex", "type", "placeholder", "aria-label", "value"]);

// A section's HTML as elements: parsed where nothing runs or loads, then copied by the lists above.
export function copied(html) {
  const parsed = new DOMParser().parseFromString(html, "text/html");
  const found = document.createDocumentFragment();
  for (const child of parsed.body.childNodes) found.append(...copy(child));
  return found;
}

function copy(node) {
  if (node.nodeType === Node.TEXT_NODE) return [document.createTextNode(node.data)];
  if (node.nodeType !== Node.ELEMENT_NODE) return [];
  if (node.matches("script[type='application/json']:is(.figure, .other)")) return [figureData(node)];
  const tag = node.tagName.toLowerCase();
  if (!TAGS.has(tag)) return [];
  const made = document.createElement(tag);
  for (const { name, value } of node.attributes) if (ATTRIBUTES.has(name)) made.setAttribute(name, value);
  if (tag === "div" && /^[0-9.]+px$/.test(node.style.height)) made.style.height = node.style.height;
  for (const child of node.childNodes) made.append(...copy(child));
  return [made];
}

function figureData(node) {
  const made = document.createElement("script");
  made.type = "application/json"; // data: the browser runs no such script
  made.className = node.className === "other" ? "other" : "figure";
  made.textContent = node.textContent;
  return made;
}
