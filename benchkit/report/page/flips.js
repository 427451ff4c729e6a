// Items on which two experiments differ most, both ways.
const STEP = 10;

class Flips {
  constructor(box, items, cards, take) {
    const part = (name) => box.querySelector(name);
    Object.assign(this, { items, cards, take });
    this.selects = { a: part(".flip-a"), b: part(".flip-b"), score: part(".flip-score") };
    this.count = part(".flip-count");
    this.lists = part(".flips");
    part(".flipping").hidden = false;
    part(".swap").addEventListener("click", () => this.swap());
  }

  start(first, second) {
    const tags = this.items.tags.map((tag, place) => [String(place), tag]);
    fill(this.selects.a, tags, String(first));
    fill(this.selects.b, tags, String(second));
    fill(this.selects.score, this.items.columns.map((column, place) => [String(place), titled(column)]), "0");
    for (const select of Object.values(this.selects)) select.addEventListener("change", () => this.draw());
    this.draw();
  }

  swap() {
    [this.selects.a.value, this.selects.b.value] = [this.selects.b.value, this.selects.a.value];
    this.draw();
  }

  draw() {
    const [a, b, column] = [this.selects.a, this.selects.b, this.selects.score].map((select) => Number(select.value));
    const lower = this.items.columns[column].better === "lower";
    const found = [];
    let lacking = 0;
    for (let item = 0; item < this.items.names.length; item++) {
      const by = this.items.score(column, b, item) - this.items.score(column, a, item);
      if (Number.isFinite(by)) found.push({ item, by });
      else lacking++;
    }
    const better = found.filter(({ by }) => (lower ? by < 0 : by > 0)).sort(larger);
    const worse = found.filter(({ by }) => (lower ? by > 0 : by < 0)).sort(larger);
    const equal = found.length - better.length - worse.length;
    this.count.textContent = `B (${this.items.tags[b]}) is better on ${better.length}, A (${this.items.tags[a]}) on ${worse.length}, equal on ${equal}`
      + (lacking ? `; ${lacking} have no score of both.` : ".");
    this.lists.replaceChildren(this.list("B better", better, [a, b, column], "up"), this.list("A better", worse, [a, b, column], "down"));
  }

  list(title, flips, [a, b, column], way) {
    const entries = make("ol", {});
    const more = make("button", { type: "button", className: "more" }, "more");
    let shown = 0;
    const grow = () => {
      for (const { item, by } of flips.slice(shown, shown + STEP)) entries.append(make("li", {}, this.entry(item, by, [a, b, column], way)));
      shown += STEP;
      more.hidden = shown >= flips.length;
    };
    more.addEventListener("click", grow);
    grow();
    return make("div", {}, make("h4", {}, title), flips.length ? entries : make("p", { className: "caption" }, "none"), more);
  }

  entry(item, by, [a, b, column], way) {
    const both = `${this.items.shown(column, a, item)} \u2192 ${this.items.shown(column, b, item)}`;
    const entry = make("button", { type: "button", className: "flip" },
      make("span", { className: "small" }, ...this.cards.views(item)),
      make("span", {}, this.items.names[item]),
      make("span", { className: "both" }, both),
      make("span", { className: `by ${way}` }, signed(by)));
    entry.addEventListener("click", () => this.take(item));
    return entry;
  }
}

function larger(one, other) {
  return Math.abs(other.by) - Math.abs(one.by) || one.item - other.item;
}
