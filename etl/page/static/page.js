// What the page does beyond HTML: it follows Airflow's theme, opens Airflow's own pages around itself, and stays current.
"use strict";

const framed = window.parent !== window;

function host() {
  try {
    return framed && window.parent.document ? window.parent : null;
  } catch {
    return null; // framed by somebody else
  }
}

// Airflow lets people choose light or dark; inside Airflow that choice counts, elsewhere the system's.
function followTheme() {
  const outer = host();
  if (!outer) return;
  const dark = outer.document.documentElement.classList.contains("dark");
  for (const sheet of document.styleSheets) {
    for (const rule of sheet.cssRules) {
      if (!(rule instanceof CSSMediaRule) || rule.frontstage === undefined && !rule.media.mediaText.includes("dark")) continue;
      rule.frontstage = true;
      rule.media.mediaText = dark ? "screen" : "not all";
    }
  }
  document.documentElement.style.colorScheme = dark ? "dark" : "light";
}

// A frame may not leave its frame: the page around it follows the link instead.
function openAround(event) {
  const link = event.target.closest("a[data-airflow]");
  const outer = host();
  if (!link || !outer) return;
  event.preventDefault();
  const copy = outer.document.createElement("a");
  copy.href = link.href;
  outer.document.body.append(copy);
  copy.click();
  copy.remove();
}

// Parts that say so are fetched again while somebody looks at them, unless they are working inside.
async function refresh(part) {
  const seconds = Number(part.dataset.refresh);
  if (!seconds) return;
  await new Promise((done) => setTimeout(done, 1000 * seconds));
  if (!document.hidden && !part.contains(document.activeElement)) {
    try {
      const answer = await fetch(location.href, { credentials: "same-origin" });
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("[data-refresh]");
      if (answer.ok && fresh) {
        part.replaceWith(fresh);
        part = fresh;
      }
    } catch {
      // the server is away: try again next time
    }
  }
  refresh(part);
}

document.addEventListener("click", openAround);
followTheme();
const outer = host();
if (outer) new MutationObserver(followTheme).observe(outer.document.documentElement, { attributeFilter: ["class"] });
document.querySelectorAll("[data-refresh]").forEach(refresh);
