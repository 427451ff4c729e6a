// Tables are sorted by a click on a column's name: numbers by their value, what has none last.
function sortable(table) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, place) => {
    const button = head.querySelector("button");
    if (button) button.addEventListener("click", () => sortBy(table, heads, place));
  });
}

function sortBy(table, heads, place) {
  const numeric = heads[place].classList.contains("number");
  const before = heads[place].getAttribute("aria-sort");
  const rising = before ? before === "descending" : !numeric;
  heads.forEach((head) => head.removeAttribute("aria-sort"));
  heads[place].setAttribute("aria-sort", rising ? "ascending" : "descending");
  const rows = [...table.tBodies[0].rows];
  rows.sort((one, other) => compared(one.cells[place], other.cells[place], numeric, rising));
  table.tBodies[0].append(...rows);
}

function compared(one, other, numeric, rising) {
  if (!numeric) return (rising ? 1 : -1) * one.textContent.localeCompare(other.textContent);
  const [a, b] = [one.dataset.value, other.dataset.value];
  if (a === undefined || b === undefined) return (a === undefined) - (b === undefined);
  return (rising ? 1 : -1) * (Number(a) - Number(b));
}
