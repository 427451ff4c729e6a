// Scores of all items of one benchmark, decoded from the page.
function bytesOf(base64) {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return bytes.buffer;
}

class Items {
  constructor(raw) {
    this.tags = raw.tags;
    this.names = raw.items;
    this.columns = raw.columns;
    this.thumbs = raw.thumbs;
    this.present = new Uint8Array(bytesOf(raw.present));
    this.scores = new Float32Array(bytesOf(raw.scores));
    this.categories = raw.categories.map((each) => ({ ...each, codes: new Int32Array(bytesOf(each.codes)) }));
  }

  has(tag, item) {
    return this.present[tag * this.names.length + item] === 1;
  }

  // NaN where undefined, and where the experiment has no such item
  score(column, tag, item) {
    return this.scores[(column * this.tags.length + tag) * this.names.length + item];
  }

  // Few distinct values lie on top of each other: the gap between them, or 0 where there are many
  gap(column) {
    const seen = new Set();
    const size = this.tags.length * this.names.length;
    for (let i = column * size; i < (column + 1) * size; i++) {
      if (Number.isFinite(this.scores[i])) seen.add(this.scores[i]);
      if (seen.size > 12) return 0;
    }
    const known = [...seen].sort((a, b) => a - b);
    const gaps = known.slice(1).map((value, i) => value - known[i]);
    return gaps.length ? Math.min(...gaps) : 0;
  }

  shown(column, tag, item) {
    return this.has(tag, item) ? number(this.score(column, tag, item)) : "\u2013";
  }
}

function number(value) {
  if (!Number.isFinite(value)) return "n/a";
  if (Number.isInteger(value) && Math.abs(value) < 1e6) return String(value).replace("-", "\u2212");
  const digits = Math.abs(value) < 100 ? value.toFixed(4) : value.toFixed(1);
  return digits.replace("-", "\u2212");
}

function signed(value) {
  return (value > 0 ? "+" : "") + number(value);
}

function amount(value) {
  const steps = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];
  const [step, letter] = steps.find(([size]) => Math.abs(value) >= size) || [1, ""];
  return `${Number((value / step).toPrecision(3))}${letter && " " + letter}`;
}
