// Elements of HTML and SVG. Text is always text: nothing of the job is parsed as HTML.

const SVG = "http://www.w3.org/2000/svg";

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) if (value != null) element.setAttribute(name, value);
  element.append(...children.filter((child) => child != null));
  return element;
}

export const html = (name, attributes = {}, ...children) => filled(document.createElement(name), attributes, children);
export const svg = (name, attributes = {}, ...children) => filled(document.createElementNS(SVG, name), attributes, children);
export const byId = (id) => document.getElementById(id);

// A box that follows the pointer over `element`; `lines(event)` returns its texts, or null for none.
export function tip(element, lines) {
  const box = byId("tip");
  element.addEventListener("pointermove", (event) => {
    const found = lines(event);
    box.hidden = found == null;
    if (found == null) return;
    box.replaceChildren(...found.map((line) => html("div", {}, line)));
    const left = Math.min(event.clientX + 12, window.innerWidth - box.offsetWidth - 8);
    box.style.left = `${Math.max(8, left)}px`;
    box.style.top = `${event.clientY + 16 + box.offsetHeight > window.innerHeight ? event.clientY - box.offsetHeight - 8 : event.clientY + 16}px`;
  });
  element.addEventListener("pointerleave", () => { box.hidden = true; });
}
