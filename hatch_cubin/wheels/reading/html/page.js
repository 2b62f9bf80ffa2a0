"use strict";
const texts = new Intl.Collator(undefined, { numeric: true });
for (const table of document.querySelectorAll("table.units")) {
  const heads = [...table.tHead.rows[0].cells];
  const rows = [...table.tBodies[0].rows].map((row) => ({  // read once: there may be thousands
    row,
    text: [...row.cells].slice(0, 3).map((cell) => cell.textContent).join(" ").toLowerCase(),
    values: [...row.cells].map((cell) => cell.dataset.value ?? cell.textContent),
  }));
  const order = (a, b, numbers, sign) => {
    if (a === "" || b === "") return (a === "") - (b === "");  // what is not known stands last
    return sign * (numbers ? a - b : texts.compare(a, b));
  };
  heads.forEach((head, column) => head.querySelector("button").addEventListener("click", () => {
    const numbers = head.classList.contains("number");
    const sorted = head.getAttribute("aria-sort");
    const descending = sorted ? sorted === "ascending" : numbers;
    for (const each of heads) each.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", descending ? "descending" : "ascending");
    const sign = descending ? -1 : 1;
    rows.sort((one, other) => order(one.values[column], other.values[column], numbers, sign));
    const body = table.tBodies[0];
    body.remove();
    body.replaceChildren();  // moved one by one out of a full body, thousands of rows take a minute
    for (const { row } of rows) body.appendChild(row);
    table.append(body);
  }));
  const find = table.closest("section").querySelector(".find");
  const input = find.querySelector("input"), count = find.querySelector("output");
  const narrow = () => {
    const words = input.value.toLowerCase().split(/\s+/);
    let shown = 0;
    for (const { row, text } of rows) {
      row.hidden = !words.every((word) => text.includes(word));
      shown += !row.hidden;
    }
    count.textContent = `${shown} of ${rows.length} rows`;
  };
  input.addEventListener("input", narrow);
  find.hidden = false;
  narrow();
}
