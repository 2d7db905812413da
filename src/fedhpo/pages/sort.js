// A click on a column's head sorts the table by it; another click turns the order round.
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.querySelectorAll("th")];
  heads.forEach((head, column) => {
    const sort = () => {
      const order = head.dataset.order === "1" ? -1 : 1;
      heads.forEach((other) => delete other.dataset.order);
      head.dataset.order = order;
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
