// A point for every item and experiment; axes are scores, the items in order, or a category.
const INDEX = "index";
const TAU = 0.618033988749895;

class Scatter {
  constructor(box, items, looks, controls) {
    Object.assign(this, { box, items, looks, controls });
    this.hidden = new Set();
    this.points = [];
    this.seen = () => {};
    this.taken = () => {};
  }

  async start(figure) {
    this.plot = await Plot.into(this.box, figure);
    const choices = this.items.columns.map((column, place) => [`score:${place}`, titled(column)]);
    const categories = this.items.categories.map((each, place) => [`category:${place}`, each.name]);
    const index = [INDEX, "items, by mean score"];
    const first = choices.length ? choices[0][0] : INDEX;
    fill(this.controls.x, [index, ...choices, ...categories], INDEX);
    fill(this.controls.y, [...choices, ...categories, index], first);
    for (const control of Object.values(this.controls)) control.addEventListener("change", () => this.draw());
    this.plot.figure.on_event("mousemove", (event) => this.over(event));
    this.plot.figure.on_event("tap", (event) => this.tapped(event));
    this.draw();
  }

  // {value(tag, item), label, ticks, room} of one axis; room: how far equal values may be spread along it, never where it shows a score
  axis(chosen) {
    const [kind, place] = chosen.split(":");
    if (kind === "score") {
      const column = Number(place);
      return { value: (tag, item) => this.items.score(column, tag, item), label: titled(this.items.columns[column]), room: 0, ticks: null };
    }
    if (kind === "category") {
      const { codes, labels, name } = this.items.categories[Number(place)];
      return { value: (tag, item) => codes[item], label: name, room: 1, ticks: (start, end) => named(labels, start, end) };
    }
    const rank = this.ranks();
    return { value: (tag, item) => rank[item], label: "items, by mean score", room: 1, ticks: null };
  }

  // the place of each item by its mean over experiments in the score that is shown; without one, by name
  ranks() {
    const [kind, place] = this.controls.y.value.split(":");
    const count = this.items.names.length;
    const means = Array.from({ length: count }, (_, item) => {
      const known = kind === "score" ? this.items.tags.map((_, tag) => this.items.score(Number(place), tag, item)).filter(Number.isFinite) : [];
      return known.length ? known.reduce((a, b) => a + b, 0) / known.length : Infinity;
    });
    const order = [...means.keys()].sort((a, b) => (means[a] === means[b] ? a - b : means[a] - means[b]));
    const rank = new Int32Array(count);
    order.forEach((item, at) => { rank[item] = at; });
    return rank;
  }

  draw() {
    const axes = { x: this.axis(this.controls.x.value), y: this.axis(this.controls.y.value) };
    const ends = { x: [Infinity, -Infinity], y: [Infinity, -Infinity] };
    this.points = this.items.tags.map((_, tag) => this.pointsOf(tag, axes, ends));
    this.points.forEach((points, tag) => {
      this.plot.put(`points-${tag}`, { x: points.map((p) => p[0]), y: points.map((p) => p[1]) });
      this.plot.put(`lines-${tag}`, this.means(tag, axes, ends.x));
    });
    this.plot.put("same", { x: [], y: [] });
    for (const way of ["x", "y"]) {
      this.plot.axis(way, axes[way].label, axes[way].ticks);
      this.plot.span(way, ...ends[way]);
    }
  }

  pointsOf(tag, axes, ends) {
    const points = [];
    for (let item = 0; item < this.items.names.length; item++) {
      if (!this.items.has(tag, item)) continue;
      const x = axes.x.value(tag, item) + this.aside(axes.x, this.controls.x, tag, item, 0);
      const y = axes.y.value(tag, item) + this.aside(axes.y, this.controls.y, tag, item, 0.5);
      if (!Number.isFinite(x) || !Number.isFinite(y)) continue;
      points.push([x, y, item, tag]);
      ends.x = [Math.min(ends.x[0], x), Math.max(ends.x[1], x)];
      ends.y = [Math.min(ends.y[0], y), Math.max(ends.y[1], y)];
    }
    return points;
  }

  // how far a point is moved, so that equal ones can be told apart: a lane for each tag, and in it a place that is the same each time
  aside(axis, control, tag, item, shift) {
    if (!axis.room || !this.controls.spread.checked) return 0;
    const lane = (tag + 0.5) / this.items.tags.length - 0.5;
    const within = control.value === INDEX ? 0 : ((item * TAU + shift) % 1) - 0.5;
    return axis.room * 0.7 * (lane + within / this.items.tags.length);
  }

  // mean over the items, of each category where x is one, as dashes
  means(tag, axes, [low, high]) {
    const kind = this.controls.x.value.split(":")[0];
    if (kind === "score" || !this.controls.y.value.startsWith("score")) return { x: [], y: [] };
    const sums = new Map();
    for (let item = 0; item < this.items.names.length; item++) {
      const value = this.items.has(tag, item) ? axes.y.value(tag, item) : NaN;
      if (!Number.isFinite(value)) continue;
      const place = kind === "category" ? axes.x.value(tag, item) : -1;
      const [sum, count] = sums.get(place) || [0, 0];
      sums.set(place, [sum + value, count + 1]);
    }
    const line = { x: [], y: [] };
    for (const [place, [sum, count]] of sums) {
      const [from, to] = kind === "category" ? [place - 0.4, place + 0.4] : [low, high];
      line.x.push(from, to, NaN);
      line.y.push(sum / count, sum / count, NaN);
    }
    return line;
  }

  *shown() {
    for (let tag = 0; tag < this.points.length; tag++) if (!this.hidden.has(tag)) yield* this.points[tag];
  }

  over(event) {
    const point = this.plot.near(event, () => this.shown());
    if (point && point[2] !== this.at) this.mark(point[2]);
  }

  tapped(event) {
    const point = this.plot.near(event, () => this.shown());
    if (!point) return;
    this.mark(point[2]);
    this.taken(point[2]);
  }

  // rings about the points of one item in all experiments, and a thin line through them
  mark(item) {
    this.at = item;
    const same = [...this.shown()].filter((point) => point[2] === item);
    this.plot.put("same", { x: same.map((p) => p[0]), y: same.map((p) => p[1]) });
    this.seen(item);
  }

  toggle(tag) {
    const shown = this.hidden.delete(tag);
    if (!shown) this.hidden.add(tag);
    for (const name of [`points-${tag}-shown`, `lines-${tag}-shown`]) this.plot.show(name, shown);
    return shown;
  }
}

function titled(column) {
  const arrow = { higher: " \u2191", lower: " \u2193" }[column.better] || "";
  return `${column.name}${column.unit ? ` (${column.unit})` : ""}${arrow}`;
}

// labels of categories in view; where they are many, every so many
function named(labels, start, end) {
  const [first, last] = [Math.max(0, Math.ceil(start)), Math.min(labels.length - 1, Math.floor(end))];
  const step = Math.max(1, Math.ceil((last - first + 1) / 24));
  const ticks = [];
  for (let code = first; code <= last; code += step) ticks.push([code, shortened(labels[code] || "(none)", 30)]);
  return ticks;
}
