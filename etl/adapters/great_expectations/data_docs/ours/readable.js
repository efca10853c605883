// All that moves on a page of Data Docs: results that are filtered, details that open, a list that is searched.
"use strict";

function all(selector) { return Array.from(document.querySelectorAll(selector)); }

function show(elements, shown) { elements.forEach(one => { one.hidden = !shown; one.classList.toggle("d-none", !shown); }); }

function showSucceeded(shown) {
  show(all(".hide-succeeded-validation-target-child").map(one => one.parentElement), shown);
  show(all(".hide-succeeded-validation-target"), shown);
  all(".hide-succeeded-validations-column-section-target-child").forEach(one => {
    const section = one.parentElement.parentElement;
    show([section, ...all("a.nav-link").filter(link => link.hash === "#" + section.id)], shown);
  });
}

all("[data-does=showAllValidations], [data-does=hideSucceededValidations]").forEach(button => {
  button.addEventListener("click", () => {
    all("[data-does]").forEach(one => one.classList.toggle("active", one === button));
    showSucceeded(button.dataset.does === "showAllValidations");
  });
});
all("[data-toggle=collapse]").forEach(link => {
  link.addEventListener("click", event => {
    event.preventDefault();
    const details = document.getElementById(link.hash.slice(1));
    if (details) { link.setAttribute("aria-expanded", String(details.classList.toggle("show"))); }
  });
});
all("input[type=search]").forEach(input => {
  const rows = all("tbody tr");
  input.addEventListener("input", () => {
    rows.forEach(row => show([row], row.textContent.toLowerCase().includes(input.value.toLowerCase())));
  });
});
all("[role=tablist] > li").forEach(one => one.setAttribute("role", "presentation"));
