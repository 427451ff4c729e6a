// The toolbar: it shows what the viewer offers (`choices`) and tells it what was chosen. All words from files are text.
import { printable } from "./printable.js";

let chosen = []; // names of the selected items

export function wire(act) {
  for (const select of document.querySelectorAll("select[data-choice]"))
    select.addEventListener("change", () => {
      act(select.dataset.choice, { to: select.value });
      select.blur(); // so that the next key is the viewer's
    });
  for (const flag of document.querySelectorAll("input[data-flag]"))
    flag.addEventListener("change", () => act(flag.dataset.flag, { on: flag.checked ? "1" : "0" }));
  for (const button of document.querySelectorAll("button[data-act]"))
    button.addEventListener("click", () => act(button.dataset.act));
  const search = document.getElementById("search");
  search.addEventListener("search", () => act("search", { text: search.value }));
  search.addEventListener("keydown", (event) => event.key === "Escape" && search.blur());
  for (const button of document.querySelectorAll("button[data-mode]"))
    button.addEventListener("click", () => act("select", { mode: pressed(button) ? "none" : button.dataset.mode }));
  document.getElementById("save").addEventListener("click", saveNames);
  document.getElementById("experiments").addEventListener("change", (event) => act("toggle", { tag: event.target.value }));
  const keys = document.getElementById("keys-button");
  keys.addEventListener("click", () => {
    const list = document.getElementById("keys");
    list.hidden = !list.hidden;
    keys.setAttribute("aria-expanded", String(!list.hidden));
  });
}

function pressed(button) {
  return button.getAttribute("aria-pressed") === "true";
}

export function fill(choices) {
  document.title = `${printable(choices.benchmark)} - benchkit inspect`;
  document.getElementById("benchmark").textContent = printable(choices.benchmark);
  for (const select of document.querySelectorAll("select[data-choice]"))
    fillSelect(select, choices[select.dataset.from], choices[select.dataset.choice]);
  for (const flag of document.querySelectorAll("input[data-flag]")) flag.checked = Boolean(choices[flag.dataset.flag]);
  fillExperiments(choices.experiments);
  fillKeys(choices.keys);
  const search = document.getElementById("search");
  if (document.activeElement !== search) search.value = choices.search;
  for (const button of document.querySelectorAll("button[data-mode]"))
    button.setAttribute("aria-pressed", String(button.dataset.mode === choices.selecting));
  chosen = choices.selected;
  const save = document.getElementById("save");
  save.hidden = chosen.length === 0;
  save.textContent = `save ${chosen.length} ${chosen.length === 1 ? "name" : "names"}`;
}

// Elements are made anew only for other words, so that nobody's click or open list is lost.
function isNew(element, words) {
  const told = JSON.stringify(words);
  const other = element.dataset.words !== told;
  element.dataset.words = told;
  return other;
}

// Options are a list of values, or an object of values and what they say.
function fillSelect(select, options, value) {
  const pairs = Array.isArray(options) ? options.map((each) => [each, each]) : Object.entries(options);
  if (isNew(select, pairs)) select.replaceChildren(...pairs.map(([each, text]) => new Option(printable(text), each)));
  select.value = value;
  select.parentElement.hidden = pairs.length < 2;
}

function fillExperiments(experiments) {
  const box = document.getElementById("experiments");
  if (isNew(box, experiments.map(({ tag, colour }) => [tag, colour]))) box.replaceChildren(...experiments.map(experiment));
  experiments.forEach(({ visible }, row) => (box.children[row].firstChild.checked = visible));
}

function experiment({ tag, colour }) {
  const label = document.createElement("label");
  const check = document.createElement("input");
  const swatch = document.createElement("i");
  check.type = "checkbox";
  check.value = tag;
  swatch.style.background = colour;
  const name = document.createElement("span");
  name.textContent = label.title = printable(tag);
  label.append(check, swatch, name);
  return label;
}

function fillKeys(keys) {
  if (!isNew(document.getElementById("keys"), keys)) return;
  const terms = keys.flatMap(([key, text]) => {
    const [term, meaning] = [document.createElement("dt"), document.createElement("dd")];
    term.textContent = key;
    meaning.textContent = text;
    return [term, meaning];
  });
  document.getElementById("keys").replaceChildren(...terms);
}

function saveNames() {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([chosen.join("\n") + "\n"], { type: "text/plain" }));
  link.download = "names.txt";
  link.click();
  URL.revokeObjectURL(link.href);
}
