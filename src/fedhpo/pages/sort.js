// A click on a column's head sorts the table by it; another click turns the order round. A field above a long
// table keeps the rows that hold what is typed there.
function makeSortable(table) {
  const heads = [...table.querySelectorAll("th")];
  heads.forEach((head, column) => {
    const sort = () => {
      const order = head.dataset.order === "1" ? -1 : 1;
      heads.forEach((other) => {
        delete other.dataset.order;
        other.removeAttribute("aria-sort");
      });
      head.dataset.order = order;
      head.setAttribute("aria-sort", order === 1 ? "ascending" : "descending");
      const key = (row) => row.cells[column].dataset.key;
      const rows = [...table.tBodies[0].rows].sort((a, b) => {
        const [x, y] = [key(a), key(b)];
        if (x === "" || y === "") return (x === "") - (y === "");
        const numbers = !isNaN(x) && !isNaN(y);
        return order * (numbers ? x - y : x.localeCompare(y));
      });
      table.tBodies[0].append(...rows);
    };
    head.addEventListener("click", sort);
    head.addEventListener("keydown", (event) => event.key === "Enter" && sort());
  });
}

function makeFilter(field) {
  const table = field.closest(".filtered").querySelector("table");
  const count = field.parentElement.querySelector("output");
  const keep = () => {
    const wanted = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    let kept = 0;
    for (const row of table.tBodies[0].rows) {
      const told = row.textContent.toLowerCase();
      row.hidden = !wanted.every((word) => told.includes(word));
      kept += !row.hidden;
    }
    count.textContent = wanted.length ? `${kept} of ${table.tBodies[0].rows.length}` : "";
  };
  field.addEventListener("input", keep);
  field.addEventListener("search", keep); // the browser's own button to clear it
}

function makeTables(root = document) {
  root.querySelectorAll("table.sortable").forEach(makeSortable);
  root.querySelectorAll(".filtered input").forEach(makeFilter);
  if (matchMedia("(max-width: 640px)").matches) root.querySelectorAll("table.folds").forEach(makeFolds);
}

// On a phone a row is a card with its first columns; a touch opens the others.
function makeFolds(table) {
  const names = [...table.querySelectorAll("th")].map((head) => head.textContent);
  for (const row of table.tBodies[0].rows) {
    [...row.cells].forEach((cell, column) => {
      cell.dataset.name = names[column];
      if (column >= Number(table.dataset.folds)) cell.classList.add("more");
    });
    row.addEventListener("click", () => row.classList.toggle("open"));
  }
}

makeTables();
