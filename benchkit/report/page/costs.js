// Score against cost of the tags of one board, and the line of those that no other beats in both.
const NAMED = 8; // tags that all have their name beside them; of more only those on the front
const LINE = 15; // pixels
const BESIDE = 13; // pixels from a point to its name
const LONGEST = 40; // letters

class Costs {
  constructor(box, boards, looks) {
    Object.assign(this, { box, boards, looks });
    this.selects = { board: box.querySelector(".cost-board"), cost: box.querySelector(".cost-kind") };
  }

  async start(figure) {
    this.plot = await Plot.into(this.box.querySelector(".plot"), figure);
    fill(this.selects.board, this.boards.map((board, place) => [String(place), `${board.title}: ${board.metric}`]), "0");
    this.selects.board.addEventListener("change", () => this.offer());
    this.selects.cost.addEventListener("change", () => this.draw());
    this.box.querySelector(".whole").addEventListener("click", () => this.plot.whole());
    this.plot.figure.on_event("mousemove", (event) => this.over(event));
    this.plot.resized = () => this.name();
    this.offer();
  }

  over(event) {
    const point = this.plot.near(event, () => this.known.map((each) => [this.place(each.cost), each.value, each]));
    if (point) this.box.querySelector(".cost-told").textContent = `${point[2].tag}: ${number(point[2].value)} at ${amount(point[2].cost)} ${this.selects.cost.value}`;
  }

  offer() {
    const board = this.boards[Number(this.selects.board.value)];
    const kept = this.selects.cost.value;
    const names = board.costs.map((cost) => cost.name);
    fill(this.selects.cost, names.map((name) => [name, name]), names.includes(kept) ? kept : names[0]);
    this.draw();
  }

  draw() {
    const board = this.boards[Number(this.selects.board.value)];
    const cost = board.costs.find((each) => each.name === this.selects.cost.value);
    const known = board.tags.map((tag, row) => ({ tag, row, cost: cost.values[row], value: board.values[row] }))
      .filter((each) => each.cost !== null && each.value !== null);
    const costs = known.map((each) => each.cost);
    const logarithmic = Math.min(...costs) > 0 && Math.max(...costs) > 20 * Math.min(...costs);
    const place = (value) => (logarithmic ? Math.log10(value) : value);
    Object.assign(this, { known, place });
    Object.keys(this.looks).forEach((tag, number) => {
      const own = known.filter((each) => each.tag === tag);
      this.plot.put(`points-${number}`, { x: own.map((each) => place(each.cost)), y: own.map((each) => each.value) });
    });
    const front = cost.front.map((row) => [place(cost.values[row]), board.values[row]]);
    this.plot.put("same", { x: front.map((p) => p[0]), y: front.map((p) => p[1]) });
    const told = known.filter((each) => known.length <= NAMED || cost.front.includes(each.row));
    this.plot.axis("x", cost.name, (start, end) => (logarithmic ? powers(start, end) : rounds(start, end)));
    this.plot.axis("y", `${board.metric}${{ higher: " \u2191", lower: " \u2193" }[board.better] || ""}`, null);
    this.plot.span("x", place(Math.min(...costs)), place(Math.max(...costs)));
    this.plot.span("y", Math.min(...known.map((each) => each.value)), Math.max(...known.map((each) => each.value)));
    this.told = told.map((each) => [place(each.cost), each.value, each.tag]);
    this.name();
    this.box.querySelector(".cost-note").textContent = cost.told;
  }

  // names on the side of their points that has more room, as long as fits there, and not on each other
  name() {
    const { inner_width: width, inner_height: height } = this.plot.figure;
    const share = (way, value) => (value - this.plot.ends[way][0]) / (this.plot.ends[way][1] - this.plot.ends[way][0]);
    const taken = [];
    const made = (this.told || []).map(([x, y, tag]) => ({ x, y, tag, across: share("x", x) * width, from: (1 - share("y", y)) * height }));
    for (const each of made.sort((one, other) => one.from - other.from)) {
      each.left = each.across > width / 2;
      const room = (each.left ? each.across : width - each.across) - BESIDE - 4;
      each.text = shortened(each.tag, Math.min(LONGEST, Math.floor(room / LETTER)));
      const start = each.left ? each.across - BESIDE - each.text.length * LETTER : each.across + BESIDE;
      const box = { start, end: start + each.text.length * LETTER, at: each.from };
      for (const other of taken) if (box.start < other.end && other.start < box.end && box.at - other.at < LINE) box.at = Math.max(box.at, other.at + LINE);
      each.down = box.at - each.from;
      taken.push(box);
    }
    const column = (get) => made.map(get);
    this.plot.put("names", {
      x: column((each) => each.x), y: column((each) => each.y), text: column((each) => each.text), down: column((each) => each.down),
      align: column((each) => (each.left ? "right" : "left")), right: column((each) => (each.left ? -BESIDE : BESIDE)),
    });
  }
}

// 1, 2 and 5 times powers of ten that lie between two logarithms
function powers(start, end) {
  const ticks = [];
  for (let power = Math.floor(start); power <= end; power++) {
    for (const times of end - start > 3 ? [1] : [1, 2, 5]) {
      const place = power + Math.log10(times);
      if (place >= start && place <= end) ticks.push([place, amount(times * 10 ** power)]);
    }
  }
  return ticks;
}

function rounds(start, end) {
  const rough = (end - start) / 6;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((times) => times * power).find((size) => size >= rough);
  const ticks = [];
  for (let k = Math.ceil(start / step); k * step <= end; k++) ticks.push([k * step, amount(k * step)]);
  return ticks;
}
