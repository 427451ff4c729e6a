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
    this.legend = raw.legend;
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

  shown(column, tag, item) {
    return this.has(tag, item) ? number(this.score(column, tag, item)) : "\u2013";
  }
}

function number(value) {
  if (!Number.isFinite(value)) return "n/a";
  if (Number.isInteger(value) && Math.abs(value) < 1e6) return String(value).replace("-", "\u2212");
  const digits = Math.abs(value) < 100 ? value.toFixed(4) : value.toFixed(1);
  return Number(digits) === 0 ? digits.replace("-", "") : digits.replace("-", "\u2212"); // what is shown as 0 has no sign
}

function signed(value) {
  const shown = number(value);
  return (value > 0 && Number(shown) !== 0 ? "+" : "") + shown;
}

function amount(value) {
  const steps = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];
  const rounded = Number(value.toPrecision(3));
  const [step, letter] = steps.find(([size]) => Math.abs(rounded) >= size) || [1, ""];
  return `${Number((rounded / step).toPrecision(15))}${letter && " " + letter}`;
}

// a long name without its middle: beginnings and ends tell names apart
function shortened(text, most) {
  const ends = Math.max(2, most - 1);
  return text.length <= most ? text : `${text.slice(0, Math.ceil(ends / 2))}\u2026${text.slice(text.length - Math.floor(ends / 2))}`;
}
