const box = document.getElementById("filter");
box.parentElement.hidden = false;
box.addEventListener("input", () => {
  const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
  for (const each of document.querySelectorAll("[data-cells] tbody tr, [data-cells] .steady li")) {
    const text = (each.closest("[data-cells]").dataset.cells + " " + (each.querySelector("th") || each).textContent).toLowerCase();
    each.hidden = !words.every((word) => text.includes(word));
  }
});
