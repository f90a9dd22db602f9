const box = document.getElementById("filter");
const cells = [...document.querySelectorAll(".nights tbody")].map((part) => [part.rows[0].textContent, [...part.rows].slice(1)])
  .concat([...document.querySelectorAll(".folded dl > div")].map((part) => [part.textContent, [part]]));
box.parentElement.hidden = false;
box.addEventListener("input", () => {
  const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
  for (const [project, rows] of cells)
    for (const row of rows) row.hidden = !words.every((word) => `${project} ${row.textContent}`.toLowerCase().includes(word));
});
