// Elements from plain values: text only ever goes in as text.
function make(name, properties, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(properties || {})) {
    if (key in made) made[key] = value;
    else made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

function fill(select, options, chosen) {
  select.replaceChildren(...options.map(([value, text]) => make("option", { value, selected: value === chosen }, text)));
}

function swatch(look) {
  const dot = make("i", { className: `swatch ${look.marker}` });
  dot.style.background = look.colour;
  return dot;
}

function tagged(tag, look) {
  return make("span", { className: "tag" }, swatch(look), make("span", {}, tag));
}

function read(name) {
  const block = document.getElementById(`data-${name}`);
  return block === null ? null : JSON.parse(block.textContent);
}
