"use strict";
for (const table of document.querySelectorAll("table.units")) {
  const body = table.tBodies[0], heads = [...table.tHead.rows[0].cells];
  const value = (row, column) => row.cells[column].dataset.value ?? row.cells[column].textContent;
  const order = (one, other, column, numbers, sign) => {
    const a = value(one, column), b = value(other, column);
    if (a === "" || b === "") return (a === "") - (b === "");  // what is not known stands last
    return sign * (numbers ? a - b : a.localeCompare(b, undefined, { numeric: true }));
  };
  heads.forEach((head, column) => head.querySelector("button").addEventListener("click", () => {
    const numbers = head.classList.contains("number");
    const descending = head.ariaSort ? head.ariaSort === "ascending" : numbers;
    for (const each of heads) each.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", descending ? "descending" : "ascending");
    const sign = descending ? -1 : 1;
    body.append(...[...body.rows].sort((one, other) => order(one, other, column, numbers, sign)));
  }));
  const find = table.closest("section").querySelector(".find");
  const input = find.querySelector("input"), count = find.querySelector("output");
  const narrow = () => {
    const words = input.value.toLowerCase().split(/\s+/);
    let shown = 0;
    for (const row of body.rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
      shown += !row.hidden;
    }
    count.textContent = `${shown} of ${body.rows.length} rows`;
  };
  input.addEventListener("input", narrow);
  find.hidden = false;
  narrow();
}
