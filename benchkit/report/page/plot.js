// A plot that Bokeh draws on canvas: its models by name, colours of the page, ticks of our own, and what is near the pointer.
const NEAR = 14; // pixels
const LETTER = 6.5; // pixels of one in labels, about
const TURNED = 0.9; // radians: labels that do not fit side by side
const PLOTS = new Set();

class Plot {
  static async into(box, figure) {
    const views = await Bokeh.embed.embed_item({ ...figure, target_id: box });
    const plot = new Plot(views.roots ? views.roots[0].model.document : views[0].model.document);
    PLOTS.add(plot);
    plot.dress();
    await laidOut(); // what is painted before can leave traces at the edges
    return plot;
  }

  constructor(model) {
    this.document = model;
    this.figure = model.get_model_by_name("plot");
    this.makers = { x: null, y: null };
    this.resized = () => {};
    this.ends = { x: [0, 1], y: [0, 1] };
    this.figure.on_event("doubletap", () => this.whole());
    if (matchMedia("(pointer: coarse)").matches) this.leaveTouches();
    for (const way of ["x", "y"]) {
      this.figure[`${way}_range`].change.connect(() => this.retick(way));
    }
    this.figure.properties.inner_width.change.connect(() => {
      this.retick("x");
      this.resized();
    });
  }

  // a finger that moves over a plot scrolls the page
  leaveTouches() {
    for (const tool of this.figure.toolbar.tools) tool.active = false;
  }

  put(source, data) {
    this.document.get_model_by_name(source).data = data;
  }

  show(name, shown) {
    this.document.get_model_by_name(name).visible = shown;
  }

  span(way, low, high) {
    const empty = !(high >= low);
    const [start, end] = empty ? [0, 1] : [low, high];
    const margin = (end > start ? end - start : Math.abs(start) || 1) * 0.05;
    this.ends[way] = [start - margin, end + margin];
    this.whole();
  }

  // after a zoom
  whole() {
    for (const way of ["x", "y"]) {
      const [start, end] = this.ends[way];
      this.figure[`${way}_range`].setv({ start, end });
      this.retick(way);
    }
  }

  // label of an axis; `maker(start, end)` gives [place, text] of its ticks, null leaves them to Bokeh
  axis(way, label, maker) {
    const axis = this.document.get_model_by_name(`${way}-axis`);
    this.makers[way] = maker;
    axis.axis_label = plain(label);
    if (!maker) {
      axis.setv({ ticker: new (Bokeh.Models.get("BasicTicker"))(), major_label_overrides: new Map(), major_label_orientation: "horizontal" });
    }
  }

  retick(way) {
    const maker = this.makers[way];
    if (!maker) return;
    const axis = this.document.get_model_by_name(`${way}-axis`);
    const range = this.figure[`${way}_range`];
    const ticks = maker(range.start, range.end);
    axis.setv({
      ticker: new (Bokeh.Models.get("FixedTicker"))({ ticks: ticks.map(([place]) => place) }),
      major_label_overrides: new Map(ticks.map(([place, text]) => [place, plain(text)])),
      major_label_orientation: way === "x" && this.crowded(ticks) ? TURNED : "horizontal",
    });
  }

  // whether labels of the x axis would touch if they lay
  crowded(ticks) {
    const longest = Math.max(0, ...ticks.map(([, text]) => text.length));
    return ticks.length * (longest + 2) * LETTER > this.figure.inner_width;
  }

  // the nearest of [x, y, ...rest] to a place of the plot, within some pixels; null where there is none
  near(event, points) {
    const { x_range: x, y_range: y, inner_width: width, inner_height: height } = this.figure;
    const across = width / (x.end - x.start);
    const down = height / (y.end - y.start);
    let best = null;
    let least = NEAR * NEAR;
    for (const point of points()) {
      const away = ((point[0] - event.x) * across) ** 2 + ((point[1] - event.y) * down) ** 2;
      if (away <= least) [best, least] = [point, away];
    }
    return best;
  }

  dress() {
    const style = getComputedStyle(document.documentElement);
    const [text, faint, line, card] = ["--text", "--faint", "--line", "--card"].map((name) => style.getPropertyValue(name).trim());
    this.figure.setv({ background_fill_color: card, border_fill_color: card, outline_line_color: line });
    for (const way of ["x", "y"]) {
      this.document.get_model_by_name(`${way}-axis`).setv({
        axis_label_text_color: text, major_label_text_color: faint, axis_line_color: line,
        major_tick_line_color: line, minor_tick_line_color: null,
      });
      this.document.get_model_by_name(`${way}-grid`).grid_line_color = line;
    }
    for (const name of ["same-line", "same-rings"]) this.document.get_model_by_name(name).glyph.line_color = text;
    this.document.get_model_by_name("names-shown").glyph.setv({ text_color: text, background_fill_color: card });
  }
}

function laidOut() {
  return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
}

// Bokeh would take a text between dollars for TeX
function plain(text) {
  return new (Bokeh.Models.get("PlainText"))({ text: String(text) });
}

function redress() {
  for (const plot of PLOTS) plot.dress();
}
