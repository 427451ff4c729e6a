// What the viewer says, as text: the newest first; errors stay until they are put away.
import { printable } from "./printable.js";

const MOST = 3;
const STAYS = 8000; // ms

export function say(said, error) {
  const text = said.split("\n").map(printable).join("\n");
  const list = document.getElementById("said");
  for (const same of [...list.children].filter((each) => each.firstChild.textContent === text)) same.remove();
  const line = document.createElement("li");
  const words = document.createElement("span");
  words.textContent = text;
  const button = document.createElement("button");
  button.className = "close";
  button.textContent = "\u00d7";
  button.title = "put away";
  button.addEventListener("click", () => line.remove());
  line.classList.toggle("error", Boolean(error));
  line.classList.toggle("passing", text.endsWith(" ...")); // until what it tells of is done
  line.append(words, button);
  list.prepend(line);
  while (list.children.length > MOST) list.lastChild.remove();
  if (!error) setTimeout(() => line.remove(), STAYS);
}

export function passed() {
  for (const line of document.querySelectorAll("#said .passing")) line.remove();
}
