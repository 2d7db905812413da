// The button turns the page from light to dark and back; without a word the reader's system decides.
const kept = (value) => {
  try {
    return value ? localStorage.setItem("fedhpo-theme", value) : localStorage.getItem("fedhpo-theme");
  } catch {
    return null; // a page from a file may keep nothing
  }
};
if (kept()) {
  document.documentElement.dataset.theme = kept();
  redraw();
}
document.getElementById("theme").addEventListener("click", () => {
  document.documentElement.dataset.theme = isDark() ? "light" : "dark";
  kept(document.documentElement.dataset.theme);
  redraw();
});
