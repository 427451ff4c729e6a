// Starts the page: what a section needs is decoded when it is opened.
const LOOKS = read("looks");
const lazily = (id) => {
  let found = null;
  return () => (found = found || read(id) || {});
};
const thumbs = lazily("thumbs");
const figures = lazily("figures");

async function open(section) {
  if (section.dataset.started) return;
  section.dataset.started = "yes";
  const number = section.dataset.section;
  const raw = read(`items-${number}`);
  const items = new Items(raw);
  const box = document.getElementById("explorer").content.cloneNode(true).querySelector(".explorer");
  section.querySelector(".interactive").replaceChildren(box);
  const cards = new Cards(items, LOOKS, thumbs, lazily(`pictures-${number}`));
  const pins = box.querySelector(".pins");
  const pinned = new Map();
  const take = (item) => {
    if (!pinned.has(item)) pinned.set(item, cards.pin(item, () => pinned.delete(item)));
    pins.prepend(pinned.get(item));
    pinned.get(item).scrollIntoView({ block: "nearest" });
  };
  if (items.tags.length > 1 && items.columns.length) new Flips(box, items, cards, take).start(...raw.flips);
  search(box, items, take);
  await explore(box, items, cards, take, raw);
}

async function explore(box, items, cards, take, raw) {
  const controls = { x: box.querySelector(".axis-x"), y: box.querySelector(".axis-y"), spread: box.querySelector(".spread") };
  const scatter = new Scatter(box.querySelector(".plot"), items, LOOKS, controls);
  const panel = box.querySelector(".panel");
  panel.append(make("p", { className: "caption" }, raw.told));
  scatter.seen = (item) => {
    const chosen = [controls.y, controls.x].map((control) => control.value.split(":")).filter(([kind]) => kind === "score");
    panel.replaceChildren(cards.summary(item, [...new Set(chosen.map(([, column]) => Number(column)))]));
  };
  scatter.taken = take;
  await scatter.start(figures()[raw.figure]);
  box.querySelector(".whole").addEventListener("click", () => scatter.plot.whole());
  box.querySelector(".legend").append(...items.tags.map((tag, place) => entry(scatter, tag, place)));
}

function entry(scatter, tag, place) {
  const button = make("button", { type: "button", ariaPressed: "true" }, tagged(tag, LOOKS[tag]));
  button.addEventListener("click", () => { button.ariaPressed = String(scatter.toggle(place)); });
  return button;
}

function search(box, items, take) {
  const [field, found] = [box.querySelector(".search"), box.querySelector(".found")];
  field.addEventListener("input", () => {
    const wanted = field.value.trim().toLowerCase();
    const hits = wanted ? items.names.flatMap((name, item) => (name.toLowerCase().includes(wanted) ? [item] : [])) : [];
    found.hidden = !wanted;
    found.replaceChildren(...hits.slice(0, 20).map((item) => {
      const button = make("button", { type: "button" }, items.names[item]);
      button.addEventListener("click", () => take(item));
      return button;
    }), make("span", { className: "caption" }, hits.length > 20 ? `and ${hits.length - 20} more` : hits.length ? "" : "no item is called so"));
  });
}

for (const table of document.querySelectorAll("table.sortable")) sortable(table);
for (const section of document.querySelectorAll("details.benchmark")) {
  if (section.open) open(section);
  section.addEventListener("toggle", () => { if (section.open) open(section); });
}
for (const link of document.querySelectorAll("nav a")) {
  link.addEventListener("click", () => {
    const aimed = document.getElementById(link.hash.slice(1));
    if (aimed instanceof HTMLDetailsElement) aimed.open = true;
  });
}
const costs = read("costs");
if (costs && costs.length) new Costs(document.getElementById("costs"), costs, LOOKS).start(read("cost-figure"));
for (const query of ["(prefers-color-scheme: dark)", "print"]) matchMedia(query).addEventListener("change", redress);
addEventListener("beforeprint", () => {
  for (const section of document.querySelectorAll("details.benchmark")) section.open = true;
});
