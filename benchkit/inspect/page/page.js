// The page of one viewer: its control socket opens and closes figures, and carries what the toolbar does.
import { closeFigure, entitle, figureOf, openFigure } from "./figures.js";
import { fill, wire } from "./toolbar.js";
import { passed, say } from "./said.js";

const RETRY = 2000; // ms between looks for a server that went away
const socket = new WebSocket(address("control" + location.search));
let name = ""; // of the window, at the server

function address(path) {
  const url = new URL(path, location.href);
  url.protocol = location.protocol.replace("http", "ws");
  return url.href;
}

function act(action, values = {}) {
  if (socket.readyState === WebSocket.OPEN) socket.send(JSON.stringify({ act: action, values }));
}

// The address holds the state, so that reloading it, or sending it, shows the same.
function remember(state) {
  const query = new URLSearchParams(state);
  const token = new URLSearchParams(location.search).get("token");
  if (token !== null) query.set("token", token);
  history.replaceState(null, "", "?" + query);
}

const told = {
  window: (message) => (name = message.window),
  open: (message) =>
    openFigure(message.open, message.title, message.size, {
      socket: new WebSocket(address(`figure/${name}/${message.open}`)),
      picture: (format) => `picture/${name}/${message.open}.${format}`,
      close: () => act("close", { frame: String(message.open) }),
    }),
  close: (message) => closeFigure(message.close),
  say: (message) => say(message.say, message.error),
  state: (message) => {
    passed();
    remember(message.state);
    fill(message.choices);
    entitle(message.choices.frames);
  },
};

socket.onmessage = (event) => {
  const message = JSON.parse(event.data);
  for (const key of Object.keys(message)) if (Object.hasOwn(told, key)) told[key](message);
};

socket.onclose = () => {
  document.body.classList.add("gone");
  say("The server does not answer any more. This page goes on by itself when it does.", true);
  setInterval(async () => {
    const answer = await fetch("page/page.css", { cache: "no-store" }).catch(() => null);
    if (answer && answer.ok) location.reload();
  }, RETRY);
};

wire(act);

// Keys go to the figure that has the focus, or else to the scatter, and nowhere while something is being typed.
const TYPED_INTO = "select, textarea, input:not([type=checkbox])";
const PRESSES = new Set(["Enter", " ", "Tab"]); // of what has the focus

function key(event, kind) {
  const figure = figureOf(event.target) ?? figureOf(null);
  const own = event.target instanceof Element && event.target.closest(".canvas");
  if (!figure || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.matches?.(TYPED_INTO) || (PRESSES.has(event.key) && !own)) return;
  if (event.key === "/" && kind === "key_press") document.getElementById("search").select();
  event.stopPropagation();
  if (event.key !== "Tab") event.preventDefault(); // arrows would scroll the page
  if (event.repeat || event.key === "/" || figure.ws.readyState !== WebSocket.OPEN) return;
  figure._key = null; // mpl.js waits for a release, which another figure may have got
  figure.key_event(event, kind);
}

document.addEventListener("keydown", (event) => key(event, "key_press"), true);
document.addEventListener("keyup", (event) => key(event, "key_release"), true);
