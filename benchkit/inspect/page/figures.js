// Figures of matplotlib (mpl.js) in frames that the page lays out.
import { printable } from "./printable.js";

const figures = new Map(); // key -> { figure, frame, label, shape }
const SCATTER = 0;
const MARGIN = 16; // px between the scatter and the lower edge of the window

mpl.extensions = ["png", "pdf", "svg"];
mpl.default_extension = "png";

export function figureOf(element) {
  const frame = element?.closest?.(".frame");
  const key = frame ? Number(frame.dataset.key) : SCATTER;
  return figures.get(key)?.figure;
}

export function openFigure(key, title, size, { socket, picture, close }) {
  const before = figures.get(key)?.frame;
  const frame = element("section", "frame");
  frame.dataset.key = key;
  if (before) before.replaceWith(frame);
  else document.getElementById(key === SCATTER ? "scatter" : "frames").append(frame);
  const figure = new mpl.figure(key, socket, (_, format) => save(picture(format)), frame);
  const label = dress(figure, frame, title, key === SCATTER ? null : close);
  figures.set(key, { figure, frame, label, shape: size[1] / size[0] });
  follow(figure);
  layOut();
  if (key !== SCATTER && !before) frame.scrollIntoView({ block: "nearest" });
}

export function closeFigure(key) {
  figures.get(key)?.frame.remove();
  figures.delete(key);
  layOut();
}

// Item frames are called by their items.
export function entitle(items) {
  for (const [key, item] of Object.entries(items)) {
    const label = figures.get(Number(key))?.label;
    if (label) label.textContent = printable(item);
  }
}

function element(tag, name, text = "") {
  const made = document.createElement(tag);
  made.className = name;
  made.textContent = text;
  return made;
}

// A head of our own above the canvas, in place of that of mpl.js; returns where its title stands.
function dress(figure, frame, title, close) {
  const head = element("div", "head");
  const label = element("h2", "title", printable(title));
  head.append(label);
  if (close) {
    const button = element("button", "close", "\u00d7");
    button.title = "close (delete)";
    button.addEventListener("click", close);
    head.append(button);
  }
  figure.header.parentElement.remove();
  figure.root.className = "figure";
  figure.root.removeAttribute("style");
  frame.prepend(head);
  const canvas = figure.canvas_div;
  canvas.classList.add("canvas");
  // A new figure takes the focus like a new window does, but not from someone who types, and without scrolling.
  canvas.focus = () => typing() || HTMLElement.prototype.focus.call(canvas, { preventScroll: true });
  return label;
}

function typing() {
  return Boolean(document.activeElement?.matches("input[type=search]"));
}

// The page decides how large a figure is. mpl.js empties its canvas when the page's size changes, draws on it what comes
// next, be it a difference, and acknowledges pictures when they arrive. Here the last picture stays until one of the new
// size is there, and pictures are acknowledged when they are drawn.
function follow(figure) {
  const { canvas, canvas_div: box, rubberband_canvas: band, imageObj: picture, ws: socket } = figure;
  const resize = () => {
    if (box.clientWidth === 0) return; // not in the page any more
    band.width = box.clientWidth;
    band.height = box.clientHeight;
    if (socket.readyState === WebSocket.OPEN) figure.request_resize(box.clientWidth, box.clientHeight);
  };
  figure.resizeObserverInstance.disconnect();
  figure.resizeObserverInstance = new ResizeObserver(resize);
  figure.resizeObserverInstance.observe(box);
  figure.handle_resize = figure.updated_canvas_event = () => {};
  const greet = socket.onopen;
  socket.onopen = () => {
    resize();
    greet();
  };
  picture.onload = () => {
    if (figure.image_mode === "full") {
      for (const side of ["width", "height"]) {
        canvas[side] = picture[side];
        canvas.style[side] = picture[side] / figure.ratio + "px";
      }
    }
    figure.context.drawImage(picture, 0, 0);
    picture.onerror();
  };
  picture.onerror = () => socket.readyState === WebSocket.OPEN && figure.send_message("ack", {});
}

function save(address) {
  const link = document.createElement("a");
  link.href = address;
  link.download = "";
  link.click();
}

function layOut() {
  document.body.classList.toggle("beside", figures.size > 1);
  for (const [key, { figure, frame, shape }] of figures) {
    const width = frame.clientWidth;
    const canvas = figure.canvas_div;
    canvas.style.width = "";
    const room = window.innerHeight - canvas.getBoundingClientRect().top - window.scrollY - figure.root.lastChild.offsetHeight - MARGIN;
    canvas.style.height = (key === SCATTER ? Math.max(320, Math.min(room, width)) : Math.max(160, width * shape)) + "px";
  }
}

new ResizeObserver(layOut).observe(document.body);
window.addEventListener("resize", layOut);
