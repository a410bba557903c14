// Light, dark, or as the system has it; what was chosen is kept where the browser allows it.

const THEMES = ["auto", "light", "dark"];
const theme = document.getElementById("theme");

function setTheme(name) {
  document.documentElement.dataset.theme = name;
  theme.textContent = `Theme: ${name}`;
}
theme.addEventListener("click", () => {
  const next = THEMES[(THEMES.indexOf(document.documentElement.dataset.theme) + 1) % THEMES.length];
  setTheme(next);
  try { localStorage.setItem("holdfast-theme", next); } catch { /* not every page may keep things */ }
});
let lastTheme = null;
try { lastTheme = localStorage.getItem("holdfast-theme"); } catch { /* the same */ }
setTheme(THEMES.includes(lastTheme) ? lastTheme : "auto");
