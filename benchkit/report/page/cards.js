// One item: its name, thumbnails, scores of every experiment, and where there are some the pictures of all of them.
class Cards {
  constructor(items, looks, thumbs, pictures) {
    Object.assign(this, { items, looks, thumbs, pictures });
  }

  views(item) {
    const sources = this.items.thumbs[item].map((place) => this.thumbs()[place]);
    return sources.map((src) => make("img", { src, alt: "" }));
  }

  summary(item, columns) {
    const thumbs = this.views(item);
    const labels = this.items.categories.map(({ name, codes, labels }) => `${name}: ${labels[codes[item]] || "none"}`);
    return make("div", { className: "item" },
      make("h4", {}, this.items.names[item]),
      make("div", { className: "views" }, ...(thumbs.length ? thumbs : [make("span", { className: "faint" }, "no thumbnail")])),
      labels.length ? make("p", { className: "caption" }, labels.join(", ")) : null,
      this.scores(item, columns));
  }

  scores(item, columns) {
    const heads = columns.map((column) => make("th", { className: "number", scope: "col" }, titled(this.items.columns[column])));
    const rows = this.items.tags.map((tag, place) => make("tr", {},
      make("th", { scope: "row" }, tagged(tag, this.looks[tag])),
      ...columns.map((column) => make("td", { className: "number" }, this.items.shown(column, place, item)))));
    const table = make("table", {}, make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "tag"), ...heads)), make("tbody", {}, ...rows));
    return make("div", { className: "scroll" }, table);
  }

  pin(item, closed) {
    const close = make("button", { type: "button", className: "close", title: "unpin", ariaLabel: "unpin" }, "\u00d7");
    const every = this.items.columns.map((_, column) => column);
    const card = make("article", { className: "pin card" }, close, this.summary(item, every), this.strip(item));
    close.addEventListener("click", () => { card.remove(); closed(); });
    return card;
  }

  strip(item) {
    const found = this.pictures()[item];
    if (!found) return null;
    const shared = found.shared.length ? [this.shots("all", null, found.shared)] : [];
    const own = found.own.flatMap((shots, tag) => (shots.length ? [this.shots(this.items.tags[tag], this.looks[this.items.tags[tag]], shots)] : []));
    return make("div", {}, make("div", { className: "strip" }, ...shared, ...own), this.key(found.key));
  }

  // what colours mean in the pictures of an item
  key(colours) {
    const known = colours.map(([colour, name]) => make("span", { className: "tag" }, swatch({ colour, marker: "square" }), make("span", {}, name)));
    const said = this.items.legend ? [make("span", {}, this.items.legend)] : [];
    return known.length + said.length ? make("p", { className: "caption key" }, ...said, ...known) : null;
  }

  shots(name, look, shots) {
    const title = look ? make("figcaption", {}, tagged(name, look)) : make("figcaption", { className: "faint" }, "image and truth");
    const drawn = shots.map(([caption, src]) => make("span", { className: caption ? "shot" : "shot wide" }, make("img", { src, alt: caption || name }), caption));
    return make("figure", {}, title, make("div", {}, ...drawn));
  }
}
