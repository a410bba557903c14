// Text that is meant to be taken along: JSON or a script, with a button that copies it.

function codeOf(text, words) {
  const copy = make("button", { type: "button", onclick: () => copyText(text, copy) }, "Copy");
  return make("div", { class: "json" }, copy, make("pre", { tabindex: 0, role: "region", "aria-label": words }, text));
}

const jsonOf = (text) => codeOf(text, "JSON");

/** Copy where the browser allows it, and select where it does not. */
function copyText(text, button) {
  const done = () => { button.textContent = "Copied"; say("Copied"); };
  const select = () => { getSelection().selectAllChildren(button.nextElementSibling); };
  if (navigator.clipboard) navigator.clipboard.writeText(text).then(done, select);
  else select();
}
