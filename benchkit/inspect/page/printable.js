// Words from files as the page shows them: control letters and those that turn the direction of text are escaped,
// as `benchkit.errors.printable` does it.
const HIDDEN = /[\p{C}\p{Zl}\p{Zp}]|(?! )\p{Zs}/gu;

export function printable(text) {
  return String(text).replace(HIDDEN, (letter) => "\\u{" + letter.codePointAt(0).toString(16) + "}");
}
